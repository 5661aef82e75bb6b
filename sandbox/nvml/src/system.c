/* Starting, stopping, versions, and finding devices. */
#include "call.h"
#include "mig_device.h"

#include <stdio.h>
#include <string.h>

static nvmlReturn_t start(const char *function)
{
    __attribute__((cleanup(call_end))) struct call call = {.lock = -1};
    nvmlReturn_t result = call_begin(&call, function, STARTING, NULL, false);
    if (result == NVML_SUCCESS)
        call_started();
    return result;
}

NVML_FUNCTION nvmlInit(void)
{
    return start(__func__);
}

NVML_FUNCTION nvmlInit_v2(void)
{
    return start(__func__);
}

NVML_FUNCTION nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return start(__func__);
}

NVML_FUNCTION nvmlShutdown(void)
{
    return call_stopped() ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t result)
{
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
        "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
        "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "The operating system has blocked the request.", "Driver/library version mismatch",
        "In use by another client", "Insufficient Memory", "No data", "VGPU ECC not supported", "Insufficient Resources",
        "Frequency not supported", "Argument version mismatch", "Deprecated", "Not ready", "GPU not found", "Invalid state",
        "Reset type not supported"};
    return (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "Unknown Error";
}

NVML_FUNCTION nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    BEGIN(SYSTEM, NULL);
    return give_text(version, length, call.machine->driver_version);
}

NVML_FUNCTION nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    BEGIN(SYSTEM, NULL);
    return give_text(version, length, call.machine->nvml_version);
}

static nvmlReturn_t give_cuda_version(const struct machine *machine, int *version)
{
    REQUIRE_ARGUMENT(version != NULL);
    REQUIRE(machine->cuda_version != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    *version = (int)machine->cuda_version;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlSystemGetCudaDriverVersion(int *version)
{
    BEGIN(SYSTEM, NULL);
    return give_cuda_version(call.machine, version);
}

NVML_FUNCTION nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    BEGIN(SYSTEM, NULL);
    return give_cuda_version(call.machine, version);
}

NVML_FUNCTION nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    BEGIN(SYSTEM, NULL);
    for (int index = 0; index < call.machine->gpu_count; index++) {
        const struct gpu *gpu = call.machine->gpus[index];
        for (int nth = 0; nth < gpu->process_count; nth++)
            if (gpu->processes[nth].pid == (long long)pid)
                return give_text(name, length, gpu->processes[nth].name);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_FUNCTION nvmlDeviceGetCount_v2(unsigned int *count)
{
    BEGIN(SYSTEM, NULL);
    REQUIRE_ARGUMENT(count != NULL);
    *count = (unsigned int)call.machine->gpu_count;
    return NVML_SUCCESS;
}

/* A lost GPU is still counted, and lost to whoever asks for it. */
static nvmlReturn_t give_gpu(const char *function, const struct gpu *gpu, nvmlDevice_t *device)
{
    nvmlReturn_t met = call_meets(function, gpu);
    if (met == NVML_SUCCESS)
        *device = handle_of_gpu(gpu);
    return met;
}

NVML_FUNCTION nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    BEGIN(SYSTEM, NULL);
    REQUIRE_ARGUMENT(device != NULL && index < (unsigned int)call.machine->gpu_count);
    return give_gpu(__func__, call.machine->gpus[index], device);
}

NVML_FUNCTION nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    BEGIN(SYSTEM, NULL);
    REQUIRE_ARGUMENT(uuid != NULL && device != NULL);
    for (int index = 0; index < call.machine->gpu_count; index++) {
        const struct gpu *gpu = call.machine->gpus[index];
        if (strcmp(gpu->uuid, uuid) == 0)
            return give_gpu(__func__, gpu, device);
        const struct mig_device found = mig_device_by_uuid(gpu, uuid);
        if (found.compute == NULL)
            continue;
        nvmlReturn_t met = call_meets(__func__, gpu);
        if (met == NVML_SUCCESS)
            *device = handle_of_mig_device(gpu, found.instance, found.compute);
        return met;
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_FUNCTION nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    BEGIN(SYSTEM, NULL);
    REQUIRE_ARGUMENT(serial != NULL && device != NULL);
    for (int index = 0; index < call.machine->gpu_count; index++) {
        const struct gpu *gpu = call.machine->gpus[index];
        if (gpu->serial != NULL && strcmp(gpu->serial, serial) == 0)
            return give_gpu(__func__, gpu, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_FUNCTION nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device)
{
    BEGIN(SYSTEM, NULL);
    unsigned int domain, bus, slot;
    REQUIRE_ARGUMENT(address != NULL && device != NULL && sscanf(address, "%x:%x:%x", &domain, &bus, &slot) == 3);
    for (int index = 0; index < call.machine->gpu_count; index++) {
        const struct gpu *gpu = call.machine->gpus[index];
        if (gpu->pci[0] == domain && gpu->pci[1] == bus && gpu->pci[2] == slot)
            return give_gpu(__func__, gpu, device);
    }
    return NVML_ERROR_NOT_FOUND;
}
