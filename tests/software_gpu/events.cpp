// Events: places in streams that the host or another stream waits for. Within a capture an event stands for the nodes
// that its stream has seen.
#include <chrono>
#include <unordered_map>

#include "runtime.h"

namespace software_gpu {
namespace {

struct Event {
  unsigned flags = 0;
  bool is_recorded = false;
  Point point = {};                // where it was recorded outside a capture
  unsigned long long capture = 0;  // or the capture, 0 for none
  History history = {};            // and what had been recorded before
  int questions = 0;
  double milliseconds = 0;
};

// A queued recording keeps an event that has been destroyed meanwhile.
std::shared_ptr<Event> find_event(cudaEvent_t event);

std::unordered_map<cudaEvent_t, std::shared_ptr<Event>>& events() {
  static auto& all = *new std::unordered_map<cudaEvent_t, std::shared_ptr<Event>>;
  return all;
}

std::shared_ptr<Event> find_event(cudaEvent_t event) {
  const auto found = events().find(event);
  return found == events().end() ? nullptr : found->second;
}

double milliseconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

// An event of a capture can be neither asked nor awaited by the host; who tries invalidates the capture.
cudaError_t refuse_event_question(const std::shared_ptr<Event>& event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->capture == 0) return refuse_unsafe();
  if (Capture* const capture = find_capture(event->capture)) capture->is_valid = false;
  return cudaErrorCapturedEvent;
}

cudaError_t record_event(cudaEvent_t which, cudaStream_t stream, unsigned flags) {
  const std::shared_ptr<Event> event = find_event(which);
  Stream* const at = find_stream(stream);
  if (event == nullptr || at == nullptr) return cudaErrorInvalidResourceHandle;
  const bool is_external = (flags & cudaEventRecordExternal) != 0;
  if (at->capture != nullptr && is_external) return cudaErrorNotSupported;
  if (at->capture != nullptr && !at->capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (at->capture == nullptr) {
    if (const cudaError_t refused = refuse_implicit(*at)) return refused;
  }
  event->is_recorded = true;
  event->questions = 0;
  event->capture = at->capture == nullptr ? 0 : at->capture->id;
  if (at->capture != nullptr) {
    event->history = at->history;
    return cudaSuccess;
  }
  enqueue(*at, {.work = {.kind = "event", .run = [event] { event->milliseconds = milliseconds_now(); }}});
  event->point = end_of(*at);
  return cudaSuccess;
}

cudaError_t wait_for_event(Stream* stream, const std::shared_ptr<Event>& event) {
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  if (!event->is_recorded) return cudaSuccess;
  if (event->capture != 0) {
    Capture* const capture = find_capture(event->capture);
    return capture == nullptr ? cudaErrorInvalidValue : join_capture(*stream, *capture, event->history);
  }
  if (stream->capture != nullptr) {
    stream->capture->is_valid = false;
    return cudaErrorStreamCaptureIsolation;
  }
  if (const cudaError_t refused = refuse_implicit(*stream)) return refused;
  enqueue(*stream, {.work = {.kind = "wait for an event"}}, {event->point});
  return cudaSuccess;
}

}  // namespace
}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return call("cudaEventCreate", [&] {
    auto event = std::make_shared<Event>(Event{.flags = flags});
    *out = reinterpret_cast<cudaEvent_t>(event.get());
    events()[*out] = std::move(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy",
              [&] { return events().erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call("cudaEventRecord", [&] { return record_event(event, stream, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&] {
    const std::shared_ptr<Event> found = find_event(event);
    if (const cudaError_t refused = refuse_event_question(found)) return refused;
    return ask_whether_done(found->point, found->questions) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&] {
    const std::shared_ptr<Event> found = find_event(event);
    if (const cudaError_t refused = refuse_event_question(found)) return refused;
    if (!found->is_recorded) return cudaSuccess;
    count_wait("cudaEventSynchronize");
    run_until(found->point);
    return failure();
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&] {
    const std::shared_ptr<Event> first = find_event(begin), last = find_event(end);
    for (const auto& event : {first, last}) {
      const bool has_time = event != nullptr && event->is_recorded && event->capture == 0;
      if (!has_time || (event->flags & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
    }
    if (!is_done(first->point) || !is_done(last->point)) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(last->milliseconds - first->milliseconds);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call("cudaStreamWaitEvent", [&] { return wait_for_event(find_stream(stream), find_event(event)); });
}

}  // extern "C"
