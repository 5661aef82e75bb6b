/*
 * What every NVML function does first: is the library initialised, what does the state file say now, is a fault switched on,
 * and what does the handle name.
 */
#ifndef GPU_POOLS_CALL_H
#define GPU_POOLS_CALL_H

#include "nvml_types.h"
#include "state.h"

#define NVML_FUNCTION __attribute__((visibility("default"))) nvmlReturn_t

/* What a function takes as its first handle. DEVICE is a GPU or a MIG device, GPU_ONLY refuses MIG devices. */
enum target { STARTING, SYSTEM, DEVICE, GPU_ONLY, GPU_INSTANCE, COMPUTE_INSTANCE };

struct call {
    struct machine *machine;
    struct gpu *gpu;
    struct instance *instance; /* of a MIG device, a GPU instance or a compute instance */
    struct compute *compute;   /* of a MIG device or a compute instance */
    int lock;                  /* -1: not held */
};

nvmlReturn_t call_begin(struct call *call, const char *function, enum target target, const void *handle, bool change);
void call_end(struct call *call);

/* Whether the process is in a container, which is told nothing of others' processes. */
bool call_is_contained(void);

/* Keeps what a call changed. */
nvmlReturn_t call_save(const struct call *call);

/* What a fault of this GPU says to a function that finds it by index, UUID or address. */
nvmlReturn_t call_meets(const char *function, const struct gpu *gpu);

#define BEGIN_AS(target, handle, change)                                                        \
    __attribute__((cleanup(call_end))) struct call call = {.lock = -1};                         \
    nvmlReturn_t begun = call_begin(&call, __func__, target, (const void *)(handle), change);   \
    if (begun != NVML_SUCCESS)                                                                  \
        return begun
#define BEGIN(target, handle) BEGIN_AS(target, handle, false)
#define BEGIN_CHANGE(target, handle) BEGIN_AS(target, handle, true)

#define REQUIRE(condition, error) \
    do {                          \
        if (!(condition))         \
            return error;         \
    } while (0)
#define REQUIRE_ARGUMENT(condition) REQUIRE(condition, NVML_ERROR_INVALID_ARGUMENT)

/* Starting and stopping; false where the library was not started. */
void call_started(void);
bool call_stopped(void);

/* Handles are addresses in a static array, so they stay good after a program closes and opens the library again. */
const void *handle_of_gpu(const struct gpu *gpu);
const void *handle_of_instance(const struct gpu *gpu, const struct instance *instance);
const void *handle_of_compute(const struct gpu *gpu, const struct instance *instance, const struct compute *compute);
const void *handle_of_mig_device(const struct gpu *gpu, const struct instance *instance, const struct compute *compute);

/* Copies a string into a caller's buffer as NVML does. */
nvmlReturn_t give_text(char *buffer, unsigned int length, const char *text);

#endif
