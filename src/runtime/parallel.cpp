#include "runtime/parallel.h"

#include <ATen/ThreadLocalState.h>
#include <xmmintrin.h>

#include <atomic>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

extern "C" int MKL_Set_Num_Threads_Local(int threads);  // returns what it was; 0: that of the process

namespace inkling {
namespace {

constexpr int spins = 2000;  // some 40 to 80 us: longer than what one thread does between two waits of a step

// Returns when the number is another one.
template <typename Number>
void wait_for_another(const std::atomic<Number>& number, Number old) {
  for (int i = 0; i < spins; ++i) {
    if (number.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  number.wait(old, std::memory_order_acquire);
}

}  // namespace

OneThread::OneThread() {
  // Each thread's first use of LibTorch sets both numbers to that of the process, and once more its first use of
  // LibTorch's headers, which remember it in a variable of our own binary.
  at::internal::lazy_init_num_threads();
  before_ = at::get_num_threads();
  omp_set_num_threads(1);
  mkl_before_ = MKL_Set_Num_Threads_Local(1);
}

OneThread::~OneThread() {
  omp_set_num_threads(before_);
  MKL_Set_Num_Threads_Local(mkl_before_);
}

struct Workers::Shared {
  std::atomic<std::uint32_t> round = 0;            // of work; a new one begins when it changes
  std::atomic<int> at_work = 0;                    // threads that have not done their part of this round
  const std::function<void(int)>* work = nullptr;  // null: there is none any more
  std::optional<at::ThreadLocalState> of_caller;
  unsigned rounding = 0;
  std::vector<std::exception_ptr> errors;
  std::vector<std::thread> threads;

  void do_part(int worker) {
    try {
      (*work)(worker);
    } catch (...) {
      errors[static_cast<std::size_t>(worker)] = std::current_exception();
    }
  }

  void serve(int worker) {
    const OneThread alone;
    for (std::uint32_t seen = 0;; ++seen) {
      wait_for_another(round, seen);
      if (work == nullptr) return;
      _mm_setcsr(rounding);
      {
        const at::ThreadLocalStateGuard as_caller(*of_caller);
        do_part(worker);
      }
      if (at_work.fetch_sub(1, std::memory_order_acq_rel) == 1) at_work.notify_one();
    }
  }

  void begin_round() {
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }
};

Workers::Workers(int count) : shared_(std::make_unique<Shared>()) {
  shared_->errors.resize(static_cast<std::size_t>(count));
  for (int worker = 1; worker < count; ++worker) {
    shared_->threads.emplace_back([shared = shared_.get(), worker] { shared->serve(worker); });
  }
}

Workers::Workers(Workers&& other) noexcept = default;

Workers::~Workers() {
  if (shared_ == nullptr) return;  // it was moved away
  shared_->work = nullptr;
  shared_->begin_round();
  for (std::thread& thread : shared_->threads) thread.join();
}

int Workers::count() const { return static_cast<int>(shared_->errors.size()); }

void Workers::run(const std::function<void(int)>& work) {
  Shared& shared = *shared_;
  shared.work = &work;
  shared.of_caller.emplace();
  shared.rounding = _mm_getcsr();
  shared.at_work.store(count() - 1, std::memory_order_relaxed);
  shared.begin_round();
  {
    const OneThread alone;
    shared.do_part(0);
  }
  for (int left = shared.at_work.load(); left > 0; left = shared.at_work.load()) {
    wait_for_another(shared.at_work, left);
  }
  std::exception_ptr first;
  for (std::exception_ptr& error : shared.errors) {
    const std::exception_ptr thrown = std::exchange(error, nullptr);
    if (!first) first = thrown;
  }
  if (first) std::rethrow_exception(first);
}

void Workers::each(std::int64_t n, const std::function<void(std::int64_t, int)>& body) {
  if (n <= 0) return;
  std::atomic<std::int64_t> next = 0;
  run([&](int worker) {
    for (std::int64_t i = next.fetch_add(1); i < n; i = next.fetch_add(1)) body(i, worker);
  });
}

void for_each(std::optional<Workers>& workers, std::int64_t n, const std::function<void(std::int64_t, int)>& body) {
  if (workers) {
    workers->each(n, body);
  } else {
    for (std::int64_t i = 0; i < n; ++i) body(i, 0);
  }
}

}  // namespace inkling
