#include "call.h"

#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int started;

/* --- handles ----------------------------------------------------------------------------------------------------- */

enum handle_kind { OF_GPU, OF_MIG_DEVICE, OF_INSTANCE, OF_COMPUTE, HANDLE_KINDS };

static const char handles[HANDLE_KINDS][MAX_GPUS][MAX_INSTANCES][MAX_COMPUTES];

const void *handle_of_gpu(const struct gpu *gpu)
{
    return &handles[OF_GPU][gpu->slot][0][0];
}

const void *handle_of_instance(const struct gpu *gpu, const struct instance *instance)
{
    return &handles[OF_INSTANCE][gpu->slot][instance->id][0];
}

const void *handle_of_compute(const struct gpu *gpu, const struct instance *instance, const struct compute *compute)
{
    return &handles[OF_COMPUTE][gpu->slot][instance->id][compute->id];
}

const void *handle_of_mig_device(const struct gpu *gpu, const struct instance *instance, const struct compute *compute)
{
    return &handles[OF_MIG_DEVICE][gpu->slot][instance->id][compute->id];
}

/* Which of the four, and by which numbers; false for an address that is no handle. */
static bool decode(const void *handle, enum handle_kind *kind, int *slot, int *instance, int *compute)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)handles;
    if (handle == NULL || offset >= sizeof handles)
        return false;
    *compute = (int)(offset % MAX_COMPUTES);
    offset /= MAX_COMPUTES;
    *instance = (int)(offset % MAX_INSTANCES);
    offset /= MAX_INSTANCES;
    *slot = (int)(offset % MAX_GPUS);
    *kind = (enum handle_kind)(offset / MAX_GPUS);
    return true;
}

static bool suits(enum target target, enum handle_kind kind)
{
    switch (target) {
    case DEVICE:
        return kind == OF_GPU || kind == OF_MIG_DEVICE;
    case GPU_ONLY:
        return kind == OF_GPU;
    case GPU_INSTANCE:
        return kind == OF_INSTANCE;
    case COMPUTE_INSTANCE:
        return kind == OF_COMPUTE;
    default:
        return false;
    }
}

/* Finds what a handle names in the machine as it is now. */
static nvmlReturn_t resolve(struct call *call, enum target target, const void *handle)
{
    enum handle_kind kind;
    int slot, instance, compute;
    if (!decode(handle, &kind, &slot, &instance, &compute) || !suits(target, kind))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int index = 0; index < call->machine->gpu_count; index++)
        if (call->machine->gpus[index]->slot == slot)
            call->gpu = call->machine->gpus[index];
    if (call->gpu == NULL)
        return NVML_ERROR_GPU_IS_LOST; /* it was there when the handle was given out */
    if (kind == OF_GPU)
        return NVML_SUCCESS;
    for (int index = 0; index < call->gpu->instance_count; index++)
        if (call->gpu->instances[index].id == instance)
            call->instance = &call->gpu->instances[index];
    if (call->instance == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (kind == OF_INSTANCE)
        return NVML_SUCCESS;
    for (int index = 0; index < call->instance->compute_count; index++)
        if (call->instance->computes[index].id == compute)
            call->compute = &call->instance->computes[index];
    return call->compute == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

/* --- faults ------------------------------------------------------------------------------------------------------ */

static void sleep_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* In the order of the file, so that a call may first hang and then fail. */
static nvmlReturn_t meet(const struct faults *faults, const char *function)
{
    for (int index = 0; index < faults->count; index++) {
        const struct fault *fault = &faults->list[index];
        if (fnmatch(fault->function, function, 0) != 0)
            continue;
        if (fault->error != 0)
            return (nvmlReturn_t)fault->error;
        sleep_for(fault->hang_seconds);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t call_meets(const char *function, const struct gpu *gpu)
{
    return meet(&gpu->faults, function);
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

/* A pod that asked for a GPU is given the driver's libraries, its GPUs' device files and their firmware, and no more: there the
   state comes with the firmware, which nothing changes. A real driver has it in the kernel. */
static const char *firmware_path(void)
{
    static _Thread_local char path[PATH_MAX];
    glob_t found;
    path[0] = '\0';
    if (glob("/lib/firmware/nvidia/*/gsp_simulated.bin", 0, NULL, &found) == 0 && strlen(found.gl_pathv[0]) < sizeof path)
        strcpy(path, found.gl_pathv[0]);
    globfree(&found);
    return *path == '\0' ? NULL : path;
}

/* NULL where none is given. */
static const char *given_path(void)
{
    const char *path = getenv("GPU_POOLS_NVML_STATE");
    return path == NULL || *path == '\0' ? NULL : path;
}

static const char *state_path(void)
{
    const char *path = given_path();
    return path == NULL ? firmware_path() : path;
}

bool call_is_contained(void)
{
    return getenv("GPU_POOLS_NVML_CONTAINED") != NULL || given_path() == NULL;
}

/* GPUs whose device file is not there are nobody's to see. */
static void leave_out_others(struct machine *machine)
{
    int count = 0;
    for (int index = 0; index < machine->gpu_count; index++) {
        char device[64];
        snprintf(device, sizeof device, "/dev/nvidia%lld", machine->gpus[index]->minor);
        if (access(device, F_OK) == 0)
            machine->gpus[count++] = machine->gpus[index];
        else
            free(machine->gpus[index]);
    }
    machine->gpu_count = count;
}

static nvmlReturn_t load(struct call *call, enum target target, const void *handle)
{
    bool broken = false;
    const char *path = state_path();
    machine_free(call->machine);
    *call = (struct call){.lock = call->lock};
    call->machine = path == NULL ? NULL : machine_read(path, &broken);
    if (call->machine != NULL && given_path() == NULL)
        leave_out_others(call->machine);
    if (call->machine == NULL)
        return broken ? NVML_ERROR_UNKNOWN : NVML_ERROR_DRIVER_NOT_LOADED;
    return target == STARTING || target == SYSTEM ? NVML_SUCCESS : resolve(call, target, handle);
}

nvmlReturn_t call_begin(struct call *call, const char *function, enum target target, const void *handle, bool change)
{
    if (target != STARTING && atomic_load(&started) == 0)
        return NVML_ERROR_UNINITIALIZED;
    nvmlReturn_t result = load(call, target, handle);
    if (call->machine != NULL) {
        /* A fault comes first: what hangs or is forbidden does not look at its arguments. */
        nvmlReturn_t met = meet(&call->machine->faults, function);
        if (met == NVML_SUCCESS && call->gpu != NULL)
            met = meet(&call->gpu->faults, function);
        if (met != NVML_SUCCESS)
            return met;
    }
    if (result != NVML_SUCCESS || !change)
        return result;
    /* Read again under the lock; a fault that hangs must not hold it. */
    call->lock = machine_lock(state_path());
    return call->lock < 0 ? NVML_ERROR_NO_PERMISSION : load(call, target, handle);
}

nvmlReturn_t call_save(const struct call *call)
{
    return machine_write(call->machine, state_path()) ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

void call_end(struct call *call)
{
    machine_free(call->machine);
    if (call->lock >= 0)
        close(call->lock);
}

void call_started(void)
{
    atomic_fetch_add(&started, 1);
}

bool call_stopped(void)
{
    int count = atomic_load(&started);
    while (count > 0)
        if (atomic_compare_exchange_weak(&started, &count, count - 1))
            return true;
    return false;
}

nvmlReturn_t give_text(char *buffer, unsigned int length, const char *text)
{
    REQUIRE(text != NULL, NVML_ERROR_NOT_SUPPORTED);
    REQUIRE_ARGUMENT(buffer != NULL);
    REQUIRE(strlen(text) < length, NVML_ERROR_INSUFFICIENT_SIZE);
    strcpy(buffer, text);
    return NVML_SUCCESS;
}
