#include "geometry.h"

#include "nvml_types.h"

#include <stdint.h>

/* --- GPU instances ----------------------------------------------------------------------------------------------- */

const struct profile *profile_by_id(const struct gpu *gpu, unsigned int id)
{
    for (int index = 0; index < gpu->profile_count; index++)
        if (gpu->profiles[index].id == (long long)id)
            return &gpu->profiles[index];
    return NULL;
}

const struct profile *profile_by_number(const struct gpu *gpu, unsigned int number)
{
    for (int index = 0; index < gpu->profile_count; index++)
        if (gpu->profiles[index].number == (long long)number)
            return &gpu->profiles[index];
    return NULL;
}

static uint64_t units(int start, long long size)
{
    return ((UINT64_C(1) << size) - 1) << start;
}

static uint64_t occupied(const struct gpu *gpu)
{
    uint64_t mask = 0;
    for (int index = 0; index < gpu->instance_count; index++)
        mask |= units(gpu->instances[index].start, gpu->instances[index].profile->size);
    return mask;
}

/* What is left besides placements: each profile's own limit, and the GPU's compute slices. */
static bool is_allowed(const struct gpu *gpu, const struct profile *profile)
{
    long long same = 0, slices = 0;
    for (int index = 0; index < gpu->instance_count; index++) {
        same += gpu->instances[index].profile == profile;
        slices += gpu->instances[index].profile->slices;
    }
    return same < profile->max && slices + profile->slices <= gpu->mig_slices && gpu->instance_count < MAX_INSTANCES;
}

bool may_start(const struct profile *profile, unsigned int start)
{
    for (int index = 0; index < profile->start_count; index++)
        if (profile->starts[index] == (int)start)
            return true;
    return false;
}

bool fits(const struct gpu *gpu, const struct profile *profile, int start)
{
    return is_allowed(gpu, profile) && (occupied(gpu) & units(start, profile->size)) == 0;
}

unsigned int instances_left(const struct gpu *gpu, const struct profile *profile)
{
    struct gpu trial = *gpu;
    unsigned int count = 0;
    int start;
    while ((start = choose_start(&trial, profile)) >= 0) {
        trial.instances[trial.instance_count++] = (struct instance){.start = start, .profile = profile};
        count++;
    }
    return count;
}

/* How many placements that are still free would be gone. */
static int blocked_by(const struct gpu *gpu, uint64_t wanted)
{
    uint64_t taken = occupied(gpu);
    int count = 0;
    for (int index = 0; index < gpu->profile_count; index++) {
        const struct profile *profile = &gpu->profiles[index];
        for (int nth = 0; nth < profile->start_count; nth++) {
            uint64_t other = units(profile->starts[nth], profile->size);
            count += (other & taken) == 0 && (other & wanted) != 0;
        }
    }
    return count;
}

/*
 * The placement that costs the fewest others, the lowest of equals. NVIDIA documents no rule; this one gives what nvidia-smi
 * printed on real 7-slice GPUs: profiles 19 x7 -> 13, 11, 12, 7, 8, 9, 10; 14,14,14,20 -> 5, 3, 4, 13; 19,14,5 -> 13, 5, 1;
 * 9,19,14,19 -> 2, 7, 4, 8; and 19,19,14,9 -> 13, 11, 3, then "Insufficient Resources".
 */
int choose_start(const struct gpu *gpu, const struct profile *profile)
{
    int best = -1, cost = 0;
    for (int nth = 0; nth < profile->start_count; nth++) {
        int start = profile->starts[nth];
        if (!fits(gpu, profile, start))
            continue;
        int this_cost = blocked_by(gpu, units(start, profile->size));
        if (best < 0 || this_cost < cost) {
            best = start;
            cost = this_cost;
        }
    }
    return best;
}

/* Halving the GPU numbers the placements as a tree: 0 is the whole, 1 and 2 its halves, 3 to 6 the quarters, 7 to 14 the eighths. */
int instance_id(const struct gpu *gpu, const struct profile *profile, int start)
{
    return (int)(gpu->mig_units / profile->size - 1 + start / profile->size);
}

/* --- compute instances ------------------------------------------------------------------------------------------- */

static const int slices_of_profile[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {1, 2, 3, 4, 7, 8, 6, 0, 0};

int compute_slices(unsigned int profile)
{
    return profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT ? slices_of_profile[profile] : 0;
}

unsigned int compute_profile(int slices)
{
    unsigned int profile = 0;
    while (slices_of_profile[profile] != slices)
        profile++;
    return profile;
}

/* A part of 3 slices exists only in 7: a GPU instance of 4 divides into 1, 2 and 4. */
bool can_have(const struct instance *instance, int slices)
{
    long long all = instance->profile->slices;
    return slices > 0 && slices <= all && !(slices == 3 && all == 4);
}

/* A whole starts at 0, a part of n slices at multiples of n, of 3 slices at multiples of 4: as GPU instances do. */
bool compute_may_start(const struct instance *instance, int slices, unsigned int start)
{
    unsigned int step = slices == 3 ? 4 : (unsigned int)slices;
    return can_have(instance, slices) && start % step == 0 && start + (unsigned int)slices <= instance->profile->slices;
}

bool compute_fits(const struct instance *instance, int slices, int start)
{
    uint64_t mask = 0;
    for (int index = 0; index < instance->compute_count; index++)
        mask |= units(instance->computes[index].start, instance->computes[index].slices);
    return compute_may_start(instance, slices, (unsigned int)start) && (mask & units(start, slices)) == 0 &&
           instance->compute_count < MAX_COMPUTES;
}

int choose_compute_start(const struct instance *instance, int slices)
{
    for (int start = 0; start < (int)instance->profile->slices; start++)
        if (compute_fits(instance, slices, start))
            return start;
    return -1;
}

/* Placements of one size never overlap each other, so counting them is exact. */
unsigned int computes_at_most(const struct instance *instance, int slices)
{
    unsigned int count = 0;
    for (unsigned int start = 0; start < (unsigned int)instance->profile->slices; start++)
        count += compute_may_start(instance, slices, start);
    return count;
}

unsigned int computes_left(const struct instance *instance, int slices)
{
    unsigned int count = 0;
    for (int start = 0; start < (int)instance->profile->slices; start++)
        count += compute_fits(instance, slices, start);
    return count;
}

/* A whole has what its GPU instance has; of a part it is derived: as many 1-slice instances of this GPU. */
long long compute_multiprocessors(const struct gpu *gpu, const struct instance *instance, int slices)
{
    if (slices == instance->profile->slices)
        return instance->profile->multiprocessors;
    const struct profile *one = profile_by_number(gpu, 0);
    return one == NULL || one->multiprocessors == UNKNOWN ? UNKNOWN : one->multiprocessors * slices;
}
