#include "train/memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "ops/cpu_memory.h"

namespace inkling {
namespace {

// Elements of `channels` per row that one layer keeps for the backward pass: the inputs of the two norms (the residual
// stream), their outputs, qkv, attention's output, the MLP before and after GELU.
constexpr std::uint64_t saved_by_a_layer = 2 + 2 + 3 + 1 + 4 + 4;
constexpr std::uint64_t behind_gelu = 4;  // of these, what training.recompute: gelu does not keep
constexpr std::uint64_t coming_in = 2;    // and all that training.recompute: block keeps

// The same for what the forward and the backward pass of one layer hold while they run.
constexpr std::uint64_t held_at_work = 11;
constexpr std::uint64_t held_at_work_composed = 15;  // of ATen's operations

// A line of /proc/self/status, which counts in KiB.
std::uint64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  }
  return 0;
}

}  // namespace

std::vector<MemoryPart> training_memory(const Config& config, const GptShape& shape, std::int64_t arena_size,
                                        const Runtime& runtime) {
  const auto element = static_cast<std::uint64_t>(c10::elementSize(runtime.dtype));
  const bool fused = runtime.kernels == Kernels::fused, on_cpu = runtime.device.is_cpu();
  const auto rows = static_cast<std::uint64_t>(*config.training.micro_batch_size * shape.block_size);
  const auto channels = static_cast<std::uint64_t>(shape.n_embd);
  const auto layers = static_cast<std::uint64_t>(shape.n_layer);
  const auto weights = static_cast<std::uint64_t>(arena_size);
  const std::uint64_t block_bytes = rows * channels * element;
  const bool whole_blocks = config.training.recompute == Recompute::block;
  const bool gelu = config.training.recompute == Recompute::gelu && fused;
  const std::uint64_t saved = whole_blocks ? coming_in : saved_by_a_layer - (gelu ? behind_gelu : 0);
  std::uint64_t activations = block_bytes * layers * saved;
  std::uint64_t at_work = block_bytes * (fused ? held_at_work : held_at_work_composed);
  if (whole_blocks) at_work += block_bytes * saved_by_a_layer;
  // Attention composed for its dropout (ops/attention.cpp) keeps probabilities and their dropped copy.
  const bool composed = on_cpu ? !fused : fused && runtime.dtype == at::kFloat;
  if (config.model.dropout > 0 && composed) {
    const std::uint64_t scores = rows * static_cast<std::uint64_t>(shape.block_size * shape.n_head) * element;
    activations += whole_blocks ? 0 : scores * layers * 2;
    at_work += scores * (whole_blocks ? 5 : 3);
  }
  const std::uint64_t copies = fused ? 1 : 3;  // logits, log-softmax, gradient
  std::vector<MemoryPart> parts = {
      {"weights, gradients and two moments",
       weights * 16 + (runtime.dtype == at::kFloat ? 0 : weights * (fused ? 1 : 2) * element)},
      {"activations", activations},
      {"logits", rows * static_cast<std::uint64_t>(shape.vocab_size) * sizeof(float) * copies},
      {"one layer at work", at_work}};
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return parts;
}

std::uint64_t total_bytes(const std::vector<MemoryPart>& parts) {
  std::uint64_t total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

std::string describe_memory(const std::vector<MemoryPart>& parts) {
  std::vector<std::string> words;
  for (const MemoryPart& part : parts) words.push_back(str(part.what, " ", format_bytes(part.bytes)));
  return str("training holds about ", format_bytes(total_bytes(parts)), ": ", join(words, ", "));
}

double flops_per_token(const GptShape& shape, std::int64_t parameter_count) {
  const std::int64_t counted = parameter_count - shape.block_size * shape.n_embd;  // positions are looked up
  return 6.0 * static_cast<double>(counted) +
         12.0 * static_cast<double>(shape.n_layer) * static_cast<double>(shape.n_embd * shape.block_size);
}

double peak_flops(at::Device device, at::ScalarType dtype) {
  if (!device.is_cuda() || dtype != at::kBFloat16) return 0;
  constexpr std::array<std::pair<std::string_view, double>, 8> known = {{{"H200", 989e12},
                                                                         {"H100 PCIe", 756e12},
                                                                         {"H100", 989e12},
                                                                         {"A100", 312e12},
                                                                         {"L40S", 362e12},
                                                                         {"RTX 4090", 165e12},
                                                                         {"RTX 3090", 71e12},
                                                                         {"A10", 125e12}}};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    std::ifstream information(entry.path() / "information");
    std::string line;
    std::getline(information, line);
    for (const auto& [name, flops] : known) {
      if (line.find(name) != std::string::npos) return flops;
    }
  }
  return 0;
}

std::uint64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

std::uint64_t held_bytes(at::Device device) {
  if (device.is_cpu()) return cpu_memory().most_held;
  const auto statistics = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return static_cast<std::uint64_t>(statistics.reserved_bytes[0].peak);
}

}  // namespace inkling
