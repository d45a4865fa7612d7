#include "doctor/speed.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/strings.h"
#include "doctor/forecast.h"
#include "runtime/speed.h"
#include "train/fit.h"

namespace inkling::doctor {
namespace {

constexpr double most_seconds = 0.3;  // for each number of threads

// Several times the largest cache, but no more than a sixteenth of what is free.
std::int64_t bytes_to_read(const Facts& facts) {
  const std::uint64_t largest = largest_cache(facts.processor);
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(4 * largest, std::uint64_t{64} << 20, std::uint64_t{512} << 20);
  const std::uint64_t allowed = facts.memory.free().value_or(wanted * 16) / 16;
  return static_cast<std::int64_t>(std::max<std::uint64_t>(std::min(wanted, allowed), std::uint64_t{8} << 20));
}

double bandwidth(at::Device device, std::int64_t bytes) {
  MemoryReads reads(device, bytes);
  double best = 0.0;
  for (int round = 0; round < 4; ++round) best = std::max(best, reads.bytes_per_second());
  return best;
}

// One core, all that auto takes, and what hyper-threads would add or cost is left to the person.
std::set<int> thread_counts(int threads) { return {1, std::max(1, threads / 2), std::max(1, threads)}; }

std::string why_threads(const Runtime& runtime, const Processor& processor) {
  if (!runtime.thread_limit.empty()) return runtime.thread_limit;
  return processor.usable_threads > processor.cores ? "one for each physical core, not for each hyper-thread"
                                                    : "one for each core";
}

std::string why_device(const Graphics& graphics) {
  if (graphics.gpus.empty()) return graphics.why_none;
  return graphics.gpus.size() > 1 ? "the first GPU; a run uses one" : "there is a GPU that LibTorch can use";
}

std::string why_dtype(const Graphics& graphics) {
  if (graphics.gpus.empty()) return "on the CPU always; the fused kernels train in nothing else there";
  const Gpu& gpu = graphics.gpus.front();
  return str("compute capability ", gpu.major, ".", gpu.minor, "; GPUs from 8.0 on are fastest in bfloat16");
}

std::string why_kernels(const Graphics& graphics) {
  return graphics.gpus.empty() ? "inkling's own loops for this processor"
                               : "fused CUDA kernels are used where asked for: runtime.kernels=fused";
}

}  // namespace

Speed measure_speed(const Runtime& runtime, const Facts& facts) {
  Speed speed{.dtype = runtime.dtype_name(), .device = runtime.device.str()};
  const auto options = at::TensorOptions().device(runtime.device).dtype(runtime.dtype);
  const bool has_threads = facts.graphics.gpus.empty();
  for (const int threads : has_threads ? thread_counts(runtime.threads) : std::set{runtime.threads}) {
    at::set_num_threads(threads);
    speed.products.push_back({threads, matrix_product_peak(options, most_seconds)});
  }
  if (has_threads) speed.thread_start = thread_start_seconds(most_seconds / 2);
  speed.memory = bandwidth(runtime.device, has_threads ? bytes_to_read(facts) : std::int64_t{512} << 20);
  return speed;
}

double product_flops(const Speed& speed, int threads) {
  const auto nearest = std::min_element(
      speed.products.begin(), speed.products.end(),
      [&](const auto& a, const auto& b) { return std::abs(a.threads - threads) < std::abs(b.threads - threads); });
  if (nearest == speed.products.end()) return 0.0;
  const bool on_gpu = speed.products.size() == 1;
  return on_gpu ? nearest->flops : nearest->flops * std::min(1.0, static_cast<double>(threads) / nearest->threads);
}

Choices explain_choices(const Runtime& runtime, const Facts& facts) {
  const std::uint64_t limit = memory_limit({}, runtime.device);
  return {.all = {{"device", runtime.device.str(), why_device(facts.graphics)},
                  {"dtype", runtime.dtype_name(), why_dtype(facts.graphics)},
                  {"kernels", std::string(word_of(runtime.kernels)), why_kernels(facts.graphics)},
                  {"threads", str(runtime.threads), why_threads(runtime, facts.processor)},
                  {"memory_limit", format_bytes(limit),
                   facts.graphics.gpus.empty() ? "four fifths of the memory that is free now"
                                               : "what is free on the GPU now"}}};
}

}  // namespace inkling::doctor
