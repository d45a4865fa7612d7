#include "train/memory.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/choose.h"
#include "base/strings.h"
#include "model/parameters.h"
#include "optim/optimizer.h"

namespace inkling {

TrainingBytes training_memory(const Config& config, const GptShape& shape, const Runtime& runtime,
                              std::int64_t micro_batch_size) {
  TrainingBytes bytes = training_bytes(shape, runtime, micro_batch_size * shape.block_size,
                                       {.dropout = config.model.dropout, .recompute = config.training.recompute},
                                       config.data.documents != Documents::join);
  const ParameterLayout layout(gpt_parameters(shape));
  const bool in_memory = choose_backend(runtime).muon_works_in_its_memory;  // else what it makes is float32
  bytes.weights += optimizer_bytes(config.optimizer.name, layout, in_memory ? runtime.dtype : at::kFloat);
  if (config.training.ema > 0) bytes.weights += static_cast<std::uint64_t>(layout.size()) * sizeof(float);
  return bytes;
}

std::string describe_memory(const TrainingBytes& bytes) {
  std::vector<std::pair<std::uint64_t, std::string>> parts = {{bytes.weights, "weights, gradients and moments"},
                                                              {bytes.activations, "activations"},
                                                              {bytes.logits, "logits"},
                                                              {bytes.at_work, "one layer at work"}};
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (const auto& [size, what] : parts) words.push_back(str(what, " ", format_bytes(size)));
  return str("training holds about ", format_bytes(bytes.total()), ": ", join(words, ", "));
}

double flops_per_token(const GptShape& shape) {
  std::int64_t counted = shape.n_embd * shape.vocab_size;  // the head; tables are looked up
  for (const ParameterSpec& spec : gpt_parameters(shape)) {
    const bool is_inside = spec.group == ParameterGroup::matrix || spec.group == ParameterGroup::vector;
    if (is_inside) counted += c10::multiply_integers(spec.shape);
  }
  std::int64_t keys = 0;  // that a token sees in all layers together
  for (const AttentionPattern& pattern : shape.layer_patterns()) keys += pattern.seen(shape.block_size);
  return 6.0 * static_cast<double>(counted) + 12.0 * static_cast<double>(shape.attention().queries() * keys);
}

}  // namespace inkling
