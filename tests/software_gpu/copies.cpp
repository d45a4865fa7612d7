// Copies and fills. A copy of pageable memory is made before the call returns, as CUDA does; one of pinned memory is
// under way until something waits for it, and the pinned memory is guarded until then.
#include <optional>

#include "runtime.h"

namespace software_gpu {
namespace {

struct Copy {
  void* to;
  const void* from;
  std::size_t to_pitch, from_pitch, width, height;  // bytes, but for the height
  cudaMemcpyKind kind;
  const char* call;

  std::size_t to_bytes() const { return (height - 1) * to_pitch + width; }
  std::size_t from_bytes() const { return (height - 1) * from_pitch + width; }
};

Copy row_of(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, const char* call) {
  return {.to = to,
          .from = from,
          .to_pitch = bytes,
          .from_pitch = bytes,
          .width = bytes,
          .height = 1,
          .kind = kind,
          .call = call};
}

// Whether the memory is where `kind` says, and allocated.
cudaError_t check_copy(const Copy& copy, MemoryKind from, MemoryKind to) {
  if (from != MemoryKind::pageable && !is_live(copy.from, copy.from_bytes())) return cudaErrorInvalidValue;
  if (to != MemoryKind::pageable && !is_live(copy.to, copy.to_bytes())) return cudaErrorInvalidValue;
  if (copy.height > 1 && (copy.to_pitch < copy.width || copy.from_pitch < copy.width)) return cudaErrorInvalidValue;
  if (copy.kind == cudaMemcpyDefault) return cudaSuccess;
  if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  const bool from_device = copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
  const bool to_device = copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
  const bool is_right = from_device == (from == MemoryKind::device) && to_device == (to == MemoryKind::device);
  return is_right ? cudaSuccess : cudaErrorInvalidValue;
}

Task task_of(const Copy& copy, MemoryKind from, MemoryKind to) {
  Task task;
  task.work = {.kind = "memcpy", .name = copy.call, .run = [copy] {
                 for (std::size_t row = 0; row < copy.height; ++row) {
                   copy_bytes(static_cast<std::byte*>(copy.to) + row * copy.to_pitch,
                              static_cast<const std::byte*>(copy.from) + row * copy.from_pitch, copy.width);
                 }
               }};
  if (from == MemoryKind::device) task.uses.push_back({copy.from, copy.from_bytes()});
  if (to == MemoryKind::device) task.uses.push_back({copy.to, copy.to_bytes()});
  if (from == MemoryKind::pinned) {
    auto* const begin = static_cast<std::byte*>(const_cast<void*>(copy.from));
    task.guards.push_back({.begin = begin, .bytes = copy.from_bytes(), .is_written = false});
  }
  if (to == MemoryKind::pinned) {
    task.guards.push_back({.begin = static_cast<std::byte*>(copy.to), .bytes = copy.to_bytes(), .is_written = true});
  }
  return task;
}

// `stream`: empty for the calls that wait, which use the legacy stream.
cudaError_t make_copy(const Copy& copy, std::optional<cudaStream_t> stream) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  const MemoryKind from = kind_of(copy.from), to = kind_of(copy.to);
  const bool is_from_device = from == MemoryKind::device, is_to_device = to == MemoryKind::device;
  const bool is_pageable = from == MemoryKind::pageable || to == MemoryKind::pageable;
  if (const cudaError_t error = check_copy(copy, from, to)) return error;
  Stream* const at = stream ? find_stream(*stream) : &legacy_stream(current_device());
  if (at == nullptr) return cudaErrorInvalidResourceHandle;
  if (!stream) {
    if (const cudaError_t refused = refuse_unsafe()) return refused;
  }
  if (is_pageable && at->capture != nullptr) {
    at->capture->is_valid = false;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (is_to_device && !is_from_device) totals().copied_to_device += copy.width * copy.height;
  if (is_from_device && !is_to_device) totals().copied_to_host += copy.width * copy.height;
  if (const cudaError_t error = submit(at, task_of(copy, from, to))) return error;
  const bool waits =
      is_pageable || (!is_from_device && !is_to_device) || (!stream && !(is_from_device && is_to_device));
  if (!waits || at->capture != nullptr) return cudaSuccess;
  count_wait(stream ? "a copy of pageable memory" : copy.call);
  run_until(end_of(*at));
  return failure();
}

cudaError_t fill(void* to, int value, std::size_t bytes, Stream* stream) {
  if (bytes == 0) return cudaSuccess;
  if (!is_live(to, bytes)) return cudaErrorInvalidValue;
  Task task;
  task.work = {.kind = "memset", .run = [=] { fill_bytes(to, value, bytes); }};
  task.uses.push_back({to, bytes});
  return submit(stream, std::move(task));
}

}  // namespace
}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", [&] { return make_copy(row_of(to, from, bytes, kind, "cudaMemcpy"), {}); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&] { return make_copy(row_of(to, from, bytes, kind, "cudaMemcpyAsync"), stream); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", [&] {
    return make_copy(row_of(to, from, bytes, cudaMemcpyDeviceToDevice, "cudaMemcpyPeerAsync"), stream);
  });
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                         std::size_t height, cudaMemcpyKind kind) {
  return call("cudaMemcpy2D",
              [&] { return make_copy({to, from, to_pitch, from_pitch, width, height, kind, "cudaMemcpy2D"}, {}); });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpy2DAsync", [&] {
    return make_copy({to, from, to_pitch, from_pitch, width, height, kind, "cudaMemcpy2DAsync"}, stream);
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call("cudaMemset", [&] {
    const cudaError_t refused = refuse_unsafe();
    return refused != cudaSuccess ? refused : fill(to, value, bytes, &legacy_stream(current_device()));
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&] { return fill(to, value, bytes, find_stream(stream)); });
}

}  // extern "C"
