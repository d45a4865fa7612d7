// Work shared out over threads, whose results come back in the order of the jobs.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace inkling {

// A Job is changed by `work` in one of the threads and then handed to `take` in the thread that calls push() and
// finish(). What is done does not depend on the number of threads, which is smaller where the system does not allow as
// many. At most two jobs for each thread that there is wait or are worked on, so memory is bounded.
template <typename Job>
class OrderedWork {
 public:
  OrderedWork(std::size_t threads, std::function<void(Job&)> work, std::function<void(Job&)> take)
      : work_(std::move(work)), take_(std::move(take)) {
    if (threads < 2) return;  // one thread does it all by itself
    threads_.reserve(threads);
    try {
      while (threads_.size() < threads) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // The system has no room for more, so those that there are do the work, or this thread alone.
    }
    most_jobs_ = 2 * threads_.size();
  }

  ~OrderedWork() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    job_waits_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  // Takes results first where too many jobs are under way. Rethrows what `work` threw for the earliest job that failed,
  // after the jobs before it were taken.
  void push(Job job) {
    if (threads_.empty()) {
      work_(job);
      take_(job);
      return;
    }
    while (slots_.size() >= most_jobs_) take_first();
    {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::make_unique<Slot>(std::move(job)));
      waiting_.push_back(slots_.back().get());
    }
    job_waits_.notify_one();
  }

  // Waits for the rest.
  void finish() {
    while (!slots_.empty()) take_first();
  }

 private:
  struct Slot {
    explicit Slot(Job its_job) : job(std::move(its_job)) {}
    Job job;
    bool done = false;
    std::exception_ptr error = {};
  };

  void take_first() {
    {
      std::unique_lock lock(mutex_);
      job_done_.wait(lock, [&] { return slots_.front()->done; });
    }
    const std::unique_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    if (slot->error) std::rethrow_exception(slot->error);
    take_(slot->job);
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      job_waits_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      Slot& slot = *waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      try {
        work_(slot.job);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slot.done = true;
      job_done_.notify_one();
    }
  }

  std::function<void(Job&)> work_, take_;
  std::size_t most_jobs_ = 0;  // under way; only the pushing thread counts them
  std::mutex mutex_;
  std::condition_variable job_waits_, job_done_;
  std::deque<std::unique_ptr<Slot>> slots_;  // in order; only the pushing thread changes the list
  std::deque<Slot*> waiting_;                // not begun
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace inkling
