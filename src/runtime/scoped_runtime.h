// What resolve_runtime() sets for good in a program, set for the time of a call by somebody else's program.
#pragma once

#include <c10/core/StreamGuard.h>

#include <optional>
#include <vector>

#include "runtime/device.h"

namespace inkling {

// While it lives, the calling thread and its OpenMP threads round as a program of inkling's does, whatever the host has
// set: tiny numbers become 0, and no exception of arithmetic is raised. LibTorch has the runtime's number of threads
// and its determinism, and a GPU's work goes to `stream` (own_stream()). Afterwards all of this is as before, also what
// the host has set while it was outside(). It takes microseconds, so it belongs around a call, not around a token.
class ScopedRuntime {
 public:
  ScopedRuntime(const Runtime& runtime, const std::optional<c10::Stream>& stream);
  ~ScopedRuntime() { leave(); }
  ScopedRuntime(const ScopedRuntime&) = delete;
  ScopedRuntime& operator=(const ScopedRuntime&) = delete;

  // Returns what `call`, a function of the host's, returns, called with what the host has set.
  template <typename Call>
  auto outside(const Call& call) {
    struct Back {
      ScopedRuntime& scope;
      ~Back() { scope.enter(); }
    };
    leave();
    const Back back{*this};
    return call();
  }

 private:
  void enter();
  void leave();

  int threads_;
  Determinism determinism_;
  std::optional<c10::Stream> stream_;
  // The host's.
  int threads_before_ = 0, omp_threads_before_ = 0;
  std::vector<unsigned> modes_before_;  // of each thread
  std::optional<c10::StreamGuard> stream_before_;
};

}  // namespace inkling
