/* What a GPU (or, where NVML allows it, a MIG device) says about itself, and the modes that can be set. */
#include "call.h"
#include "mig_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB 1024ULL
#define MIB (1024ULL * KIB)

/* --- identity ---------------------------------------------------------------------------------------------------- */

NVML_FUNCTION nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    BEGIN(DEVICE, device);
    if (call.compute == NULL)
        return give_text(name, length, call.gpu->name);
    char profile[64], whole[256];
    mig_device_name(call.instance, call.compute->slices, profile, sizeof profile);
    snprintf(whole, sizeof whole, "%.128s MIG %s", call.gpu->name, profile);
    return give_text(name, length, whole);
}

NVML_FUNCTION nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    BEGIN(DEVICE, device);
    if (call.compute == NULL)
        return give_text(uuid, length, call.gpu->uuid);
    char own[MIG_UUID_LENGTH];
    mig_device_uuid(call.gpu, call.instance->id, call.compute->id, own);
    return give_text(uuid, length, own);
}

NVML_FUNCTION nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    BEGIN(GPU_ONLY, device);
    return give_text(serial, length, call.gpu->serial);
}

NVML_FUNCTION nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(index != NULL);
    if (call.compute != NULL) {
        *index = mig_device_index(call.gpu, call.compute);
        return NVML_SUCCESS;
    }
    *index = 0;
    while (call.machine->gpus[*index] != call.gpu)
        ++*index;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(minor != NULL);
    *minor = (unsigned int)call.gpu->minor;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(info != NULL);
    const struct gpu *gpu = call.gpu;
    memset(info, 0, sizeof *info);
    info->domain = (unsigned int)gpu->pci[0];
    info->bus = (unsigned int)gpu->pci[1];
    info->device = (unsigned int)gpu->pci[2];
    info->pciDeviceId = gpu->pci_device == UNKNOWN ? 0 : (unsigned int)gpu->pci_device;
    info->pciSubSystemId = gpu->pci_subsystem == UNKNOWN ? 0 : (unsigned int)gpu->pci_subsystem;
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff,
             info->device & 0xff);
    snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", info->domain, info->bus & 0xff, info->device & 0xff);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(major != NULL && minor != NULL);
    REQUIRE(call.gpu->capability[0] != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    *major = (int)call.gpu->capability[0];
    *minor = (int)call.gpu->capability[1];
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(architecture != NULL);
    REQUIRE(call.gpu->architecture != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    *architecture = (unsigned int)call.gpu->architecture;
    return NVML_SUCCESS;
}

/* Nothing is known of the host's buses: two different GPUs are as far apart as can be. */
NVML_FUNCTION nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, unsigned int *level)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(level != NULL && other != NULL);
    *level = device == other ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

/* --- memory and processes ---------------------------------------------------------------------------------------- */

/* A MIG device shares the memory of its GPU instance with the other compute instances there. */
static bool uses_memory_of(const struct call *call, const struct process *process)
{
    return call->instance == NULL || process->instance == call->instance->id;
}

static bool runs_on(const struct call *call, const struct process *process)
{
    return uses_memory_of(call, process) && (call->compute == NULL || process->compute == call->compute->id);
}

static nvmlReturn_t measure(const struct call *call, nvmlMemory_v2_t *memory)
{
    long long total = call->instance == NULL ? call->gpu->memory_mib : call->instance->profile->memory_mib;
    REQUIRE(total != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    bool reserves = call->instance == NULL && call->gpu->reserved_kib != UNKNOWN;
    unsigned long long used = 0;
    for (int index = 0; index < call->gpu->process_count; index++) {
        const struct process *process = &call->gpu->processes[index];
        if (process->memory_mib != UNKNOWN && uses_memory_of(call, process))
            used += (unsigned long long)process->memory_mib * MIB;
    }
    memory->total = (unsigned long long)total * MIB;
    memory->reserved = reserves ? (unsigned long long)call->gpu->reserved_kib * KIB : 0;
    memory->used = used;
    unsigned long long taken = memory->reserved + used;
    memory->free = taken < memory->total ? memory->total - taken : 0;
    return NVML_SUCCESS;
}

/* The older struct counts what is reserved as used. */
NVML_FUNCTION nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    BEGIN(DEVICE, device);
    nvmlMemory_v2_t all;
    REQUIRE_ARGUMENT(memory != NULL);
    nvmlReturn_t result = measure(&call, &all);
    if (result == NVML_SUCCESS)
        *memory = (nvmlMemory_t){.total = all.total, .free = all.free, .used = all.used + all.reserved};
    return result;
}

NVML_FUNCTION nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(memory != NULL);
    REQUIRE(memory->version == NVML_MEMORY_V2, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    return measure(&call, memory);
}

static unsigned int or_none(long long number)
{
    return number == UNKNOWN ? NVML_NO_INSTANCE : (unsigned int)number;
}

/* NVML tells a process nothing of those in another PID namespace, as a container has one: empty lists, no error. Seen on an H200. */
static int seen_processes(const struct gpu *gpu)
{
    return call_is_contained() ? 0 : gpu->process_count;
}

static nvmlReturn_t give_processes(const struct call *call, const char *kind, unsigned int *count, nvmlProcessInfo_t *infos)
{
    REQUIRE_ARGUMENT(count != NULL && (*count == 0 || infos != NULL));
    unsigned int room = *count, found = 0;
    for (int index = 0; index < seen_processes(call->gpu); index++) {
        const struct process *process = &call->gpu->processes[index];
        if (strcmp(process->kind, kind) != 0 || !runs_on(call, process))
            continue;
        if (found++ >= room)
            continue;
        infos[found - 1] = (nvmlProcessInfo_t){
            .pid = (unsigned int)process->pid,
            .usedGpuMemory = process->memory_mib == UNKNOWN ? ~0ULL : (unsigned long long)process->memory_mib * MIB,
            .gpuInstanceId = or_none(process->instance),
            .computeInstanceId = or_none(process->compute),
        };
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define LISTS_PROCESSES(function, kind)                                                              \
    NVML_FUNCTION function(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)       \
    {                                                                                                \
        BEGIN(DEVICE, device);                                                                       \
        return give_processes(&call, kind, count, infos);                                            \
    }

LISTS_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
LISTS_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
LISTS_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
LISTS_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
LISTS_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps")
LISTS_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")

/* --- compute mode ------------------------------------------------------------------------------------------------ */

NVML_FUNCTION nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(mode != NULL);
    *mode = mig_is_on(call.gpu) ? NVML_COMPUTEMODE_DEFAULT : (unsigned int)call.gpu->compute_mode;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode)
{
    BEGIN_CHANGE(GPU_ONLY, device);
    REQUIRE_ARGUMENT(mode <= NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
    bool exists = mode == NVML_COMPUTEMODE_DEFAULT || mode >= NVML_COMPUTEMODE_PROHIBITED;
    REQUIRE(exists && !mig_is_on(call.gpu), NVML_ERROR_NOT_SUPPORTED);
    call.gpu->compute_mode = mode;
    return call_save(&call);
}

/* --- ECC and repairs --------------------------------------------------------------------------------------------- */

NVML_FUNCTION nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(current != NULL && pending != NULL);
    REQUIRE(call.gpu->ecc[0] != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    *current = (unsigned int)call.gpu->ecc[0];
    *pending = (unsigned int)call.gpu->ecc[1];
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceSetEccMode(nvmlDevice_t device, unsigned int mode)
{
    BEGIN_CHANGE(GPU_ONLY, device);
    REQUIRE_ARGUMENT(mode <= 1);
    REQUIRE(call.gpu->ecc[0] != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    call.gpu->ecc[1] = mode;
    return call_save(&call);
}

/* type: corrected, uncorrected; counter: volatile (since the driver was loaded), aggregate */
NVML_FUNCTION nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter, unsigned long long *count)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(type <= 1 && counter <= 1 && count != NULL);
    REQUIRE(call.gpu->ecc[0] == 1, NVML_ERROR_NOT_SUPPORTED);
    *count = (unsigned long long)call.gpu->ecc_errors[2 * counter + type];
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                        unsigned int *pending, unsigned int *failed)
{
    BEGIN(GPU_ONLY, device);
    const long long *rows = call.gpu->remapped_rows;
    REQUIRE_ARGUMENT(corrected != NULL && uncorrected != NULL && pending != NULL && failed != NULL);
    REQUIRE(rows[0] != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    *corrected = (unsigned int)rows[0];
    *uncorrected = (unsigned int)rows[1];
    *pending = (unsigned int)rows[2];
    *failed = (unsigned int)rows[3];
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values)
{
    BEGIN(GPU_ONLY, device);
    const long long *banks = call.gpu->row_histogram;
    REQUIRE_ARGUMENT(values != NULL);
    REQUIRE(banks[0] != UNKNOWN, NVML_ERROR_NOT_SUPPORTED);
    values->max = (unsigned int)banks[0];
    values->high = (unsigned int)banks[1];
    values->partial = (unsigned int)banks[2];
    values->low = (unsigned int)banks[3];
    values->none = (unsigned int)banks[4];
    return NVML_SUCCESS;
}
