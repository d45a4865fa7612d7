// Streams whose work is late: it runs when the host waits for it, or for something that depends on it, and waiting for
// one stream runs no other. So whoever forgets to wait reads what was there before.
#include <exception>
#include <unordered_map>
#include <utility>

#include "runtime.h"

namespace software_gpu {
namespace {

constexpr std::size_t most_pending = 100'000;  // tasks of a stream; its older half runs then
constexpr int patience = 2;                    // questions that are answered "not ready"

struct Streams {
  std::vector<std::unique_ptr<Stream>> all;               // destroyed ones too, whose work still runs
  std::unordered_map<cudaStream_t, Stream*> open;         // what programs may still name
  std::map<std::pair<int, cudaStream_t>, Stream*> fixed;  // by device: the legacy stream, and the one "per thread"
};

Streams& streams() {
  static Streams& all = *new Streams;
  return all;
}

Stream& make_stream(int device, unsigned flags, int priority) {
  streams().all.push_back(std::make_unique<Stream>(Stream{.device = device, .priority = priority, .flags = flags}));
  return *streams().all.back();
}

Stream& fixed_stream(int device, cudaStream_t name) {
  Stream*& stream = streams().fixed[{device, name}];
  if (stream == nullptr) stream = &make_stream(device, cudaStreamDefault, 0);
  return *stream;
}

thread_local const Task* running = nullptr;

// What a task on this stream must come after by the rules of the legacy stream, in both directions.
std::vector<Point> implicit_points(const Stream& stream) {
  std::vector<Point> points;
  Stream& legacy = legacy_stream(stream.device);
  const auto add = [&](Stream& other) {
    if (other.done < other.queued) points.push_back(end_of(other));
  };
  if (&stream != &legacy) {
    if (stream.is_blocking()) add(legacy);
    return points;
  }
  for (const auto& other : streams().all) {
    if (other.get() != &legacy && other->device == stream.device && other->is_blocking()) add(*other);
  }
  return points;
}

}  // namespace

const Task* running_task() { return running; }

void perform(const Task& task) {
  if (failure() != cudaSuccess) return;
  for (const Use& use : task.uses) {
    if (is_live(use.address, use.bytes)) continue;
    complain("a " + task.work.kind +
             " uses device memory that has been freed since it was queued or recorded: " + task.work.name);
    return;
  }
  if (!task.work.run) return;
  const Task* const outer = std::exchange(running, &task);
  try {
    task.work.run();
  } catch (const std::exception& error) {
    complain("a " + task.work.kind + " failed: " + task.work.name + ": " + error.what());
    failure() = cudaErrorLaunchFailure;
  }
  running = outer;
}

Stream* find_stream(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return &legacy_stream(current_device());
  if (stream == cudaStreamPerThread) return &fixed_stream(current_device(), cudaStreamPerThread);
  const auto found = streams().open.find(stream);
  return found == streams().open.end() ? nullptr : found->second;
}

Stream& legacy_stream(int device) { return fixed_stream(device, cudaStreamLegacy); }

bool is_done(const Point& point) { return point.stream == nullptr || point.stream->done >= point.number; }

void run_until(const Point& point) {
  Stream& stream = *point.stream;
  while (!stream.pending.empty() && stream.pending.front().number <= point.number) {
    const QueuedTask next = std::move(stream.pending.front());
    stream.pending.pop_front();
    for (const Point& before : next.after) run_until(before);
    for (const Guard& guard : next.task.guards) lower_guard(guard);
    perform(next.task);
    stream.done = next.number;
  }
}

void run_everything() {
  for (std::size_t i = 0; i < streams().all.size(); ++i) run_until(end_of(*streams().all[i]));
}

bool ask_whether_done(const Point& point, int& questions) {
  if (is_done(point)) {
    questions = 0;
    return true;
  }
  if (++questions > patience) run_until(point);
  return false;
}

void enqueue(Stream& stream, Task task, std::vector<Point> after) {
  const std::vector<Point> implicit = implicit_points(stream);
  after.insert(after.end(), implicit.begin(), implicit.end());
  for (const Guard& guard : task.guards) raise_guard(guard);
  stream.pending.push_back({.number = ++stream.queued, .task = std::move(task), .after = std::move(after)});
  if (stream.pending.size() > most_pending) run_until({&stream, stream.queued - most_pending / 2});
}

cudaError_t submit(Stream* stream, Task task) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) return record(*stream, std::move(task));
  if (const cudaError_t refused = refuse_implicit(*stream)) return refused;
  if (is_capturing_here()) count("work queued beside a capture of its thread, which is not recorded");
  if (task.kernel != nullptr) {
    ++task.kernel->direct;
    ++totals().launches;
  }
  enqueue(*stream, std::move(task));
  return cudaSuccess;
}

cudaError_t queue(cudaStream_t stream, Work work) {
  const std::scoped_lock lock(mutex());
  const bool is_launched = work.kind == "kernel" || work.kind == "product";
  if (is_launched && (is_within_operation() || !computes())) work.run = {};
  return submit(find_stream(stream), {.work = std::move(work)});
}

}  // namespace software_gpu

using namespace software_gpu;

namespace {

cudaError_t create_stream(cudaStream_t* out, unsigned flags, int priority) {
  return call("cudaStreamCreate", [&] {
    Stream& stream = make_stream(current_device(), flags, priority);
    *out = reinterpret_cast<cudaStream_t>(&stream);
    streams().open[*out] = &stream;
    return cudaSuccess;
  });
}

// A question or a wait is an error for a stream in capture, which it invalidates.
cudaError_t refuse_question(Stream* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture == nullptr) return refuse_unsafe();
  stream->capture->is_valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* out) { return create_stream(out, cudaStreamDefault, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) { return create_stream(out, flags, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  return create_stream(out, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy",
              [&] { return streams().open.erase(stream) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call("cudaStreamGetPriority", [&] {
    const Stream* const found = find_stream(stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    *priority = found->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return call("cudaStreamGetFlags", [&] {
    const Stream* const found = find_stream(stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    *flags = found->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&] {
    Stream* const found = find_stream(stream);
    if (const cudaError_t refused = refuse_question(found)) return refused;
    count_wait("cudaStreamSynchronize");
    run_until(end_of(*found));
    return failure();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", [&] {
    Stream* const found = find_stream(stream);
    if (const cudaError_t refused = refuse_question(found)) return refused;
    return ask_whether_done(end_of(*found), found->questions) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [] {
    if (const cudaError_t refused = refuse_unsafe()) return refused;
    count_wait("cudaDeviceSynchronize");
    for (std::size_t i = 0; i < streams().all.size(); ++i) {
      Stream& stream = *streams().all[i];
      if (stream.device == current_device()) run_until(end_of(stream));
    }
    return failure();
  });
}

// A function on the host runs in its turn, and must not call CUDA (begin_call() sees to it).
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call("cudaLaunchHostFunc", [&] {
    return submit(find_stream(stream), {.work = {.kind = "host function", .run = [=] { function(data); }}});
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
  return call("cudaStreamAddCallback", [&] {
    Stream* const found = find_stream(stream);
    if (found != nullptr && found->capture != nullptr) {
      found->capture->is_valid = false;
      return cudaErrorStreamCaptureUnsupported;
    }
    return submit(found, {.work = {.kind = "host function", .run = [=] { callback(stream, cudaSuccess, data); }}});
  });
}

}  // extern "C"
