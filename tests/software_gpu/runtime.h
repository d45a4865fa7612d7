// What the files of the stand-in for libcudart.so.13 share. What the other libraries see of it is in software_gpu.h.
// Everything declared here is called while mutex() is held, which call() takes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "software_gpu.h"

namespace software_gpu {

// --- calls.cpp

// Counts a call. Returns why it must fail before it does anything: a failure of earlier work, or its place.
cudaError_t begin_call(const char* name);
// Remembers an error for cudaGetLastError() and the report, and returns it.
cudaError_t end_call(const char* name, cudaError_t error);
cudaError_t& last_error();
// Why work failed, which no call survives from then on; cudaSuccess while none has.
cudaError_t& failure();

// Every function of CUDA that has something to lose is a call("its name", [&] { … return error; }).
template <typename Body>
cudaError_t call(const char* name, const Body& body) {
  const std::scoped_lock lock(mutex());
  const cudaError_t refused = begin_call(name);
  return end_call(name, refused != cudaSuccess ? refused : body());
}

// --- report.cpp

void count_call(const char* name);
void count_error(const std::string& what);

struct KernelCounts {
  unsigned long direct = 0, recorded = 0, replayed = 0;
  std::string shape;  // of the first launch
};
KernelCounts& counts_of_kernel(const std::string& name);  // demangled

struct Totals {
  unsigned long launches = 0, recorded = 0, replayed = 0, graph_launches = 0, captures = 0;  // of kernels, but for two
  std::size_t copied_to_device = 0, copied_to_host = 0;                                      // bytes
  std::vector<std::size_t> graph_nodes;  // of each graph that was recorded
};
Totals& totals();

// Counts a wait of the host's, with its place.
void count_wait(const char* what);
// Ends a process that cannot go on, with the report and exit code 99.
[[noreturn]] void end_with_mistake(const std::string& mistake);

// --- places.cpp: where a program called from

using Place = std::vector<void*>;  // return addresses, innermost first, without the stand-in's own
Place this_place();
// The frames of each place as "module function (file:line)", without LibTorch's dispatch.
std::vector<std::vector<std::string>> describe(const std::vector<Place>& places);
std::string demangled(const char* name);

// --- device.cpp

int device_count();
int current_device();
int capability();  // 90 for 9.0
struct Processor {
  int capability;
  const char* name;
  int processors, most_threads, most_blocks;     // most_…: on one of its processors at a time
  int shared, shared_of_block;                   // bytes on one processor, and of these a block's at most
  int level_two, clock, memory_clock, bus_bits;  // bytes, kHz, kHz, bits
};
const Processor& processor();

// --- memory.cpp, pinned.cpp

enum class MemoryKind { device, pinned, pageable };
MemoryKind kind_of(const void* address);
int device_of(const void* address);  // of device memory; -1 for other memory
// Device memory of the current device. The second fails for what is not the beginning of an allocation.
cudaError_t take_device_memory(void** out, std::size_t bytes);
cudaError_t give_device_memory(void* address);
bool is_live_device_memory(const void* address, std::size_t bytes);
void* own_view_of_device(const void* address);
bool is_own_view_of_device(const void* address);
std::size_t peak_of_device_memory();
// Copies and fills memory of any kind. Where nothing is computed, large device memory stays zero and costs nothing.
void copy_bytes(void* to, const void* from, std::size_t bytes);
void fill_bytes(void* to, int value, std::size_t bytes);

// Pinned memory of a copy that is under way, which the host must not write, or not even read.
struct Guard {
  std::byte* begin;
  std::size_t bytes;
  bool is_written;  // by the copy
};
void raise_guard(const Guard& guard);
void lower_guard(const Guard& guard);
bool is_live_pinned_memory(const void* address, std::size_t bytes);
void* own_view_of_pinned(const void* address);
std::size_t peak_of_pinned_memory();
// Whether a fault of the host's at this address is one that it can go on from, which it then can.
bool pardon_guarded(const void* address);

// --- faults.cpp

void watch_faults();

// --- streams.cpp, events.cpp: work that runs when it is waited for

struct Use {
  const void* address;  // of device memory
  std::size_t bytes;
};

// What is queued on a stream, and what a graph's node is.
struct Task {
  Work work = {};
  KernelCounts* kernel = nullptr;  // where the work is a launch
  std::vector<Use> uses = {};      // which must be live when it runs
  std::vector<Guard> guards = {};  // up from now until it runs
};
// The task that this thread is running, for those who complain; null where it runs none.
const Task* running_task();
void perform(const Task& task);

struct Stream;
struct Capture;
// A place in a stream: behind the task of this number, which counts from 1.
struct Point {
  Stream* stream = nullptr;
  unsigned long number = 0;
};
struct QueuedTask {
  unsigned long number;
  Task task;
  std::vector<Point> after;  // what must have run before
};
using History = std::map<const Stream*, unsigned long>;  // how many nodes of each stream come before

struct Stream {
  int device = 0, priority = 0;
  unsigned flags = 0;
  std::deque<QueuedTask> pending = {};
  unsigned long queued = 0, done = 0;
  int questions = 0;  // cudaStreamQuery() answered "not ready" so often since it was last done
  Capture* capture = nullptr;
  History history = {};  // within the capture

  bool is_blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};
// Null for a stream that does not exist, or no longer.
Stream* find_stream(cudaStream_t stream);
Stream& legacy_stream(int device);
bool is_done(const Point& point);
// Runs all that is queued up to a point, and what that depends on; nothing else.
void run_until(const Point& point);
inline Point end_of(Stream& stream) { return {&stream, stream.queued}; }
void run_everything();
// Whether it is done. It is, some questions later, as a program that asks in a loop must get on.
bool ask_whether_done(const Point& point, int& questions);
// Queues or records a task: the one way for work onto a stream.
cudaError_t submit(Stream* stream, Task task);
void enqueue(Stream& stream, Task task, std::vector<Point> after = {});

// --- capture.cpp, graphs.cpp

struct Graph {
  std::vector<std::shared_ptr<const Task>> nodes;  // in the order of their calls, which each stream keeps
};
struct Capture {
  unsigned long long id;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  Stream* origin;
  std::unique_ptr<Graph> graph;
  std::set<Stream*> members;
  bool is_valid = true;
};
Capture* find_capture(unsigned long long id);  // null where it has ended
bool is_capturing_here();                      // in this thread
cudaError_t record(Stream& stream, Task task);
// Refuses a call that CUDA counts as unsafe while a stream is in capture, and invalidates the captures in question.
cudaError_t refuse_unsafe();
// Refuses work on the legacy stream that would depend on a blocking stream in capture.
cudaError_t refuse_implicit(const Stream& stream);
// Makes a stream in capture, or one that joins it, depend on what an event in that capture has seen.
cudaError_t join_capture(Stream& stream, Capture& capture, const History& seen);

// --- registry.cpp

// A kernel that nvcc's code registered.
struct Kernel {
  const char* mangled;
  void* const* binary;  // which holds its images
  std::string name = {};
  KernelCounts* counts = nullptr;
  std::vector<int> pointers = {};  // of each parameter, how many pointers it is
  KernelLimits limits = {};
  std::size_t most_dynamic = 48 * 1024;
};
// The kernel of a function on the host, or of a cudaKernel_t, which is the Kernel itself; null for neither.
Kernel* find_kernel(const void* function);
// Whether there is code of it that this processor can run.
bool has_image(const Kernel& kernel);

// --- launches.cpp

// What may be launched where; static shared memory and registers as far as they are known.
struct Launch {
  dim3 grid, block;
  std::size_t shared;  // bytes, dynamic
  KernelLimits limits = {};
  std::size_t most_dynamic = 48 * 1024;  // bytes, as cudaFuncSetAttribute() left it
};
cudaError_t check_launch(const Launch& launch);
int blocks_of_processor(const Launch& launch);
// Null where no file of limits names it.
const KernelLimits* known_limits(const std::string& name);
bool knows_any_limits();

}  // namespace software_gpu
