#include "answers.h"
#include "call.h"

#include <string.h>

enum { GSP_VERSION_LENGTH = 64 }; /* NVML_GSP_FIRMWARE_VERSION_BUF_SIZE */

/* --- what the state file may say --------------------------------------------------------------------------------- */

static const struct {
    const char *function;
    int values;
    bool of_gpu;
} known[] = {
#define TEXT(function) {#function, ANSWERED_IN_TEXT, true},
#define NUMBERS(function, type, count) {#function, count, true},
#define TWO(function) {#function, 2, true},
#define EACH(function, count) {#function, count, true},
#define SYSTEM_NUMBERS(function, type, count) {#function, count, false},
#include "answers.inc"
#undef TEXT
#undef NUMBERS
#undef TWO
#undef EACH
#undef SYSTEM_NUMBERS
};

#define LARGEST(count) _Static_assert((count) <= MAX_ANSWER_VALUES, "an answer has no room");

int answer_values(const char *function, bool of_gpu)
{
    for (size_t index = 0; index < sizeof known / sizeof *known; index++)
        if (known[index].of_gpu == of_gpu && strcmp(known[index].function, function) == 0)
            return known[index].values;
    return NOT_ANSWERED;
}

/* --- the functions ----------------------------------------------------------------------------------------------- */

/* The last line of a function, as with every other key. */
static const struct answer *find(const struct answers *answers, const char *function)
{
    for (int index = answers->count - 1; index >= 0; index--)
        if (strcmp(answers->list[index].function, function) == 0)
            return &answers->list[index];
    return NULL;
}

/* NULL where any of them is unknown. */
static const long long *numbers(const struct answers *answers, const char *function, int count)
{
    const struct answer *answer = find(answers, function);
    for (int index = 0; answer != NULL && index < count; index++)
        if (answer->numbers[index] == UNKNOWN)
            return NULL;
    return answer == NULL ? NULL : answer->numbers;
}

#define COPY_NUMBERS(answers, type, count)                          \
    REQUIRE_ARGUMENT(values != NULL);                               \
    const long long *found = numbers(&(answers), __func__, count);  \
    REQUIRE(found != NULL, NVML_ERROR_NOT_SUPPORTED);               \
    for (int index = 0; index < (count); index++)                   \
        values[index] = (type)found[index];                         \
    return NVML_SUCCESS

#define TEXT(function)                                                                        \
    NVML_FUNCTION function(nvmlDevice_t device, char *buffer, unsigned int length)            \
    {                                                                                         \
        BEGIN(GPU_ONLY, device);                                                              \
        const struct answer *answer = find(&call.gpu->answers, __func__);                     \
        return give_text(buffer, length, answer == NULL ? NULL : answer->text);               \
    }

#define NUMBERS(function, type, count)                                                        \
    LARGEST(count)                                                                            \
    NVML_FUNCTION function(nvmlDevice_t device, type *values)                                 \
    {                                                                                         \
        BEGIN(GPU_ONLY, device);                                                              \
        COPY_NUMBERS(call.gpu->answers, type, count);                                         \
    }

#define SYSTEM_NUMBERS(function, type, count)                                                 \
    LARGEST(count)                                                                            \
    NVML_FUNCTION function(type *values)                                                      \
    {                                                                                         \
        BEGIN(SYSTEM, NULL);                                                                  \
        COPY_NUMBERS(call.machine->answers, type, count);                                     \
    }

#define TWO(function)                                                                         \
    NVML_FUNCTION function(nvmlDevice_t device, unsigned int *first, unsigned int *second)    \
    {                                                                                         \
        BEGIN(GPU_ONLY, device);                                                              \
        REQUIRE_ARGUMENT(first != NULL && second != NULL);                                    \
        const long long *found = numbers(&call.gpu->answers, __func__, 2);                    \
        REQUIRE(found != NULL, NVML_ERROR_NOT_SUPPORTED);                                     \
        *first = (unsigned int)found[0];                                                      \
        *second = (unsigned int)found[1];                                                     \
        return NVML_SUCCESS;                                                                  \
    }

#define EACH(function, count)                                                                 \
    LARGEST(count)                                                                            \
    NVML_FUNCTION function(nvmlDevice_t device, unsigned int which, unsigned int *value)      \
    {                                                                                         \
        BEGIN(GPU_ONLY, device);                                                              \
        REQUIRE_ARGUMENT(which < (count) && value != NULL);                                   \
        const struct answer *answer = find(&call.gpu->answers, __func__);                     \
        REQUIRE(answer != NULL && answer->numbers[which] != UNKNOWN, NVML_ERROR_NOT_SUPPORTED); \
        *value = (unsigned int)answer->numbers[which];                                        \
        return NVML_SUCCESS;                                                                  \
    }

#include "answers.inc"

/* This firmware comes with the driver and bears its version. */
NVML_FUNCTION nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    BEGIN(GPU_ONLY, device);
    const long long *mode = numbers(&call.gpu->answers, "nvmlDeviceGetGspFirmwareMode", 2);
    REQUIRE(mode != NULL && mode[0] == 1, NVML_ERROR_NOT_SUPPORTED);
    return give_text(version, GSP_VERSION_LENGTH, call.machine->driver_version);
}
