// Where the time of a step goes: the outermost operations that LibTorch's observers see, ours forward by their names
// ("mlp") and their backward passes ("FusedMlp backward").
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace inkling {

// Observes the thread that made it, as long as it lives, and the threads that LibTorch lets compute for it: on a GPU
// the backward pass has one of its own, and takes the observers along. One at a time. On a GPU times are those of
// starting work, not of the work.
class OperationTimes {
 public:
  OperationTimes() {
    current() = this;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~OperationTimes() {
    at::removeCallback(handle_);
    current() = nullptr;
  }
  OperationTimes(const OperationTimes&) = delete;
  OperationTimes& operator=(const OperationTimes&) = delete;

  std::map<std::string, double> seconds() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Started : at::ObserverContext {
    Clock::time_point at = Clock::now();
  };

  static std::atomic<OperationTimes*>& current() {
    static std::atomic<OperationTimes*> times = nullptr;
    return times;
  }

  // Of the operations that this thread is in.
  static int& depth() {
    static thread_local int operations = 0;
    return operations;
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) {
    ++depth();
    return std::make_unique<Started>();
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* started) {
    OperationTimes* const times = current();
    if (--depth() > 0 || times == nullptr) return;
    const std::chrono::duration<double> taken = Clock::now() - static_cast<Started*>(started)->at;
    const std::lock_guard<std::mutex> lock(times->mutex_);
    times->seconds_[short_name(function.name())] += taken.count();
  }

  // "autograd::engine::evaluate_function: torch::autograd::CppNode<inkling::(anonymous namespace)::FusedMlp>"
  static std::string short_name(std::string_view name) {
    if (!name.starts_with("autograd::engine::evaluate_function: ")) return std::string(name);
    name.remove_prefix(name.rfind(name.ends_with('>') ? ':' : ' ') + 1);
    if (name.ends_with('>')) name.remove_suffix(1);
    return std::string(name) + " backward";
  }

  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  mutable std::mutex mutex_;
  std::map<std::string, double> seconds_;
};

}  // namespace inkling
