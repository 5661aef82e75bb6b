/* Stand-in for nvidia-smi: -L, which names what NVML shows, MIG devices included; it knows nothing else.
   As the real one it loads the driver's NVML when it starts, and ends with NVML's own error where that has no GPU to show. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*function)();

static void *library;

static function find(const char *name) {
    return (function)dlsym(library, name);
}

static int name_gpu(unsigned index) {
    void *gpu, *instance;
    char name[96], uuid[96];
    unsigned most = 0;
    int failed = find("nvmlDeviceGetHandleByIndex_v2")(index, &gpu);
    if (failed || (failed = find("nvmlDeviceGetName")(gpu, name, (unsigned)sizeof name)) ||
        (failed = find("nvmlDeviceGetUUID")(gpu, uuid, (unsigned)sizeof uuid)))
        return failed;
    printf("GPU %u: %s (UUID: %s)\n", index, name, uuid);
    if (find("nvmlDeviceGetMaxMigDeviceCount")(gpu, &most))
        return 0;
    for (unsigned number = 0; number < most; number++)
        if (!find("nvmlDeviceGetMigDeviceHandleByIndex")(gpu, number, &instance) &&
            !find("nvmlDeviceGetUUID")(instance, uuid, (unsigned)sizeof uuid))
            printf("  MIG device %u: (UUID: %s)\n", number, uuid);
    return 0;
}

int main(int count, char **words) {
    if (count != 2 || strcmp(words[1], "-L")) {
        fprintf(stderr, "nvidia-smi (of the sandbox): it knows -L alone\n");
        return 2;
    }
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL) {
        printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. (%s)\n", dlerror());
        return 12;
    }
    unsigned gpus = 0;
    int failed = find("nvmlInit_v2")();
    if (!failed)
        failed = find("nvmlDeviceGetCount_v2")(&gpus);
    if (!failed && gpus == 0) {
        printf("No devices were found\n");
        return 6;
    }
    for (unsigned index = 0; index < gpus && !failed; index++)
        failed = name_gpu(index);
    if (failed)
        printf("Failed to initialize NVML: %s\n", ((const char *(*)(int))dlsym(library, "nvmlErrorString"))(failed));
    return failed;
}
