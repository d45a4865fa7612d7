// Captures: what is called on their streams becomes nodes of a graph, and what CUDA forbids meanwhile is refused with
// CUDA's errors, after which the capture is not valid any more.
#include <algorithm>
#include <utility>

#include "runtime.h"

namespace software_gpu {
namespace {

std::vector<std::unique_ptr<Capture>>& captures() {
  static auto& all = *new std::vector<std::unique_ptr<Capture>>;
  return all;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

cudaError_t begin_capture(Stream* stream, cudaStreamCaptureMode mode) {
  static unsigned long long next = 1;
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream == &legacy_stream(stream->device)) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  captures().push_back(std::make_unique<Capture>(Capture{.id = next++,
                                                         .mode = mode,
                                                         .thread = std::this_thread::get_id(),
                                                         .origin = stream,
                                                         .graph = std::make_unique<Graph>(),
                                                         .members = {stream}}));
  stream->capture = captures().back().get();
  stream->history.clear();
  return cudaSuccess;
}

// Whether the origin has seen every node of every stream, and so waits for them all.
bool is_joined(const Capture& capture) {
  const auto nodes = [](const History& history, const Stream* of) {
    const auto found = history.find(of);
    return found == history.end() ? 0 : found->second;
  };
  return std::all_of(capture.members.begin(), capture.members.end(), [&](const Stream* member) {
    return nodes(member->history, member) <= nodes(capture.origin->history, member);
  });
}

cudaError_t end_capture(Stream* stream, cudaGraph_t* out) {
  *out = nullptr;
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Capture* const capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const cudaError_t result = !capture->is_valid     ? cudaErrorStreamCaptureInvalidated
                             : !is_joined(*capture) ? cudaErrorStreamCaptureUnjoined
                                                    : cudaSuccess;
  for (Stream* const member : capture->members) {
    member->capture = nullptr;
    member->history.clear();
  }
  if (result == cudaSuccess) {
    ++totals().captures;
    totals().graph_nodes.push_back(capture->graph->nodes.size());
    *out = reinterpret_cast<cudaGraph_t>(capture->graph.release());
  }
  std::erase_if(captures(), [&](const auto& one) { return one.get() == capture; });
  return result;
}

cudaError_t find_status(Stream* stream, cudaStreamCaptureStatus* status) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t refused = refuse_implicit(*stream)) return refused;
  *status = stream->capture == nullptr  ? cudaStreamCaptureStatusNone
            : stream->capture->is_valid ? cudaStreamCaptureStatusActive
                                        : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

}  // namespace

Capture* find_capture(unsigned long long id) {
  for (const auto& capture : captures()) {
    if (capture->id == id) return capture.get();
  }
  return nullptr;
}

bool is_capturing_here() {
  return std::any_of(captures().begin(), captures().end(),
                     [](const auto& capture) { return capture->thread == std::this_thread::get_id(); });
}

cudaError_t record(Stream& stream, Task task) {
  if (!stream.capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (task.kernel != nullptr) {
    ++task.kernel->recorded;
    ++totals().recorded;
  }
  stream.capture->graph->nodes.push_back(std::make_shared<const Task>(std::move(task)));
  ++stream.history[&stream];
  return cudaSuccess;
}

cudaError_t refuse_unsafe() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t result = cudaSuccess;
  for (const auto& capture : captures()) {
    const bool is_own = capture->thread == std::this_thread::get_id() && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool is_global = capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (!is_own && !is_global) continue;
    capture->is_valid = false;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t refuse_implicit(const Stream& stream) {
  if (&stream != &legacy_stream(stream.device)) return cudaSuccess;
  for (const auto& capture : captures()) {
    for (const Stream* const member : capture->members) {
      if (!member->is_blocking() || member->device != stream.device) continue;
      capture->is_valid = false;
      return cudaErrorStreamCaptureImplicit;
    }
  }
  return cudaSuccess;
}

cudaError_t join_capture(Stream& stream, Capture& capture, const History& seen) {
  if (stream.capture == nullptr) {
    stream.capture = &capture;
    stream.history.clear();
    capture.members.insert(&stream);
  } else if (stream.capture != &capture) {
    stream.capture->is_valid = capture.is_valid = false;
    return cudaErrorStreamCaptureMerge;
  }
  for (const auto& [other, nodes] : seen) stream.history[other] = std::max(stream.history[other], nodes);
  return cudaSuccess;
}

}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&] { return begin_capture(find_stream(stream), mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  return call("cudaStreamEndCapture", [&] { return end_capture(find_stream(stream), out); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&] { return find_status(find_stream(stream), status); });
}

// The nodes that the next one would depend on are told as the last one alone, which LibTorch does not ask for.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  return call("cudaStreamGetCaptureInfo", [&] {
    static thread_local cudaGraphNode_t last;
    Stream* const found = find_stream(stream);
    const cudaError_t error = find_status(found, status);
    if (error != cudaSuccess || found->capture == nullptr) return error;
    const Graph& recorded = *found->capture->graph;
    if (!recorded.nodes.empty()) {
      last = reinterpret_cast<cudaGraphNode_t>(const_cast<Task*>(recorded.nodes.back().get()));
    }
    if (id != nullptr) *id = found->capture->id;
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(found->capture->graph.get());
    if (nodes != nullptr) *nodes = &last;
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = recorded.nodes.empty() ? 0 : 1;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

}  // extern "C"
