// The two ways to share work out over threads. Loops and products are split over all threads, always the same way for
// the same number of them, and sums over rows are added up in order; or workers each do whole pieces of work alone.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

namespace inkling {

struct Range {
  std::int64_t begin, end;
};

// Of a sum over flat memory, and of a part of an update: a number of its own, so that bits do not depend on threads.
inline constexpr std::int64_t elements_of_block = 65536;

// Returns part number `part` of [0, n) split into `parts`. They have one length; only the last may be shorter or empty.
inline Range part_of(std::int64_t n, std::int64_t part, std::int64_t parts) {
  const std::int64_t length = (n + parts - 1) / parts;
  return {std::min(n, part * length), std::min(n, (part + 1) * length)};
}

// Calls body(part, begin, end) on consecutive parts of [0, n); part counts from 0 and is below at::get_num_threads().
// Parts of about `smallest` elements are not split further: starting threads costs about as much as 10,000 additions.
template <typename Body>
void parallel_parts(std::int64_t n, std::int64_t smallest, const Body& body) {
  if (n <= 0) return;
  const std::int64_t wanted = (n + smallest - 1) / smallest;
  const std::int64_t parts = wanted < at::get_num_threads() ? wanted : at::get_num_threads();
  at::parallel_for(0, parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      const auto [begin, end] = part_of(n, part, parts);
      if (begin < end) body(part, begin, end);
    }
  });
}

// Calls body(part, parts) in all threads at the same time. body must not throw.
template <typename Body>
void in_all_threads(const Body& body) {
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
#pragma omp parallel num_threads(threads)
  body(omp_get_thread_num(), omp_get_num_threads());
}

// To be called in the body of in_all_threads(): returns when every thread has called it.
inline void wait_for_all_threads() {
#pragma omp barrier
}

// Calls body(begin, end, sums) on parts of [0, rows). body adds the part's share of targets[i] to sums[i] ([channels]
// floats, zero before; null where targets[i] is null). Then the shares are added to the targets, first part first.
template <typename Body>
void add_over_parts(std::int64_t rows, std::initializer_list<float*> targets, std::int64_t channels, const Body& body) {
  constexpr std::int64_t smallest_part = 16;
  const std::vector<float*> all(targets);
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t per_part = count * channels;
  std::vector<float> shares(static_cast<std::size_t>(at::get_num_threads() * per_part), 0.0f);
  parallel_parts(rows, smallest_part, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::vector<float*> sums(all.size());
    for (std::int64_t i = 0; i < count; ++i) {
      float* const share = shares.data() + part * per_part + i * channels;
      sums[static_cast<std::size_t>(i)] = all[static_cast<std::size_t>(i)] == nullptr ? nullptr : share;
    }
    body(begin, end, sums.data());
  });
  for (std::int64_t part = 0; part < at::get_num_threads(); ++part) {
    for (std::int64_t i = 0; i < count; ++i) {
      float* const target = all[static_cast<std::size_t>(i)];
      if (target == nullptr) continue;
      const float* const share = shares.data() + part * per_part + i * channels;
      for (std::int64_t c = 0; c < channels; ++c) target[c] += share[c];
    }
  }
}

// While it lives, LibTorch and MKL compute with one thread when this thread calls them.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = 1, mkl_before_ = 0;
};

// Threads that wait for each other only where all have done their part, for pieces of work of which each computes with
// one thread: LibTorch and MKL split nothing further in them. They spin a little and then sleep when there is nothing
// to do, so that a thread that the system does not run holds up nobody but at the end.
class Workers {
 public:
  // Starts count - 1 threads; whoever calls run() is worker 0.
  explicit Workers(int count);
  ~Workers();
  Workers(Workers&& other) noexcept;

  int count() const;

  // Calls work(worker) once in each of them, and returns when all are done: one wait. Gradients, profilers and
  // rounding are those of the caller in all of them. Throws what work threw, the first worker's where several did.
  void run(const std::function<void(int worker)>& work);

  // Calls body(i, worker) for each i of [0, n), in order, in whichever worker is free: one wait.
  void each(std::int64_t n, const std::function<void(std::int64_t i, int worker)>& body);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// As Workers::each(); where there are none, in this thread, which splits the products of each over all threads.
void for_each(std::optional<Workers>& workers, std::int64_t n,
              const std::function<void(std::int64_t i, int worker)>& body);

}  // namespace inkling
