// Work that is done again and again with new contents of the same tensors.
#pragma once

#include <functional>
#include <utility>

#include "backend/backend.h"

namespace inkling {

class Repeated {
 public:
  // `family` as for Backend::record.
  Repeated(const Backend& backend, int family, std::function<void()> work)
      : backend_(backend), family_(family), work_(std::move(work)) {}

  // Does the work the first time, because what is chosen, loaded or allocated at first use must not happen while it is
  // recorded; records it the second time, where the backend queues, and from then on queues it again.
  void operator()() {
    if (std::exchange(is_first_, false)) return work_();
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
