// Settings, the lock, and what every call of CUDA begins and ends with: its errors above all.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime.h"

namespace software_gpu {
namespace {

thread_local cudaError_t error_of_thread = cudaSuccess;
thread_local int operations = 0;  // of LibTorch's that this thread is within
void (*thread_beginning)() = nullptr;
thread_local bool has_begun = false;

struct NamedError {
  cudaError_t error;
  const char *name, *text;
};

// In CUDA's own words, which programs show.
constexpr NamedError named_errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration", "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize",
     "a kernel launch error has occurred due to cluster misconfiguration"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const NamedError& named(cudaError_t error) {
  static constexpr NamedError unknown = {cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
  const auto* const found = std::find_if(std::begin(named_errors), std::end(named_errors),
                                         [&](const NamedError& one) { return one.error == error; });
  return found == std::end(named_errors) ? unknown : *found;
}

}  // namespace

const char* setting(const char* name, const char* otherwise) {
  const char* const found = std::getenv((std::string("SOFTWARE_GPU_") + name).c_str());
  return found == nullptr ? otherwise : found;
}

long number(const char* name, long otherwise) {
  const char* const found = setting(name, nullptr);
  return found == nullptr ? otherwise : std::atol(found);
}

std::recursive_mutex& mutex() {
  static std::recursive_mutex& one = *new std::recursive_mutex;
  return one;
}

bool computes() {
  static const bool does = number("COMPUTES", 1) != 0;
  return does;
}

WithinOperation::WithinOperation() { ++operations; }
WithinOperation::~WithinOperation() { --operations; }
bool is_within_operation() { return operations > 0; }

cudaError_t& last_error() { return error_of_thread; }

cudaError_t& failure() {
  static cudaError_t of_process = cudaSuccess;
  return of_process;
}

void begin_threads_with(void (*begin)()) {
  const std::scoped_lock lock(mutex());
  thread_beginning = begin;
  has_begun = true;
  begin();
}

cudaError_t begin_call(const char* name) {
  count_call(name);
  if (thread_beginning != nullptr && !std::exchange(has_begun, true)) thread_beginning();
  const Task* const task = running_task();
  if (task != nullptr && task->work.kind == "host function") {
    complain(std::string("a function that a stream calls on the host calls ") + name);
    return cudaErrorNotPermitted;
  }
  return failure();
}

cudaError_t end_call(const char* name, cudaError_t error) {
  if (error == cudaSuccess) return error;
  if (error != cudaErrorNotReady) count_error(std::string(name) + ": " + named(error).text);
  return last_error() = error;
}

}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

cudaError_t cudaGetLastError() {
  const std::scoped_lock lock(mutex());
  const cudaError_t error = last_error();
  last_error() = failure();
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error(); }
const char* cudaGetErrorString(cudaError_t error) { return named(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return named(error).name; }

}  // extern "C"
