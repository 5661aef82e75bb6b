#include "state.h"
#include "answers.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANKS " \t"

/* --- words and numbers ------------------------------------------------------------------------------------------- */

/* The next word of a line, or NULL; *rest moves behind it. */
static char *take_word(char **rest)
{
    char *word = *rest + strspn(*rest, BLANKS);
    if (*word == '\0')
        return NULL;
    char *end = word + strcspn(word, BLANKS);
    *rest = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

/* What is left of a line, or NULL where nothing is. */
static const char *take_rest(char **rest)
{
    char *text = *rest + strspn(*rest, BLANKS);
    *rest = text + strlen(text);
    return *text == '\0' ? NULL : text;
}

static bool take_number(char **rest, long long *value)
{
    const char *word = take_word(rest);
    if (word == NULL)
        return false;
    if (strcmp(word, "-") == 0) {
        *value = UNKNOWN;
        return true;
    }
    char *end;
    errno = 0;
    *value = strtoll(word, &end, 0);
    return errno == 0 && *end == '\0' && *value >= 0;
}

static bool take_numbers(char **rest, long long *values, int count)
{
    for (int index = 0; index < count; index++)
        if (!take_number(rest, &values[index]))
            return false;
    return true;
}

/* --- one function per key ---------------------------------------------------------------------------------------- */

typedef bool (*reader)(struct machine *machine, struct gpu *gpu, char **rest);

#define READS_TEXT(name, place)                                                 \
    static bool read_##name(struct machine *machine, struct gpu *gpu, char **rest) \
    {                                                                           \
        (void)machine, (void)gpu;                                               \
        return (place = take_rest(rest)) != NULL;                               \
    }
#define READS_NUMBERS(name, place, count)                                       \
    static bool read_##name(struct machine *machine, struct gpu *gpu, char **rest) \
    {                                                                           \
        (void)machine, (void)gpu;                                               \
        return take_numbers(rest, place, count);                                \
    }

READS_TEXT(driver_version, machine->driver_version)
READS_TEXT(nvml_version, machine->nvml_version)
READS_NUMBERS(cuda_version, &machine->cuda_version, 1)
READS_TEXT(uuid, gpu->uuid)
READS_TEXT(name, gpu->name)
READS_TEXT(serial, gpu->serial)
READS_NUMBERS(architecture, &gpu->architecture, 1)
READS_NUMBERS(compute_capability, gpu->capability, 2)
READS_NUMBERS(minor, &gpu->minor, 1)
READS_NUMBERS(memory_mib, &gpu->memory_mib, 1)
READS_NUMBERS(reserved_kib, &gpu->reserved_kib, 1)
READS_NUMBERS(compute_mode, &gpu->compute_mode, 1)
READS_NUMBERS(ecc, gpu->ecc, 2)
READS_NUMBERS(ecc_errors, gpu->ecc_errors, 4)
READS_NUMBERS(remapped_rows, gpu->remapped_rows, 4)
READS_NUMBERS(row_histogram, gpu->row_histogram, 5)
READS_NUMBERS(event_types, &gpu->event_types, 1)
READS_NUMBERS(mig, gpu->mig, 2)
READS_NUMBERS(mig_slices, &gpu->mig_slices, 1)
READS_NUMBERS(mig_units, &gpu->mig_units, 1)

static bool read_gpu(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)gpu;
    long long slot;
    if (!take_number(rest, &slot) || slot < 0 || slot >= MAX_GPUS || machine->gpu_count == MAX_GPUS)
        return false;
    for (int index = 0; index < machine->gpu_count; index++)
        if (machine->gpus[index]->slot == slot)
            return false;
    struct gpu *made = calloc(1, sizeof *made);
    if (made == NULL)
        return false;
    machine->gpus[machine->gpu_count++] = made;
    made->slot = (int)slot;
    long long *unknown[] = {&made->architecture, made->capability, made->pci, made->ecc, made->remapped_rows,
                            made->row_histogram, &made->event_types, made->mig, &made->memory_mib, &made->minor};
    for (size_t index = 0; index < sizeof unknown / sizeof *unknown; index++)
        *unknown[index] = UNKNOWN;
    return true;
}

static bool read_fault(struct machine *machine, struct gpu *gpu, char **rest)
{
    struct faults *faults = gpu == NULL ? &machine->faults : &gpu->faults;
    if (faults->count == MAX_FAULTS)
        return false;
    struct fault *fault = &faults->list[faults->count++];
    fault->function = take_word(rest);
    const char *kind = take_word(rest);
    const char *value = take_word(rest);
    if (value == NULL)
        return false;
    char *end;
    double number = strtod(value, &end);
    if (*end != '\0' || !(number > 0))
        return false;
    if (strcmp(kind, "hang") == 0)
        fault->hang_seconds = number;
    else if (strcmp(kind, "error") == 0)
        fault->error = (int)number;
    else
        return false;
    return true;
}

static bool read_answer(struct machine *machine, struct gpu *gpu, char **rest)
{
    struct answers *answers = gpu == NULL ? &machine->answers : &gpu->answers;
    const char *function = take_word(rest);
    int count = function == NULL ? NOT_ANSWERED : answer_values(function, gpu != NULL);
    if (count == NOT_ANSWERED || answers->count == MAX_ANSWERS)
        return false;
    struct answer *answer = &answers->list[answers->count++];
    answer->function = function;
    if (count == ANSWERED_IN_TEXT)
        return (answer->text = take_rest(rest)) != NULL;
    return take_numbers(rest, answer->numbers, count);
}

static bool read_pci(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    const char *address = take_word(rest);
    unsigned int domain, bus, device;
    if (address == NULL || sscanf(address, "%x:%x:%x", &domain, &bus, &device) != 3)
        return false;
    gpu->pci[0] = domain;
    gpu->pci[1] = bus;
    gpu->pci[2] = device;
    return take_number(rest, &gpu->pci_device) && take_number(rest, &gpu->pci_subsystem);
}

static bool read_mig_change(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    const char *when = take_word(rest);
    if (when == NULL)
        return false;
    gpu->mig_at_once = strcmp(when, "at-once") == 0;
    return gpu->mig_at_once || strcmp(when, "reset") == 0;
}

static bool read_mig_listed(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    const char *when = take_word(rest);
    if (when == NULL)
        return false;
    gpu->mig_listed_when_off = strcmp(when, "always") == 0;
    return gpu->mig_listed_when_off || strcmp(when, "when-on") == 0;
}

static bool read_mig_profile(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    if (gpu->profile_count == MAX_PROFILES)
        return false;
    struct profile *profile = &gpu->profiles[gpu->profile_count++];
    long long *fields[] = {&profile->number,       &profile->id,       &profile->slices,   &profile->max,
                           &profile->size,         &profile->multiprocessors, &profile->memory_mib,
                           &profile->copy_engines, &profile->decoders, &profile->encoders, &profile->jpegs,
                           &profile->ofas};
    for (size_t index = 0; index < sizeof fields / sizeof *fields; index++)
        if (!take_number(rest, fields[index]))
            return false;
    char *starts = take_word(rest);
    profile->name = take_word(rest);
    if (profile->name == NULL || profile->size <= 0 || profile->size > MAX_INSTANCES / 2)
        return false;
    for (char *start = starts; *start != '\0'; profile->start_count++) {
        char *end;
        long value = strtol(start, &end, 10);
        if (end == start || value < 0 || value >= 64 || profile->start_count == MAX_STARTS)
            return false;
        profile->starts[profile->start_count] = (int)value;
        start = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end != '\0')
            return false;
    }
    return true;
}

static bool read_gpu_instance(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    long long values[3]; /* id, profile id, start */
    if (!take_numbers(rest, values, 3) || values[0] < 0 || values[0] >= MAX_INSTANCES || gpu->instance_count == MAX_INSTANCES)
        return false;
    struct instance *instance = &gpu->instances[gpu->instance_count++];
    instance->id = (int)values[0];
    instance->start = (int)values[2];
    for (int index = 0; index < gpu->profile_count; index++)
        for (int nth = 0; nth < gpu->profiles[index].start_count; nth++)
            if (gpu->profiles[index].id == values[1] && gpu->profiles[index].starts[nth] == values[2])
                instance->profile = &gpu->profiles[index];
    return instance->profile != NULL; /* so profiles stand above instances */
}

static bool read_compute_instance(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    long long values[4]; /* GPU instance, id, slices, start */
    if (!take_numbers(rest, values, 4) || values[1] < 0 || values[1] >= MAX_COMPUTES)
        return false;
    if (values[2] < 1 || values[2] == 5 || values[2] > MAX_COMPUTES || values[3] < 0 || values[3] >= MAX_COMPUTES)
        return false;
    for (int index = 0; index < gpu->instance_count; index++) {
        struct instance *instance = &gpu->instances[index];
        if (instance->id != values[0] || instance->compute_count == MAX_COMPUTES)
            continue;
        struct compute *compute = &instance->computes[instance->compute_count++];
        compute->id = (int)values[1];
        compute->slices = (int)values[2];
        compute->start = (int)values[3];
        return true;
    }
    return false;
}

static bool read_process(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    if (gpu->process_count == MAX_PROCESSES)
        return false;
    struct process *process = &gpu->processes[gpu->process_count++];
    long long *fields[] = {&process->pid, &process->memory_mib, &process->instance, &process->compute};
    for (size_t index = 0; index < sizeof fields / sizeof *fields; index++)
        if (!take_number(rest, fields[index]))
            return false;
    process->kind = take_word(rest);
    process->name = take_rest(rest);
    return process->name != NULL;
}

static bool read_event(struct machine *machine, struct gpu *gpu, char **rest)
{
    (void)machine;
    if (gpu->event_count == MAX_EVENTS)
        return false;
    struct event *event = &gpu->events[gpu->event_count++];
    long long *fields[] = {&event->sequence, &event->type, &event->data, &event->instance, &event->compute};
    for (size_t index = 0; index < sizeof fields / sizeof *fields; index++)
        if (!take_number(rest, fields[index]))
            return false;
    return true;
}

/* Where a key may stand, and whether calls change it: such lines are written anew. */
enum scope { MACHINE, GPU, ANYWHERE };

static const struct key {
    const char *name;
    enum scope scope;
    bool changes;
    reader read;
} keys[] = {
    {"driver-version", MACHINE, false, read_driver_version},
    {"nvml-version", MACHINE, false, read_nvml_version},
    {"cuda-version", MACHINE, false, read_cuda_version},
    {"gpu", ANYWHERE, false, read_gpu},
    {"fault", ANYWHERE, false, read_fault},
    {"answer", ANYWHERE, false, read_answer},
    {"uuid", GPU, false, read_uuid},
    {"name", GPU, false, read_name},
    {"serial", GPU, false, read_serial},
    {"architecture", GPU, false, read_architecture},
    {"compute-capability", GPU, false, read_compute_capability},
    {"minor", GPU, false, read_minor},
    {"pci", GPU, false, read_pci},
    {"memory-mib", GPU, false, read_memory_mib},
    {"reserved-kib", GPU, false, read_reserved_kib},
    {"ecc-errors", GPU, false, read_ecc_errors},
    {"remapped-rows", GPU, false, read_remapped_rows},
    {"row-histogram", GPU, false, read_row_histogram},
    {"event-types", GPU, false, read_event_types},
    {"process", GPU, false, read_process},
    {"event", GPU, false, read_event},
    {"mig-change", GPU, false, read_mig_change},
    {"mig-listed", GPU, false, read_mig_listed},
    {"mig-slices", GPU, false, read_mig_slices},
    {"mig-units", GPU, false, read_mig_units},
    {"mig-profile", GPU, false, read_mig_profile},
    {"compute-mode", GPU, true, read_compute_mode},
    {"ecc", GPU, true, read_ecc},
    {"mig", GPU, true, read_mig},
    {"gpu-instance", GPU, true, read_gpu_instance},
    {"compute-instance", GPU, true, read_compute_instance},
};

static const struct key *find_key(const char *line)
{
    size_t length = strcspn(line, BLANKS);
    for (size_t index = 0; index < sizeof keys / sizeof *keys; index++)
        if (strlen(keys[index].name) == length && strncmp(keys[index].name, line, length) == 0)
            return &keys[index];
    return NULL;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static char *read_text(const char *path)
{
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *into = open_memstream(&text, &size);
    if (into != NULL) {
        char block[8192];
        size_t got;
        while ((got = fread(block, 1, sizeof block, stream)) > 0)
            fwrite(block, 1, got, into);
        fclose(into);
    }
    fclose(stream);
    return text;
}

static bool read_line(struct machine *machine, char *line)
{
    const struct key *key = find_key(line);
    struct gpu *gpu = machine->gpu_count == 0 ? NULL : machine->gpus[machine->gpu_count - 1];
    if (key == NULL || (key->scope == GPU && gpu == NULL) || (key->scope == MACHINE && gpu != NULL))
        return false;
    char *rest = line;
    take_word(&rest);
    return key->read(machine, gpu, &rest) && take_rest(&rest) == NULL;
}

static int by_compute(const void *left, const void *right)
{
    return ((const struct compute *)left)->id - ((const struct compute *)right)->id;
}

static int by_instance(const void *left, const void *right)
{
    return ((const struct instance *)left)->id - ((const struct instance *)right)->id;
}

/* Whoever lists instances expects them by id, whatever order the file has. */
static void sort_instances(struct gpu *gpu)
{
    qsort(gpu->instances, (size_t)gpu->instance_count, sizeof *gpu->instances, by_instance);
    for (int index = 0; index < gpu->instance_count; index++)
        qsort(gpu->instances[index].computes, (size_t)gpu->instances[index].compute_count, sizeof(struct compute), by_compute);
}

/* Each GPU needs these to be found at all, and its profiles need units, from which ids of instances follow. */
static bool is_complete(const struct gpu *gpu)
{
    if (gpu->uuid == NULL || gpu->name == NULL || gpu->pci[0] == UNKNOWN || gpu->minor == UNKNOWN)
        return false;
    for (int index = 0; index < gpu->profile_count; index++) {
        const struct profile *profile = &gpu->profiles[index];
        for (int nth = 0; nth < profile->start_count; nth++)
            if (profile->starts[nth] + profile->size > gpu->mig_units)
                return false;
    }
    return gpu->mig_units <= MAX_INSTANCES / 2;
}

struct machine *machine_read(const char *path, bool *broken)
{
    struct machine *machine = calloc(1, sizeof *machine);
    *broken = false;
    if (machine == NULL)
        return NULL;
    machine->cuda_version = UNKNOWN;
    machine->text = read_text(path);
    machine->words = machine->text == NULL ? NULL : strdup(machine->text);
    if (machine->words == NULL) {
        machine_free(machine);
        return NULL;
    }
    int number = 0;
    for (char *line = machine->words, *next; line != NULL && !*broken; line = next) {
        number++;
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        line += strspn(line, BLANKS);
        *broken = *line != '\0' && *line != '#' && !read_line(machine, line);
    }
    for (int index = 0; index < machine->gpu_count; index++) {
        *broken = *broken || !is_complete(machine->gpus[index]);
        sort_instances(machine->gpus[index]);
    }
    if (!*broken)
        return machine;
    fprintf(stderr, "libnvidia-ml (simulated): %s:%d: not understood, or a GPU above lacks uuid, name, pci, minor or mig-units\n", path, number);
    machine_free(machine);
    return NULL;
}

void machine_free(struct machine *machine)
{
    if (machine == NULL)
        return;
    for (int index = 0; index < machine->gpu_count; index++)
        free(machine->gpus[index]);
    free(machine->text);
    free(machine->words);
    free(machine);
}

static void write_changes(FILE *stream, const struct gpu *gpu)
{
    fprintf(stream, "compute-mode %lld\n", gpu->compute_mode);
    if (gpu->ecc[0] != UNKNOWN)
        fprintf(stream, "ecc %lld %lld\n", gpu->ecc[0], gpu->ecc[1]);
    if (gpu->mig[0] != UNKNOWN)
        fprintf(stream, "mig %lld %lld\n", gpu->mig[0], gpu->mig[1]);
    for (int index = 0; index < gpu->instance_count; index++) {
        const struct instance *instance = &gpu->instances[index];
        fprintf(stream, "gpu-instance %d %lld %d\n", instance->id, instance->profile->id, instance->start);
        for (int inner = 0; inner < instance->compute_count; inner++) {
            const struct compute *compute = &instance->computes[inner];
            fprintf(stream, "compute-instance %d %d %d %d\n", instance->id, compute->id, compute->slices, compute->start);
        }
    }
}

static void write_lines(FILE *stream, const struct machine *machine)
{
    int gpus = 0; /* sections begun */
    for (const char *line = machine->text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *end = line + length + (line[length] == '\n');
        const char *word = line + strspn(line, BLANKS);
        char first[32];
        snprintf(first, sizeof first, "%.*s", (int)strcspn(word, BLANKS "\n"), word);
        const struct key *key = find_key(first);
        if (key != NULL && key->read == read_gpu && gpus++ > 0)
            write_changes(stream, machine->gpus[gpus - 2]);
        if (key == NULL || !key->changes)
            fprintf(stream, "%.*s\n", (int)length, line);
        line = end;
    }
    if (gpus > 0)
        write_changes(stream, machine->gpus[gpus - 1]);
}

bool machine_write(const struct machine *machine, const char *path)
{
    char temporary[PATH_MAX];
    struct stat before;
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary || stat(path, &before) != 0)
        return false;
    int descriptor = mkostemp(temporary, O_CLOEXEC);
    if (descriptor < 0)
        return false;
    FILE *stream = fdopen(descriptor, "w");
    bool written = stream != NULL && fchmod(descriptor, before.st_mode & 07777) == 0;
    if (stream != NULL) {
        write_lines(stream, machine);
        written = ferror(stream) == 0 && written;
        written = fclose(stream) == 0 && written;
    } else {
        close(descriptor);
    }
    if (written && rename(temporary, path) == 0)
        return true;
    unlink(temporary);
    return false;
}

int machine_lock(const char *path)
{
    char folder[PATH_MAX], name[PATH_MAX], lock[2 * PATH_MAX];
    if (strlen(path) >= PATH_MAX)
        return -1;
    strcpy(folder, path);
    strcpy(name, path);
    snprintf(lock, sizeof lock, "%s/.%s.lock", dirname(folder), basename(name));
    for (;;) {
        int descriptor = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (descriptor < 0)
            return -1;
        struct stat opened, there;
        if (flock(descriptor, LOCK_EX) != 0) {
            close(descriptor);
            return -1;
        }
        /* While this waited, the folder may have been erased and made anew: that lock is another file. */
        if (fstat(descriptor, &opened) == 0 && stat(lock, &there) == 0 && opened.st_ino == there.st_ino &&
            opened.st_dev == there.st_dev)
            return descriptor;
        close(descriptor);
    }
}
