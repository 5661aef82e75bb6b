/*
 * Where MIG instances fit: GPU instances on a GPU, compute instances in a GPU instance. Pure; knows no handle and no file.
 */
#ifndef GPU_POOLS_GEOMETRY_H
#define GPU_POOLS_GEOMETRY_H

#include "state.h"

/* By the id that creating takes, or by NVML_GPU_INSTANCE_PROFILE_*; NULL where the GPU has none. */
const struct profile *profile_by_id(const struct gpu *gpu, unsigned int id);
const struct profile *profile_by_number(const struct gpu *gpu, unsigned int number);

/* How many more of a profile fit now. */
unsigned int instances_left(const struct gpu *gpu, const struct profile *profile);

/* Whether a profile may start there at all, and whether it may now. */
bool may_start(const struct profile *profile, unsigned int start);
bool fits(const struct gpu *gpu, const struct profile *profile, int start);

/* Where the driver puts a new instance; -1 where it fits nowhere. */
int choose_start(const struct gpu *gpu, const struct profile *profile);

/* The id that an instance gets at a placement. */
int instance_id(const struct gpu *gpu, const struct profile *profile, int start);

/* Compute instances: slices of NVML_COMPUTE_INSTANCE_PROFILE_* (0: none), and whether a GPU instance can have them. */
int compute_slices(unsigned int profile);
unsigned int compute_profile(int slices);
bool can_have(const struct instance *instance, int slices);
bool compute_may_start(const struct instance *instance, int slices, unsigned int start);
bool compute_fits(const struct instance *instance, int slices, int start);
unsigned int computes_at_most(const struct instance *instance, int slices);
unsigned int computes_left(const struct instance *instance, int slices);
int choose_compute_start(const struct instance *instance, int slices);
long long compute_multiprocessors(const struct gpu *gpu, const struct instance *instance, int slices);

#endif
