#include "train/memory.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace inkling {
namespace {

// Activations that wait for the backward pass, in elements per token and layer: the inputs of the two norms (the
// residual stream), their outputs, qkv, attention's output, the MLP before and after GELU. Here and for the gradients
// in flight, what glibc leaves between blocks of different sizes is counted in as measured.
std::uint64_t saved_per_token_and_layer(const GptShape& shape, Kernels kernels, bool dropout) {
  const auto channels = static_cast<std::uint64_t>(shape.n_embd);
  std::uint64_t elements = 2 * channels + 2 * channels + 3 * channels + channels + 8 * channels + 3 * channels;
  if (kernels == Kernels::aten) elements += 2 * channels;  // the branches before they are added
  if (dropout) elements += 2 * channels;                   // their masks, or copies behind dropout
  return elements;
}

// A line of /proc/self/status, which counts in KiB.
std::uint64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  }
  return 0;
}

constexpr std::uint64_t buffer_bytes = std::uint64_t{5} << 20;  // as measured on the CPU with 2 threads

}  // namespace

std::vector<MemoryPart> training_memory(const Config& config, const GptShape& shape, std::int64_t arena_size,
                                        at::ScalarType dtype, Kernels kernels) {
  const auto element = static_cast<std::uint64_t>(c10::elementSize(dtype));
  const auto rows = static_cast<std::uint64_t>(config.training.micro_batch_size * shape.block_size);
  const auto channels = static_cast<std::uint64_t>(shape.n_embd);
  const auto layers = static_cast<std::uint64_t>(shape.n_layer);
  const auto heads = static_cast<std::uint64_t>(shape.n_head);
  const bool dropout = config.model.dropout > 0;
  const auto weights = static_cast<std::uint64_t>(arena_size);

  std::uint64_t activations = rows * element * layers * saved_per_token_and_layer(shape, kernels, dropout);
  if (dropout && dtype == at::kFloat) {  // the composed attention keeps scores, probabilities and their dropped copy
    activations += rows * static_cast<std::uint64_t>(shape.block_size) * heads * layers * element * 3;
  }
  const std::uint64_t copies = kernels == Kernels::fused ? 1 : 3;  // logits, log-softmax, gradient
  const std::uint64_t head = rows * static_cast<std::uint64_t>(shape.vocab_size) * sizeof(float) * copies;
  std::vector<MemoryPart> parts = {
      {"weights, gradients and two moments", weights * 16 + (dtype == at::kFloat ? 0 : weights * 2 * element)},
      {"activations", activations},
      {"logits", head},
      {"gradients in flight", rows * channels * element * 23},
      {"buffers of threads and products", buffer_bytes}};
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

std::uint64_t anonymous_bytes() { return status_bytes("RssAnon:"); }

std::uint64_t peak_anonymous_bytes() { return peak_resident_bytes() - status_bytes("RssFile:"); }

}  // namespace inkling
