// Records what some training steps do, for chrome://tracing or ui.perfetto.dev.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/device.h"

namespace inkling {

// Records profiled_steps steps after the first few, which are slower than the rest, with LibTorch's profiler:
// operations on the CPU, and kernels where the run is on a GPU.
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
