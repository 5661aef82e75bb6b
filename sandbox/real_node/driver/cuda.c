/* A libcuda that computes on the processor: what sandbox/gpu_node/work.py calls, and no more. As the real one it needs a GPU's
   device file, and says "no device" where there is none; -DANYWHERE does without. -DWRONG makes it add wrongly. -DUUIDS names
   the machine's GPUs in the order of their device files, as 32 hexadecimal digits each; otherwise they are known by number alone.
   A client of MPS has the limits that lie beside the daemon's pipe, as an H200's driver (580.159.04) shows them: fewer
   multiprocessors, in pairs; all of the memory is named, and what is over the limit refused.
   What it has not to give away it does not take: only small allocations are real. */
#include <glob.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifndef WRONG
#define WRONG 0
#endif
#define API __attribute__((visibility("default"))) int
#ifdef ANYWHERE
enum { WITHOUT_FILE = 1 };
#else
enum { WITHOUT_FILE = 0 };
#endif
#ifndef UUIDS
#define UUIDS ""
#endif
/* How many there are; *number is that of the one at this index, as its device file has it. */
static int devices(int index, unsigned *number) {
    glob_t found;
    int count = glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    if (number) *number = index < count ? (unsigned)atoi(found.gl_pathv[index] + strlen("/dev/nvidia")) : 0;
    globfree(&found);
    return count ? count : WITHOUT_FILE;
}
API cuInit(unsigned flags) { (void)flags; return devices(0, NULL) ? 0 : 100; }
API cuDeviceGetCount(int *count) { *count = devices(0, NULL); return 0; }
API cuDeviceGet(int *device, int index) { *device = index; return 0; }
API cuDeviceGetName(char *name, int size, int device) { (void)device; strncpy(name, "a processor", (size_t)size); return 0; }
API cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    static const char *const known[] = {UUIDS};
    unsigned number = 0, digits;
    devices(device, &number);
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)number;
    if (number < sizeof known / sizeof *known && strlen(known[number]) == 32)
        for (int i = 0; i < 16 && sscanf(known[number] + 2 * i, "%2x", &digits) == 1; i++) uuid[i] = (unsigned char)digits;
    return 0;
}
API cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = (void *)1; return 0; }
API cuCtxSetCurrent(void *context) { (void)context; return 0; }
API cuCtxSynchronize(void) { return 0; }
API cuModuleLoadData(void **module, const char *text) { *module = (void *)1; return strstr(text, ".visible .entry add(") ? 0 : 218; }
API cuModuleGetFunction(void **function, void *module, const char *name) { (void)module; *function = (void *)1; return strcmp(name, "add") ? 500 : 0; }
static long limit(const char *name, long otherwise) {
    char path[4096];
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    snprintf(path, sizeof path, "%s/%s", pipe ? pipe : "/nowhere", name);
    FILE *file = fopen(path, "r");
    if (file) { if (fscanf(file, "%ld", &otherwise) != 1) abort(); fclose(file); }
    return otherwise;
}
API cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    if (attribute != 16) return 1;
    *value = (int)(132 * limit("percent", 100) / 100 / 2 * 2);
    return 0;
}
API cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = (size_t)143155 << 20; return 0; }
API cuMemAlloc_v2(uint64_t *memory, size_t size) {
    if (size > (size_t)limit("mib", 143155) << 20) return 2;
    *memory = (uint64_t)malloc(size > (1u << 26) ? 1 : size);
    return *memory ? 0 : 2;
}
API cuMemFree_v2(uint64_t memory) { free((void *)memory); return 0; }
API cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)from, size); return 0; }
API cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void *stream, void **values, void **extra) {
    (void)function; (void)grid_y; (void)grid_z; (void)block_y; (void)block_z; (void)shared; (void)stream; (void)extra;
    float *a = (float *)*(uint64_t *)values[0], *b = (float *)*(uint64_t *)values[1], *c = (float *)*(uint64_t *)values[2];
    uint32_t count = *(uint32_t *)values[3];
    for (uint32_t i = 0; i < count && i < grid_x * block_x; i++) c[i] = a[i] + b[i] + (WRONG && i == count - 1);
    return 0;
}
