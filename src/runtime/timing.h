// Measures how long work takes and what the machine can do at most, and records what training steps do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "runtime/device.h"

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

// Records profiled_steps steps after the first few, which are slower than the rest, with LibTorch's profiler, for
// chrome://tracing or ui.perfetto.dev: operations on the CPU, and kernels where the run is on a GPU.
class Profile {
 public:
  static constexpr std::int64_t skipped_steps = 3, profiled_steps = 10;

  // Without a file it does nothing. Throws Error environment if the file cannot be written: before training, not after.
  Profile(const std::filesystem::path& file, const Runtime& runtime);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // To be called after each step. It begins the recording; at its end it writes the file and says so.
  void step_done();

 private:
  void finish();

  std::filesystem::path file_;
  Runtime runtime_;
  std::int64_t steps_ = 0;
  bool recording_ = false;
};

}  // namespace inkling
