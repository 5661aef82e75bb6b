/*
 * The machine that the library simulates, as its state file describes it: read whole, changed, written whole.
 *
 * What the file may say is in ../README.md. This part knows no NVML function; which
 * lines "answer" are good, it asks answers.h.
 */
#ifndef GPU_POOLS_STATE_H
#define GPU_POOLS_STATE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    MAX_GPUS = 16,
    MAX_PROFILES = 32,
    MAX_STARTS = 16,
    MAX_INSTANCES = 32, /* also one more than the highest instance id */
    MAX_COMPUTES = 8,   /* per GPU instance; also one more than the highest compute instance id */
    MAX_PROCESSES = 64,
    MAX_EVENTS = 64,
    MAX_FAULTS = 64,
    MAX_ANSWERS = 64,
    MAX_ANSWER_VALUES = 8
};

/* A number that the file leaves out or writes as "-". */
#define UNKNOWN (-1LL)

struct fault {
    const char *function; /* a name, or a pattern with * */
    double hang_seconds;
    int error; /* 0: none */
};

struct faults {
    struct fault list[MAX_FAULTS];
    int count;
};

/* What a function says that answers.h knows: text, or numbers. */
struct answer {
    const char *function;
    const char *text;
    long long numbers[MAX_ANSWER_VALUES];
};

struct answers {
    struct answer list[MAX_ANSWERS];
    int count;
};

struct profile {
    long long number; /* NVML_GPU_INSTANCE_PROFILE_* */
    long long id;     /* what creating takes, and nvidia-smi prints */
    long long slices, max, size, multiprocessors, memory_mib;
    long long copy_engines, decoders, encoders, jpegs, ofas;
    int starts[MAX_STARTS];
    int start_count;
    const char *name;
};

struct compute {
    int id, slices, start;
};

struct instance {
    int id, start;
    const struct profile *profile;
    struct compute computes[MAX_COMPUTES];
    int compute_count;
};

struct process {
    long long pid, memory_mib, instance, compute;
    const char *kind; /* compute, graphics or mps */
    const char *name;
};

struct event {
    long long sequence, type, data, instance, compute;
};

struct gpu {
    int slot; /* N of "gpu N"; it keeps its number when another GPU disappears */
    const char *uuid, *name, *serial;
    long long architecture, capability[2], minor;
    long long pci[3], pci_device, pci_subsystem;
    long long memory_mib, reserved_kib;
    long long compute_mode;
    long long ecc[2], ecc_errors[4];
    long long remapped_rows[4], row_histogram[5];
    long long event_types;
    long long mig[2]; /* current, pending */
    bool mig_at_once, mig_listed_when_off;
    long long mig_slices, mig_units;
    struct profile profiles[MAX_PROFILES];
    int profile_count;
    struct instance instances[MAX_INSTANCES];
    int instance_count;
    struct process processes[MAX_PROCESSES];
    int process_count;
    struct event events[MAX_EVENTS];
    int event_count;
    struct answers answers;
    struct faults faults;
};

struct machine {
    const char *driver_version, *nvml_version;
    long long cuda_version;
    struct answers answers;
    struct faults faults;
    struct gpu *gpus[MAX_GPUS];
    int gpu_count;
    char *text;  /* as read */
    char *words; /* the same, cut up: the strings above point into it */
};

/* Reads the file; NULL when it is not there or says something unknown (then *broken is set and standard error says what). */
struct machine *machine_read(const char *path, bool *broken);

/* Replaces the file: MIG mode, instances, compute mode and ECC mode from the machine, every other line as it was read. */
bool machine_write(const struct machine *machine, const char *path);

void machine_free(struct machine *machine);

/* Waits for the lock that belongs to the file, ".<name>.lock" beside it; a descriptor to close, or -1. */
int machine_lock(const char *path);

#endif
