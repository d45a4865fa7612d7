#include "train/memory.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "base/strings.h"

namespace inkling {
namespace {

// A line of /proc/self/status, which counts in KiB.
std::uint64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  }
  return 0;
}

}  // namespace

std::vector<MemoryPart> training_memory(const Config& config, const GptShape& shape, const Runtime& runtime) {
  const TrainingBytes bytes =
      training_bytes(shape, runtime, config.training.micro_batch_size.value() * shape.block_size,
                     {.dropout = config.model.dropout, .recompute = config.training.recompute});
  std::vector<MemoryPart> parts = {{"weights, gradients and two moments", bytes.weights},
                                   {"activations", bytes.activations},
                                   {"logits", bytes.logits},
                                   {"one layer at work", bytes.at_work}};
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

std::uint64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace inkling
