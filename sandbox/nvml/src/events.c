/*
 * Events: a program registers for some kinds on some GPUs and waits. They happen by appearing in the state file, where each
 * carries a number of its own; what stood there before a program registered is not told to it.
 */
#include "call.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { MAX_SETS = 64, POLL_MILLISECONDS = 20, ERROR_MILLISECONDS = 200 };

static struct event_set {
    bool taken;
    unsigned long long types[MAX_GPUS]; /* registered for */
    long long told[MAX_GPUS];           /* the last number told, or there at registration */
} sets[MAX_SETS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct event_set *find_set(nvmlEventSet_t handle)
{
    for (int index = 0; index < MAX_SETS; index++)
        if (handle == &sets[index] && sets[index].taken)
            return &sets[index];
    return NULL;
}

static long long last_of(const struct gpu *gpu)
{
    long long last = 0;
    for (int index = 0; index < gpu->event_count; index++)
        if (gpu->events[index].sequence > last)
            last = gpu->events[index].sequence;
    return last;
}

NVML_FUNCTION nvmlEventSetCreate(nvmlEventSet_t *made)
{
    BEGIN(SYSTEM, NULL);
    REQUIRE_ARGUMENT(made != NULL);
    nvmlReturn_t result = NVML_ERROR_MEMORY;
    pthread_mutex_lock(&mutex);
    for (int index = 0; index < MAX_SETS && result != NVML_SUCCESS; index++) {
        if (sets[index].taken)
            continue;
        sets[index] = (struct event_set){.taken = true};
        *made = &sets[index];
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

NVML_FUNCTION nvmlEventSetFree(nvmlEventSet_t handle)
{
    BEGIN(SYSTEM, NULL);
    pthread_mutex_lock(&mutex);
    struct event_set *set = find_set(handle);
    if (set != NULL)
        set->taken = false;
    pthread_mutex_unlock(&mutex);
    return set == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(types != NULL);
    if (call.gpu->event_types != UNKNOWN)
        *types = (unsigned long long)call.gpu->event_types;
    else /* single-bit and double-bit ECC errors, critical Xid errors */
        *types = call.gpu->ecc[0] == UNKNOWN ? NVML_EVENT_XID : (NVML_EVENT_XID | 0x1 | 0x2);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle)
{
    BEGIN(DEVICE, device);
    pthread_mutex_lock(&mutex);
    struct event_set *set = find_set(handle);
    if (set != NULL) {
        set->types[call.gpu->slot] |= types;
        set->told[call.gpu->slot] = last_of(call.gpu);
    }
    pthread_mutex_unlock(&mutex);
    return set == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

/* The first event that the set has not been told; marks it as told. */
static bool take_event(struct event_set *set, const struct gpu *gpu, nvmlEventData_t *data)
{
    const struct event *first = NULL;
    for (int index = 0; index < gpu->event_count; index++) {
        const struct event *event = &gpu->events[index];
        bool wanted = event->sequence > set->told[gpu->slot] && (set->types[gpu->slot] & (unsigned long long)event->type) != 0;
        if (wanted && (first == NULL || event->sequence < first->sequence))
            first = event;
    }
    if (first == NULL)
        return false;
    set->told[gpu->slot] = first->sequence;
    *data = (nvmlEventData_t){
        .device = handle_of_gpu(gpu),
        .eventType = (unsigned long long)first->type,
        .eventData = (unsigned long long)first->data,
        .gpuInstanceId = first->instance == UNKNOWN ? NVML_NO_INSTANCE : (unsigned int)first->instance,
        .computeInstanceId = first->compute == UNKNOWN ? NVML_NO_INSTANCE : (unsigned int)first->compute,
    };
    return true;
}

/* Whether a set has registered for anything on a GPU; false too where there is no such set. */
static bool watches(nvmlEventSet_t handle, const struct gpu *gpu)
{
    pthread_mutex_lock(&mutex);
    const struct event_set *set = find_set(handle);
    bool watched = set != NULL && set->types[gpu->slot] != 0;
    pthread_mutex_unlock(&mutex);
    return watched;
}

/* NVML_ERROR_TIMEOUT where nothing new has happened. */
static nvmlReturn_t look(const char *function, nvmlEventSet_t handle, nvmlEventData_t *data)
{
    __attribute__((cleanup(call_end))) struct call call = {.lock = -1};
    nvmlReturn_t result = call_begin(&call, function, SYSTEM, NULL, false);
    /* Faults come before the mutex: one that hangs must not hold it. */
    for (int index = 0; result == NVML_SUCCESS && index < call.machine->gpu_count; index++)
        if (watches(handle, call.machine->gpus[index]))
            result = call_meets(function, call.machine->gpus[index]);
    if (result != NVML_SUCCESS)
        return result;
    pthread_mutex_lock(&mutex);
    struct event_set *set = find_set(handle);
    result = set == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_TIMEOUT;
    for (int index = 0; index < call.machine->gpu_count && result == NVML_ERROR_TIMEOUT; index++)
        if (take_event(set, call.machine->gpus[index], data))
            result = NVML_SUCCESS;
    pthread_mutex_unlock(&mutex);
    return result;
}

static long long milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000LL;
}

/* NVIDIA's device plugin asks again at once after an error, and writes two lines to its log for each: of a lost GPU it filled
 * 400 MB in five minutes and kept more than a core busy. How fast a real driver answers then is not known. */
static void pause_before_error(unsigned int timeout_milliseconds)
{
    unsigned int pause = timeout_milliseconds < ERROR_MILLISECONDS ? timeout_milliseconds : ERROR_MILLISECONDS;
    nanosleep(&(struct timespec){.tv_nsec = pause * 1000000L}, NULL);
}

NVML_FUNCTION nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_milliseconds)
{
    REQUIRE_ARGUMENT(data != NULL);
    long long end = milliseconds_now() + timeout_milliseconds;
    for (;;) {
        nvmlReturn_t result = look(__func__, handle, data);
        if (result != NVML_SUCCESS && result != NVML_ERROR_TIMEOUT)
            pause_before_error(timeout_milliseconds);
        if (result != NVML_ERROR_TIMEOUT || milliseconds_now() >= end)
            return result;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MILLISECONDS * 1000000L}, NULL);
    }
}
