// A client of the GPU in CUDA C++, for machines without PyTorch: speaks as client.py does, by lines; see there for the words.
//
// The kinds are the same in nature, not in amount: figures of the two are not to be compared with each other. Reads "do", and
// numbers and words by their keys; what it is sent is written by conductor.py alone, so this is no reader of JSON in general.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>
#include <cuda_runtime.h>

static const double THINK_SECONDS = 0.005;
static const size_t MIB = 1 << 20;

struct Failed { std::string text; };
#define CHECK(call) do { cudaError_t got = (call); if (got != cudaSuccess) throw Failed{cudaGetErrorString(got)}; } while (0)

__global__ void multiply_add(float *out, int rounds) {
    float value = threadIdx.x * 1e-3f, other = blockIdx.x * 1e-3f;
    for (int i = 0; i < rounds; i++) { value = value * 0.9999f + other; other = other * 0.9998f + value; }
    if (value == -1.0f) out[0] = other;  // keeps the loop
}
__global__ void nothing(float *out) { if (threadIdx.x == 2048) out[0] = 1.0f; }
__global__ void wild(float *out) { *reinterpret_cast<volatile float *>(reinterpret_cast<size_t>(out) | (size_t(1) << 60)) = 1.0f; }

static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void wait_until(double moment) { double left = moment - now(); if (left > 0) usleep((useconds_t)(left * 1e6)); }
static double number(const std::string &line, const char *key, double otherwise) {
    size_t at = line.find(std::string("\"") + key + "\":");
    return at == std::string::npos ? otherwise : atof(line.c_str() + at + strlen(key) + 3);
}
static bool has(const std::string &line, const char *text) { return line.find(text) != std::string::npos; }

struct Work {
    std::string kind;
    float *a = nullptr, *b = nullptr;
    size_t bytes = 0;
    std::vector<char> host;
    std::vector<void *> held;
    int blocks = 0;

    size_t join() {
        cudaDeviceProp device;
        CHECK(cudaGetDeviceProperties(&device, 0));
        blocks = device.multiProcessorCount * 8;
        bytes = kind == "memory" ? 512 * MIB : 64 * MIB;
        CHECK(cudaMalloc(&a, bytes));
        CHECK(cudaMalloc(&b, bytes));
        host.resize(4 * MIB);
        for (int i = 0; i < 3; i++) operation();
        return 2 * bytes / MIB;
    }
    void arithmetic(int how_many, int rounds) {
        for (int i = 0; i < how_many; i++) multiply_add<<<blocks, 256>>>(a, rounds);
    }
    void operation() {
        if (kind == "compute") arithmetic(10, 20000);
        else if (kind == "flood") arithmetic(200, 60000);
        else if (kind == "memory") for (int i = 0; i < 4; i++) CHECK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice));
        else if (kind == "launches") for (int i = 0; i < 500; i++) nothing<<<1, 32>>>(a);
        else if (kind == "inference") for (int i = 0; i < 12; i++) multiply_add<<<blocks / 8, 256>>>(a, 2000);
        else {
            CHECK(cudaMemcpyAsync(a, host.data(), host.size(), cudaMemcpyHostToDevice));
            arithmetic(6, 8000);
            for (int i = 0; i < 3; i++) CHECK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice));
            arithmetic(6, 8000);
        }
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    void fault(bool memory) {
        while (memory) {
            void *piece;
            CHECK(cudaMalloc(&piece, 256 * MIB));
            held.push_back(piece);
        }
        wild<<<1, 1>>>(a);
        CHECK(cudaDeviceSynchronize());
        throw Failed{"the GPU took an address that does not exist"};
    }
};

static void run(Work &work, const std::string &line) {
    double start = number(line, "start", 0), end = number(line, "end", 0), at = number(line, "at", end);
    std::vector<std::pair<double, double>> done;
    std::string error;
    double failed = 0;
    wait_until(start);
    try {
        for (double began; (began = now()) < end;) {
            if (began >= at) work.fault(has(line, "\"memory\""));
            work.operation();
            double ended = now();
            done.push_back({ended, ended - began});
            if (work.kind == "inference") usleep((useconds_t)(THINK_SECONDS * 1e6));
        }
    } catch (const Failed &raised) {
        error = raised.text;
        failed = now();
        wait_until(end);
    }
    printf("{\"is\": \"done\", \"operations\": [");
    for (size_t i = 0; i < done.size(); i++) printf("%s[%.6f, %.6f]", i ? ", " : "", done[i].first, done[i].second);
    if (error.empty()) printf("], \"error\": null, \"failed\": null}\n");
    else printf("], \"error\": \"%s\", \"failed\": %.6f}\n", error.c_str(), failed);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    Work work;
    work.kind = argv[1];
    printf("{\"is\": \"ready\"}\n");
    fflush(stdout);
    char *text = nullptr;
    size_t room = 0;
    while (getline(&text, &room, stdin) > 0) {
        std::string line(text);
        if (has(line, "\"run\"")) { run(work, line); continue; }
        if (has(line, "\"clock\"")) { printf("{\"is\": \"clock\", \"now\": %.6f}\n", now()); fflush(stdout); continue; }
        try {
            size_t mib = work.join();
            printf("{\"is\": \"joined\", \"mib\": %zu}\n", mib);
        } catch (const Failed &raised) {
            printf("{\"is\": \"failed\", \"error\": \"%s\"}\n", raised.text.c_str());
            fflush(stdout);
            return 1;
        }
        fflush(stdout);
    }
    return 0;
}
