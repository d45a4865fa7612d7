// What the machine can do at most, measured in the process whose work is held against it.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <chrono>
#include <functional>
#include <vector>

#include "base/error.h"
#include "results.h"
#include "runtime/device.h"
#include "runtime/parallel.h"

namespace inkling {

// Seconds that `work` takes on `device`, begun and ended with nothing else under way there.
inline double seconds_of(at::Device device, const std::function<void()>& work) {
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Reads 512 MiB of the device's memory: on the CPU with all threads, each in eight streams, which is faster than in
// one.
class MemoryReads {
 public:
  explicit MemoryReads(at::Device device) : memory_(at::ones({std::int64_t{128} << 20}, device)) {}

  double bytes_per_second() {
    const double seconds = seconds_of(memory_.device(), [&] { memory_.is_cpu() ? read() : read_on_gpu(); });
    return static_cast<double>(memory_.nbytes()) / seconds;
  }

 private:
  void read_on_gpu() { checksum_ += memory_.sum().item<double>(); }

  void read() {
    std::vector<float> sums(static_cast<std::size_t>(at::get_num_threads()));
    parallel_parts(memory_.numel(), 4096, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      constexpr std::int64_t streams = 8, width = 16;
      const std::int64_t length = (end - begin) / streams;
      const float* const values = memory_.data_ptr<float>() + begin;
      float totals[streams][width] = {};  // so many that no addition waits for another
      for (std::int64_t i = 0; i + width <= length; i += width) {
        for (std::int64_t stream = 0; stream < streams; ++stream) {
#pragma omp simd
          for (std::int64_t j = 0; j < width; ++j) totals[stream][j] += values[stream * length + i + j];
        }
      }
      for (const auto& stream : totals) {
        for (const float total : stream) sums[static_cast<std::size_t>(part)] += total;
      }
    });
    for (const float sum : sums) checksum_ += static_cast<double>(sum);
    if (checksum_ == 0.0) throw Error::internal("the memory was not read");  // and no compiler leaves the reading out
  }

  at::Tensor memory_;
  double checksum_ = 0.0;
};

// Floating-point operations per second of a large square matrix product: the median of a few.
inline double matrix_product_peak(const at::TensorOptions& options) {
  const std::int64_t size = options.device().is_cpu() ? 1024 : 8192;
  const at::Tensor a = at::randn({size, size}, options), b = at::randn({size, size}, options);
  const at::Tensor out = at::empty({size, size}, options);
  std::vector<double> seconds;
  for (int round = 0; round < 7; ++round) {
    seconds.push_back(seconds_of(options.device(), [&] { at::mm_out(const_cast<at::Tensor&>(out), a, b); }));
  }
  return 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size) /
         quantile(seconds, 0.5);
}

}  // namespace inkling
