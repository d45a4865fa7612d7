#include "runtime/scoped_runtime.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <xmmintrin.h>

#include <algorithm>
#include <mutex>

#include "runtime/parallel.h"

namespace inkling {
namespace {

// MXCSR: all exceptions masked and none seen, rounding to nearest, denormal results (0x8000) and operands (0x40) are 0.
constexpr unsigned rounding_mode = 0x1f80 | 0x8000 | 0x40;

// Several calls may be at work, in threads of their own: what holds for the process is the host's before the first of
// them and after the last.
struct CallsAtWork {
  std::mutex mutex;
  int count = 0;
  Determinism before;
  int threads_before = 0;  // LibTorch's, which a thread begins with
};

CallsAtWork& calls_at_work() {
  static CallsAtWork calls;
  return calls;
}

}  // namespace

ScopedRuntime::ScopedRuntime(const Runtime& runtime, const std::optional<c10::Stream>& stream)
    : threads_(runtime.threads), determinism_(determinism_of(runtime)), stream_(stream) {
  enter();
}

void ScopedRuntime::enter() {
  omp_threads_before_ = omp_get_max_threads();
  threads_before_ = at::get_num_threads();  // which sets OpenMP's number where LibTorch was not used before
  CallsAtWork& calls = calls_at_work();
  {
    const std::lock_guard lock(calls.mutex);
    if (calls.count++ == 0) {
      calls.before = determinism();
      calls.threads_before = threads_before_;
    }
    set_determinism(determinism_);
  }
  if (threads_ != threads_before_) at::set_num_threads(threads_);
  modes_before_.assign(static_cast<std::size_t>(threads_), _mm_getcsr());  // also of a thread that leave() alone has
  in_all_threads([&](int thread, int) {
    modes_before_[static_cast<std::size_t>(thread)] = _mm_getcsr();
    _mm_setcsr(rounding_mode);
  });
  if (stream_) stream_before_.emplace(*stream_);
}

void ScopedRuntime::leave() {
  stream_before_.reset();
  in_all_threads([&](int thread, int) { _mm_setcsr(modes_before_[static_cast<std::size_t>(thread)]); });
  if (threads_ != threads_before_) at::set_num_threads(threads_before_);
  CallsAtWork& calls = calls_at_work();
  {
    const std::lock_guard lock(calls.mutex);
    if (--calls.count == 0) {
      set_determinism(calls.before);
      if (threads_before_ != calls.threads_before) at::set_num_threads(calls.threads_before);
    }
  }
  omp_set_num_threads(omp_threads_before_);
}

}  // namespace inkling
