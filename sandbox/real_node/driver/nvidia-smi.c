/* Stand-in for nvidia-smi: -L, which names what NVML shows, MIG devices included, -i UUID -c MODE, with which
   mps-control-daemon sets the compute mode of a GPU, and --version, by which the init container of NVIDIA's DRA driver sees that
   there is a driver; it knows nothing else.
   As the real one it loads the driver's NVML when it starts, and ends with NVML's own error where that has no GPU to show. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*function)();

/* NVML_COMPUTEMODE_*: NVML answers that the second is not supported. */
static const char *const modes[] = {"DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED", "EXCLUSIVE_PROCESS"};
enum { MODES = sizeof modes / sizeof *modes, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

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

static int name_gpus(unsigned gpus) {
    int failed = 0;
    for (unsigned index = 0; index < gpus && !failed; index++)
        failed = name_gpu(index);
    return failed;
}

static int set_mode(const char *uuid, unsigned mode) {
    void *gpu;
    int failed = find("nvmlDeviceGetHandleByUUID")(uuid, &gpu);
    if (failed == NOT_FOUND) {
        printf("No devices were found\n");
        return failed;
    }
    if (!failed)
        failed = find("nvmlDeviceSetComputeMode")(gpu, mode);
    if (failed == NOT_SUPPORTED)
        printf("Setting compute mode to %s is not supported for GPU %s.\n", modes[mode], uuid);
    if (!failed)
        printf("Set compute mode to %s for GPU %s.\nAll done.\n", modes[mode], uuid);
    return failed;
}

static unsigned mode_of(const char *word) {
    unsigned mode = 0;
    while (mode < MODES && strcmp(word, modes[mode]))
        mode++;
    return mode;
}

static int tell_version(void) {
    char version[80];
    int failed = find("nvmlSystemGetDriverVersion")(version, (unsigned)sizeof version);
    if (!failed)
        printf("DRIVER version      : %s\n", version);
    return failed;
}

int main(int count, char **words) {
    int tells = count == 2 && !strcmp(words[1], "--version");
    int lists = count == 2 && !strcmp(words[1], "-L");
    int sets = count == 5 && !strcmp(words[1], "-i") && !strcmp(words[3], "-c") && mode_of(words[4]) < MODES;
    if (!lists && !sets && !tells) {
        fprintf(stderr, "nvidia-smi (of the sandbox): it knows -L, --version and -i UUID -c MODE alone\n");
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
    if (!failed && tells)
        return tell_version();
    if (!failed && gpus == 0) {
        printf("No devices were found\n");
        return NOT_FOUND;
    }
    if (!failed)
        failed = lists ? name_gpus(gpus) : set_mode(words[2], mode_of(words[4]));
    if (failed && (lists || (failed != NOT_FOUND && failed != NOT_SUPPORTED)))
        printf("Failed to initialize NVML: %s\n", ((const char *(*)(int))dlsym(library, "nvmlErrorString"))(failed));
    return failed;
}
