#include "runtime/timing.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"
#include "runtime/parallel.h"

namespace inkling {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

}  // namespace

double seconds_of(at::Device device, const std::function<void()>& work) {
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

MemoryReads::MemoryReads(at::Device device, std::int64_t bytes)
    : memory_(at::ones({bytes / static_cast<std::int64_t>(sizeof(float))}, device)) {}

double MemoryReads::bytes_per_second() {
  const double seconds = seconds_of(
      memory_.device(), [&] { memory_.is_cpu() ? read() : void(checksum_ += memory_.sum().item<double>()); });
  return static_cast<double>(memory_.nbytes()) / seconds;
}

void MemoryReads::read() {
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

double thread_start_seconds(double most_seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int fewest = 10, most = 10'000;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  int count = 0;
  while (count < fewest || (count < most && elapsed() < most_seconds)) {
    in_all_threads([](int, int) {});
    ++count;
  }
  return elapsed() / count;
}

double matrix_product_peak(const at::TensorOptions& options, std::optional<double> limit) {
  const std::int64_t size = options.device().is_cpu() ? 1024 : 8192;
  const at::Tensor a = at::randn({size, size}, options), b = at::randn({size, size}, options);
  at::Tensor out = at::empty({size, size}, options);
  std::vector<double> seconds;
  const auto is_enough = [&] {
    if (!limit) return seconds.size() >= 7;
    return seconds.size() >= 3 && std::accumulate(seconds.begin(), seconds.end(), 0.0) >= *limit;
  };
  while (!is_enough()) {
    seconds.push_back(seconds_of(options.device(), [&] { at::mm_out(out, a, b); }));
  }
  std::sort(seconds.begin(), seconds.end());
  const double side = static_cast<double>(size);
  return 2.0 * side * side * side / seconds[seconds.size() / 2];
}

Profile::Profile(const std::filesystem::path& file, const Runtime& runtime) : file_(file), runtime_(runtime) {
  if (!file_.empty()) write_file(file_, "");
}

Profile::~Profile() {
  if (recording_) finish();
  if (!file_.empty() && steps_ < skipped_steps) {
    log_warning(str("profile: the run ended before step ", skipped_steps, ", so ", file_.string(), " stays empty"));
  }
}

void Profile::step_done() {
  if (file_.empty()) return;
  ++steps_;
  if (steps_ == skipped_steps) {
    std::set<ActivityType> activities = {ActivityType::CPU};
    if (runtime_.device.is_cuda()) activities.insert(ActivityType::CUDA);
    const profiler::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
    recording_ = true;
  } else if (recording_ && steps_ == skipped_steps + profiled_steps) {
    finish();
  }
}

void Profile::finish() {
  recording_ = false;
  synchronize(runtime_.device);
  profiler::disableProfiler()->save(file_.string());
  log_info(str("profile: ", steps_ - skipped_steps, " steps are in ", file_.string(),
               "; open it in ui.perfetto.dev or chrome://tracing"));
}

}  // namespace inkling
