// What the machine can do at most, measured in the process whose work is held against it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace inkling {

// Seconds that `work` takes on `device`, begun and ended with nothing else under way there.
double seconds_of(at::Device device, const std::function<void()>& work);

// Reads memory of the device: on the CPU with all threads, each in eight streams, which is faster than in one.
class MemoryReads {
 public:
  // Takes the memory, which should be several times what the caches hold. Throws OutOfMemory where there is not as
  // much.
  explicit MemoryReads(at::Device device, std::int64_t bytes = std::int64_t{512} << 20);

  double bytes_per_second();  // of one pass

 private:
  void read();

  at::Tensor memory_;
  double checksum_ = 0.0;
};

// Seconds that all of LibTorch's threads on the CPU take to begin work together and to wait for each other: the mean
// over about `most_seconds`, because on a busy machine some of them take a thousand times as long as the others.
double thread_start_seconds(double most_seconds);

// Floating-point operations per second of a large square matrix product: the median of seven, or of as many as fit into
// `seconds`, but at least three.
double matrix_product_peak(const at::TensorOptions& options, std::optional<double> seconds = {});

}  // namespace inkling
