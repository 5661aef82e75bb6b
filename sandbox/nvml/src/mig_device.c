#include "mig_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool mig_is_on(const struct gpu *gpu)
{
    return gpu->mig[0] == 1;
}

struct mig_device mig_device_at(const struct gpu *gpu, unsigned int index)
{
    for (int outer = 0; outer < gpu->instance_count; outer++) {
        const struct instance *instance = &gpu->instances[outer];
        if (index < (unsigned int)instance->compute_count)
            return (struct mig_device){instance, &instance->computes[index]};
        index -= (unsigned int)instance->compute_count;
    }
    return (struct mig_device){NULL, NULL};
}

unsigned int mig_device_index(const struct gpu *gpu, const struct compute *compute)
{
    unsigned int index = 0;
    while (mig_device_at(gpu, index).compute != compute)
        index++;
    return index;
}

struct mig_device mig_device_by_uuid(const struct gpu *gpu, const char *uuid)
{
    char own[MIG_UUID_LENGTH];
    struct mig_device found;
    for (unsigned int index = 0; (found = mig_device_at(gpu, index)).compute != NULL; index++) {
        mig_device_uuid(gpu, found.instance->id, found.compute->id, own);
        if (strcmp(own, uuid) == 0)
            break;
    }
    return found;
}

/* FNV-1a, then a last mixing so that a changed digit changes the whole. */
static uint64_t digest(const char *text, uint64_t seed)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (; *text != '\0'; text++)
        value = (value ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    value ^= value >> 32;
    return value * UINT64_C(0x9e3779b97f4a7c15);
}

void mig_device_uuid(const struct gpu *gpu, int instance, int compute, char uuid[MIG_UUID_LENGTH])
{
    char text[160];
    snprintf(text, sizeof text, "%.*s/%d/%d", 120, gpu->uuid, instance, compute);
    uint64_t high = digest(text, 1), low = digest(text, 2);
    snprintf(uuid, MIG_UUID_LENGTH, "MIG-%08" PRIx32 "-%04" PRIx16 "-5%03x-%04" PRIx16 "-%012" PRIx64, (uint32_t)(high >> 32),
             (uint16_t)(high >> 16), (unsigned int)(high & 0xfff), (uint16_t)((low >> 48 & 0x3fff) | 0x8000),
             low & UINT64_C(0xffffffffffff));
}

void mig_device_name(const struct instance *instance, int slices, char *name, size_t length)
{
    if (slices == instance->profile->slices)
        snprintf(name, length, "%s", instance->profile->name);
    else
        snprintf(name, length, "%dc.%s", slices, instance->profile->name);
}
