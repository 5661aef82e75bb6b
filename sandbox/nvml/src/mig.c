/* MIG: mode, profiles, GPU instances, compute instances, MIG devices. */
#include "call.h"
#include "geometry.h"
#include "mig_device.h"

#include <stdio.h>
#include <string.h>

/* A number that no source gives: a struct has no place for "unknown". */
static unsigned int or_zero(long long number)
{
    return number == UNKNOWN ? 0 : (unsigned int)number;
}

static bool has_mig(const struct gpu *gpu)
{
    return gpu->mig[0] != UNKNOWN;
}

#define REQUIRE_MIG_ON REQUIRE(mig_is_on(call.gpu), NVML_ERROR_NOT_SUPPORTED)

static bool is_used(const struct gpu *gpu, const struct instance *instance, const struct compute *compute)
{
    for (int index = 0; index < gpu->process_count; index++) {
        const struct process *process = &gpu->processes[index];
        if ((instance == NULL || process->instance == instance->id) && (compute == NULL || process->compute == compute->id))
            return true;
    }
    return false;
}

/* --- mode -------------------------------------------------------------------------------------------------------- */

NVML_FUNCTION nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(current != NULL && pending != NULL);
    REQUIRE(has_mig(call.gpu), NVML_ERROR_NOT_SUPPORTED);
    *current = (unsigned int)call.gpu->mig[0];
    *pending = (unsigned int)call.gpu->mig[1];
    return NVML_SUCCESS;
}

/* The call succeeds where the mode only becomes pending: *status says what stands in the way. */
NVML_FUNCTION nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *status)
{
    BEGIN_CHANGE(GPU_ONLY, device);
    REQUIRE_ARGUMENT(mode <= 1 && status != NULL);
    struct gpu *gpu = call.gpu;
    REQUIRE(has_mig(gpu), NVML_ERROR_NOT_SUPPORTED);
    gpu->mig[1] = mode;
    if (gpu->mig[0] == gpu->mig[1])
        *status = NVML_SUCCESS;
    else if (gpu->instance_count > 0 || is_used(gpu, NULL, NULL))
        *status = NVML_ERROR_IN_USE;
    else if (!gpu->mig_at_once)
        *status = NVML_ERROR_RESET_REQUIRED;
    else
        *status = NVML_SUCCESS, gpu->mig[0] = mode;
    return call_save(&call);
}

/* --- profiles of GPU instances ----------------------------------------------------------------------------------- */

static bool are_listed(const struct gpu *gpu)
{
    return has_mig(gpu) && (mig_is_on(gpu) || gpu->mig_listed_when_off);
}

/* The version comes back as 0, as from a real driver. */
static void describe_profile(const struct profile *profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v2_t){
        .id = (unsigned int)profile->id,
        .sliceCount = (unsigned int)profile->slices,
        .instanceCount = (unsigned int)profile->max,
        .multiprocessorCount = or_zero(profile->multiprocessors),
        .copyEngineCount = or_zero(profile->copy_engines),
        .decoderCount = or_zero(profile->decoders),
        .encoderCount = or_zero(profile->encoders),
        .jpegCount = or_zero(profile->jpegs),
        .ofaCount = or_zero(profile->ofas),
        .memorySizeMB = or_zero(profile->memory_mib),
    };
    snprintf(info->name, sizeof info->name, "MIG %.64s", profile->name);
}

NVML_FUNCTION nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int number, nvmlGpuInstanceProfileInfo_t *info)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(number < NVML_GPU_INSTANCE_PROFILE_COUNT && info != NULL);
    const struct profile *profile = are_listed(call.gpu) ? profile_by_number(call.gpu, number) : NULL;
    REQUIRE(profile != NULL, NVML_ERROR_NOT_SUPPORTED);
    nvmlGpuInstanceProfileInfo_v2_t all;
    describe_profile(profile, &all);
    *info = (nvmlGpuInstanceProfileInfo_t){
        all.id, all.isP2pSupported, all.sliceCount, all.instanceCount, all.multiprocessorCount, all.copyEngineCount,
        all.decoderCount, all.encoderCount, all.jpegCount, all.ofaCount, all.memorySizeMB};
    return NVML_SUCCESS;
}

static nvmlReturn_t give_profile(const struct gpu *gpu, const struct profile *profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    REQUIRE_ARGUMENT(info != NULL);
    REQUIRE(info->version == NVML_GPU_INSTANCE_PROFILE_INFO_V2, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    REQUIRE(profile != NULL && are_listed(gpu), NVML_ERROR_NOT_SUPPORTED);
    describe_profile(profile, info);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int number, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(number < NVML_GPU_INSTANCE_PROFILE_COUNT);
    return give_profile(call.gpu, profile_by_number(call.gpu, number), info);
}

NVML_FUNCTION nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    BEGIN(GPU_ONLY, device);
    return give_profile(call.gpu, profile_by_id(call.gpu, id), info);
}

/* Ids that the driver knows, whether or not this GPU has such a profile. As read on Hopper, of the ids below 24. */
static bool is_profile_id(unsigned int id)
{
    static const unsigned int ids[] = {0, 5, 6, 9, 10, 14, 15, 19, 20, 21};
    for (size_t index = 0; index < sizeof ids / sizeof *ids; index++)
        if (ids[index] == id)
            return true;
    return false;
}

/* While the mode is off, it is the capacity of the empty GPU. */
NVML_FUNCTION nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    BEGIN(GPU_ONLY, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    REQUIRE_ARGUMENT(count != NULL);
    REQUIRE(are_listed(call.gpu), NVML_ERROR_NOT_SUPPORTED);
    REQUIRE(profile != NULL, is_profile_id(id) ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT);
    *count = instances_left(call.gpu, profile);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id, nvmlPlacement_t *placements,
                                                            unsigned int *count)
{
    BEGIN(GPU_ONLY, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    REQUIRE_ARGUMENT(count != NULL);
    REQUIRE(are_listed(call.gpu), NVML_ERROR_NOT_SUPPORTED);
    REQUIRE_ARGUMENT(profile != NULL);
    *count = (unsigned int)profile->start_count;
    for (int nth = 0; placements != NULL && nth < profile->start_count; nth++)
        placements[nth] = (nvmlPlacement_t){(unsigned int)profile->starts[nth], (unsigned int)profile->size};
    return NVML_SUCCESS;
}

/* --- GPU instances ----------------------------------------------------------------------------------------------- */

static nvmlReturn_t create(struct call *call, const struct profile *profile, int start, nvmlGpuInstance_t *made)
{
    struct gpu *gpu = call->gpu;
    REQUIRE(start >= 0 && fits(gpu, profile, start), NVML_ERROR_INSUFFICIENT_RESOURCES);
    struct instance *instance = &gpu->instances[gpu->instance_count++];
    *instance = (struct instance){.id = instance_id(gpu, profile, start), .start = start, .profile = profile};
    nvmlReturn_t saved = call_save(call);
    if (saved == NVML_SUCCESS)
        *made = handle_of_instance(gpu, instance);
    return saved;
}

NVML_FUNCTION nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *made)
{
    BEGIN_CHANGE(GPU_ONLY, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    REQUIRE_ARGUMENT(made != NULL);
    REQUIRE_MIG_ON;
    REQUIRE_ARGUMENT(profile != NULL);
    return create(&call, profile, choose_start(call.gpu, profile), made);
}

NVML_FUNCTION nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id, const nvmlPlacement_t *placement,
                                                       nvmlGpuInstance_t *made)
{
    BEGIN_CHANGE(GPU_ONLY, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    REQUIRE_ARGUMENT(made != NULL && placement != NULL);
    REQUIRE_MIG_ON;
    REQUIRE_ARGUMENT(profile != NULL && placement->size == profile->size && may_start(profile, placement->start));
    return create(&call, profile, (int)placement->start, made);
}

NVML_FUNCTION nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
    BEGIN_CHANGE(GPU_INSTANCE, instance);
    REQUIRE(call.instance->compute_count == 0 && !is_used(call.gpu, call.instance, NULL), NVML_ERROR_IN_USE);
    *call.instance = call.gpu->instances[--call.gpu->instance_count];
    return call_save(&call);
}

NVML_FUNCTION nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instances, unsigned int *count)
{
    BEGIN(GPU_ONLY, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    REQUIRE_ARGUMENT(instances != NULL && count != NULL);
    REQUIRE_MIG_ON;
    REQUIRE_ARGUMENT(profile != NULL);
    *count = 0;
    for (int index = 0; index < call.gpu->instance_count; index++)
        if (call.gpu->instances[index].profile == profile)
            instances[(*count)++] = handle_of_instance(call.gpu, &call.gpu->instances[index]);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *found)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(found != NULL);
    REQUIRE_MIG_ON;
    for (int index = 0; index < call.gpu->instance_count; index++) {
        if (call.gpu->instances[index].id == (int)id) {
            *found = handle_of_instance(call.gpu, &call.gpu->instances[index]);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_FUNCTION nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    BEGIN(GPU_INSTANCE, instance);
    REQUIRE_ARGUMENT(info != NULL);
    const struct profile *profile = call.instance->profile;
    *info = (nvmlGpuInstanceInfo_t){
        .device = handle_of_gpu(call.gpu),
        .id = (unsigned int)call.instance->id,
        .profileId = (unsigned int)profile->id,
        .placement = {(unsigned int)call.instance->start, (unsigned int)profile->size},
    };
    return NVML_SUCCESS;
}

/* --- profiles of compute instances ------------------------------------------------------------------------------- */

/* nvidia-smi prints a compute instance of "1g.10gb+me" as one of "1g.10gb". */
static void name_compute(const struct instance *instance, int slices, char *name, size_t length)
{
    char full[64];
    mig_device_name(instance, slices, full, sizeof full);
    snprintf(name, length, "MIG %.*s", (int)strcspn(full, "+"), full);
}

static nvmlReturn_t describe_compute(const struct call *call, unsigned int number, unsigned int engines,
                                     nvmlComputeInstanceProfileInfo_v2_t *info)
{
    REQUIRE_ARGUMENT(number < NVML_COMPUTE_INSTANCE_PROFILE_COUNT && engines == 0);
    int slices = compute_slices(number);
    REQUIRE(can_have(call->instance, slices), NVML_ERROR_NOT_SUPPORTED);
    const struct profile *profile = call->instance->profile;
    *info = (nvmlComputeInstanceProfileInfo_v2_t){
        .version = NVML_COMPUTE_INSTANCE_PROFILE_INFO_V2,
        .id = number,
        .sliceCount = (unsigned int)slices,
        .instanceCount = computes_at_most(call->instance, slices),
        .multiprocessorCount = or_zero(compute_multiprocessors(call->gpu, call->instance, slices)),
        .sharedCopyEngineCount = or_zero(profile->copy_engines),
        .sharedDecoderCount = or_zero(profile->decoders),
        .sharedEncoderCount = or_zero(profile->encoders),
        .sharedJpegCount = or_zero(profile->jpegs),
        .sharedOfaCount = or_zero(profile->ofas),
    };
    name_compute(call->instance, slices, info->name, sizeof info->name);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int number, unsigned int engines,
                                                           nvmlComputeInstanceProfileInfo_t *info)
{
    BEGIN(GPU_INSTANCE, instance);
    nvmlComputeInstanceProfileInfo_v2_t all;
    REQUIRE_ARGUMENT(info != NULL);
    nvmlReturn_t result = describe_compute(&call, number, engines, &all);
    if (result == NVML_SUCCESS)
        *info = (nvmlComputeInstanceProfileInfo_t){
            all.id, all.sliceCount, all.instanceCount, all.multiprocessorCount, all.sharedCopyEngineCount,
            all.sharedDecoderCount, all.sharedEncoderCount, all.sharedJpegCount, all.sharedOfaCount};
    return result;
}

NVML_FUNCTION nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int number, unsigned int engines,
                                                            nvmlComputeInstanceProfileInfo_v2_t *info)
{
    BEGIN(GPU_INSTANCE, instance);
    REQUIRE_ARGUMENT(info != NULL);
    REQUIRE(info->version == NVML_COMPUTE_INSTANCE_PROFILE_INFO_V2, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    return describe_compute(&call, number, engines, info);
}

NVML_FUNCTION nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned int id, unsigned int *count)
{
    BEGIN(GPU_INSTANCE, instance);
    REQUIRE_ARGUMENT(count != NULL && can_have(call.instance, compute_slices(id)));
    *count = computes_left(call.instance, compute_slices(id));
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned int id,
                                                                  nvmlPlacement_t *placements, unsigned int *count)
{
    BEGIN(GPU_INSTANCE, instance);
    int slices = compute_slices(id);
    REQUIRE_ARGUMENT(count != NULL && can_have(call.instance, slices));
    *count = 0;
    for (unsigned int start = 0; start < call.instance->profile->slices; start++) {
        if (!compute_may_start(call.instance, slices, start))
            continue;
        if (placements != NULL)
            placements[*count] = (nvmlPlacement_t){start, (unsigned int)slices};
        ++*count;
    }
    return NVML_SUCCESS;
}

/* --- compute instances ------------------------------------------------------------------------------------------- */

static int free_compute_id(const struct instance *instance)
{
    for (int id = 0;; id++) {
        bool taken = false;
        for (int index = 0; index < instance->compute_count; index++)
            taken = taken || instance->computes[index].id == id;
        if (!taken)
            return id;
    }
}

static nvmlReturn_t create_compute(struct call *call, int slices, int start, nvmlComputeInstance_t *made)
{
    struct instance *instance = call->instance;
    REQUIRE(start >= 0 && compute_fits(instance, slices, start), NVML_ERROR_INSUFFICIENT_RESOURCES);
    struct compute compute = {.id = free_compute_id(instance), .slices = slices, .start = start};
    instance->computes[instance->compute_count++] = compute;
    nvmlReturn_t saved = call_save(call);
    if (saved == NVML_SUCCESS)
        *made = handle_of_compute(call->gpu, instance, &compute);
    return saved;
}

NVML_FUNCTION nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *made)
{
    BEGIN_CHANGE(GPU_INSTANCE, instance);
    int slices = compute_slices(id);
    REQUIRE_ARGUMENT(made != NULL && can_have(call.instance, slices));
    return create_compute(&call, slices, choose_compute_start(call.instance, slices), made);
}

NVML_FUNCTION nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int id,
                                                                const nvmlPlacement_t *placement, nvmlComputeInstance_t *made)
{
    BEGIN_CHANGE(GPU_INSTANCE, instance);
    int slices = compute_slices(id);
    REQUIRE_ARGUMENT(made != NULL && placement != NULL && placement->size == (unsigned int)slices &&
                     compute_may_start(call.instance, slices, placement->start));
    return create_compute(&call, slices, (int)placement->start, made);
}

NVML_FUNCTION nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute)
{
    BEGIN_CHANGE(COMPUTE_INSTANCE, compute);
    REQUIRE(!is_used(call.gpu, call.instance, call.compute), NVML_ERROR_IN_USE);
    *call.compute = call.instance->computes[--call.instance->compute_count];
    return call_save(&call);
}

NVML_FUNCTION nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *computes,
                                                 unsigned int *count)
{
    BEGIN(GPU_INSTANCE, instance);
    REQUIRE_ARGUMENT(computes != NULL && count != NULL && can_have(call.instance, compute_slices(id)));
    *count = 0;
    for (int index = 0; index < call.instance->compute_count; index++)
        if (call.instance->computes[index].slices == compute_slices(id))
            computes[(*count)++] = handle_of_compute(call.gpu, call.instance, &call.instance->computes[index]);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *found)
{
    BEGIN(GPU_INSTANCE, instance);
    REQUIRE_ARGUMENT(found != NULL);
    for (int index = 0; index < call.instance->compute_count; index++) {
        if (call.instance->computes[index].id == (int)id) {
            *found = handle_of_compute(call.gpu, call.instance, &call.instance->computes[index]);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_FUNCTION nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info)
{
    BEGIN(COMPUTE_INSTANCE, compute);
    REQUIRE_ARGUMENT(info != NULL);
    *info = (nvmlComputeInstanceInfo_t){
        .device = handle_of_gpu(call.gpu),
        .gpuInstance = handle_of_instance(call.gpu, call.instance),
        .id = (unsigned int)call.compute->id,
        .profileId = compute_profile(call.compute->slices),
        .placement = {(unsigned int)call.compute->start, (unsigned int)call.compute->slices},
    };
    return NVML_SUCCESS;
}

/* --- MIG devices ------------------------------------------------------------------------------------------------- */

/* 0, not an error, where there is no MIG or its mode is off. */
NVML_FUNCTION nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(count != NULL);
    *count = mig_is_on(call.gpu) ? (unsigned int)call.gpu->mig_slices : 0;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *found)
{
    BEGIN(GPU_ONLY, device);
    REQUIRE_ARGUMENT(found != NULL);
    REQUIRE(has_mig(call.gpu), NVML_ERROR_NOT_SUPPORTED);
    REQUIRE(mig_is_on(call.gpu), NVML_ERROR_NOT_FOUND);
    REQUIRE_ARGUMENT(index < call.gpu->mig_slices);
    const struct mig_device at = mig_device_at(call.gpu, index);
    REQUIRE(at.compute != NULL, NVML_ERROR_NOT_FOUND);
    *found = handle_of_mig_device(call.gpu, at.instance, at.compute);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig_device)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(is_mig_device != NULL);
    *is_mig_device = call.compute != NULL;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(parent != NULL && call.compute != NULL);
    *parent = handle_of_gpu(call.gpu);
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(id != NULL && call.compute != NULL);
    *id = (unsigned int)call.instance->id;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(id != NULL && call.compute != NULL);
    *id = (unsigned int)call.compute->id;
    return NVML_SUCCESS;
}

NVML_FUNCTION nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    BEGIN(DEVICE, device);
    REQUIRE_ARGUMENT(attributes != NULL);
    REQUIRE(call.compute != NULL, NVML_ERROR_NOT_SUPPORTED);
    const struct profile *profile = call.instance->profile;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = or_zero(compute_multiprocessors(call.gpu, call.instance, call.compute->slices)),
        .sharedCopyEngineCount = or_zero(profile->copy_engines),
        .sharedDecoderCount = or_zero(profile->decoders),
        .sharedEncoderCount = or_zero(profile->encoders),
        .sharedJpegCount = or_zero(profile->jpegs),
        .sharedOfaCount = or_zero(profile->ofas),
        .gpuInstanceSliceCount = (unsigned int)profile->slices,
        .computeInstanceSliceCount = (unsigned int)call.compute->slices,
        .memorySizeMB = or_zero(profile->memory_mib),
    };
    return NVML_SUCCESS;
}
