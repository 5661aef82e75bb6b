/*
 * MIG devices: one for each compute instance, numbered on their GPU by GPU instance and compute instance.
 */
#ifndef GPU_POOLS_MIG_DEVICE_H
#define GPU_POOLS_MIG_DEVICE_H

#include "state.h"

struct mig_device {
    const struct instance *instance;
    const struct compute *compute; /* NULL: no such device */
};

enum { MIG_UUID_LENGTH = 41 };

bool mig_is_on(const struct gpu *gpu);
struct mig_device mig_device_at(const struct gpu *gpu, unsigned int index);
struct mig_device mig_device_by_uuid(const struct gpu *gpu, const char *uuid);
unsigned int mig_device_index(const struct gpu *gpu, const struct compute *compute);

/* The same for the same GPU UUID and instance numbers, as on the real thing; the digits themselves are made up. */
void mig_device_uuid(const struct gpu *gpu, int instance, int compute, char uuid[MIG_UUID_LENGTH]);

/* "3g.20gb", or "1c.3g.20gb" where the compute instance is only a part. */
void mig_device_name(const struct instance *instance, int slices, char *name, size_t length);

#endif
