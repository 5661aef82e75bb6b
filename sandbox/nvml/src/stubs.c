/*
 * Every other NVML function that pynvml knows: there, and not supported. A fault of the state file may still meet it.
 *
 * They take whatever they are called with and look at none of it, which the C calling conventions of Linux allow.
 */
#include "call.h"

static nvmlReturn_t answer(const char *function)
{
    __attribute__((cleanup(call_end))) struct call call = {.lock = -1};
    nvmlReturn_t result = call_begin(&call, function, SYSTEM, NULL, false);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

#define NOT_SUPPORTED(name)  \
    NVML_FUNCTION name(void) \
    {                        \
        return answer(#name); \
    }

#include "stubs.inc"
