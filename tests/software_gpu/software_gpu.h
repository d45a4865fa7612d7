// A GPU in software: stand-ins for libcudart.so.13, libcublas.so.13, libcublasLt.so.13 and libcuda.so.1, on which
// LibTorch's CUDA half and inkling's own run whole on a machine without a GPU, one thing after another. It judges
// everything about a GPU but speed and races. `./run PROGRAM ARGUMENT...` starts a program on it; settings are in the
// environment, each with SOFTWARE_GPU_ in front:
//
//     REPORT=FILE        where to write what happened, as JSON (%p in it becomes the process)
//     COMPUTES=0         only what has few elements is computed, other memory reads as zeros: for large models
//     MEMORY_MIB=81080   of each GPU
//     COUNT=1            how many GPUs
//     EXCHANGES=-1       how many exchanges NCCL makes before it fails; a negative number: all of them
//     CAPABILITY=90      compute capability: 75, 80, 90, 120
//     HIDE=1             there is no driver
//     LIMITS=FILE        what each of our kernels needs, as limits.py prints it; without it, launches are checked less
//     FORGIVING=1        mistakes are reported, but do not become exit code 99
//
// This header is what the parts of it share. What is not there of NVIDIA's libraries names itself and ends the process.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace software_gpu {

// A piece of work for a stream. It runs as late as CUDA's rules allow: when the host waits for it, or for something
// behind it. `run` gets no device memory from anybody: it reaches it through on_host().
struct Work {
  std::string kind;       // "kernel", "memcpy", "memset", "product", "operation", "event", …
  std::string name = {};  // of a kernel, demangled; of a product, the call
  std::function<void()> run = {};
};

// Returns the setting of this name, without SOFTWARE_GPU_.
const char* setting(const char* name, const char* otherwise);
long number(const char* name, long otherwise);

// One lock for everything: calls of CUDA take it, and work runs while it is held.
std::recursive_mutex& mutex();

// Whether all work is done (COMPUTES), and up to how many elements or threads it is done anyway: what steers a run,
// such as the number of its updates, and what a program tries at its start.
bool computes();
inline constexpr std::size_t most_elements_of_what_is_small = 8192;

// Adds one to how often this happened, for the report.
void count(const std::string& what);

// Remembers a mistake of the program's with the place it was made at; the report lists it, and the process ends with
// exit code 99, unless it ended otherwise.
void complain(const std::string& mistake);

// Queues work on a stream, or records it where the stream is in capture. Returns what CUDA would.
cudaError_t queue(cudaStream_t stream, Work work);

// Device memory as the host's own code may touch it, for Work::run; other addresses stay what they are.
void* on_host(const void* address);
// Whether these bytes lie within one allocation that has not been freed: of device memory, or pinned.
bool is_live(const void* address, std::size_t bytes);
bool is_device_memory(const void* address);

// While a thread is within an operation of LibTorch's that operations.cpp computes itself, what the operation launches
// is counted and checked, but not computed.
class WithinOperation {
 public:
  WithinOperation();
  ~WithinOperation();
  WithinOperation(const WithinOperation&) = delete;
  WithinOperation& operator=(const WithinOperation&) = delete;
};
bool is_within_operation();

// Calls begin() in every thread before its first call of CUDA's runtime, this one included: at once here.
void begin_threads_with(void (*begin)());

// What a launch must keep to: from `cuobjdump --dump-resource-usage` of the library, by demangled name.
struct KernelLimits {
  int registers = 32, static_shared = 0, most_threads = 1024;
};
// Checks a launch of one of our own kernels, counts it, and queues `run`. The kernels are those that
// tests/kernels/cuda/emulation compiles; `name` is demangled.
cudaError_t launch_own(const std::string& name, dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                       std::function<void()> run);

}  // namespace software_gpu
