// Work that is done again and again with new contents of the same tensors.
#pragma once

#include <functional>
#include <utility>

#include "backend/backend.h"

namespace inkling {

// Does `work` whenever it is called. Where the backend can record, the second call records it, and later calls only
// queue the recording again. So the work must read everything that differs between two calls from tensors.
class RecordedWork {
 public:
  // `family` is that of Backend::record.
  RecordedWork(const Backend& backend, int family, std::function<void()> work)
      : backend_(backend), family_(family), work_(std::move(work)) {}

  // The first call does not record, because what is chosen, loaded or allocated at first use must not happen then.
  void operator()() {
    if (backend_.record == nullptr || std::exchange(is_first_, false)) return work_();
    if (!again_) again_ = backend_.record(family_, work_);
    again_();
  }

 private:
  const Backend& backend_;
  int family_;
  std::function<void()> work_, again_;
  bool is_first_ = true;
};

}  // namespace inkling
