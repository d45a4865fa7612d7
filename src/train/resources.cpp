#include "train/resources.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "backend/choose.h"
#include "base/error.h"
#include "base/strings.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "runtime/cpu_memory.h"
#include "runtime/device.h"

namespace inkling {
namespace {

// Returns the largest divisor of batch_size below `size`; 0 if there is none.
std::int64_t smaller_micro_batch_size(std::int64_t batch_size, std::int64_t size) {
  do {
    --size;
  } while (size > 0 && batch_size % size != 0);
  return size;
}

}  // namespace

TrainingBytes training_memory(const Config& config, const GptShape& shape, const Runtime& runtime,
                              std::int64_t micro_batch_size) {
  TrainingBytes bytes = training_bytes(shape, runtime, micro_batch_size * shape.block_size,
                                       {.dropout = config.model.dropout, .recompute = config.training.recompute},
                                       config.data.keeps_documents_apart());
  const ParameterLayout layout(gpt_parameters(shape));
  const bool in_memory = choose_backend(runtime).muon_works_in_its_memory;  // else what it makes is float32
  bytes.weights += optimizer_bytes(config.optimizer, layout, in_memory ? runtime.dtype : at::kFloat);
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

std::uint64_t memory_limit(const RuntimeConfig& config, at::Device device) {
  if (config.memory_limit_gib) return static_cast<std::uint64_t>(*config.memory_limit_gib * (1 << 30));
  if (const auto memory = device_memory(device)) return memory->free;
  constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  return system_memory().free().value_or(unlimited) / 5 * 4;  // the estimate is good to 15 %, and LibTorch comes on top
}

std::string describe_need(const Config& config, const GptShape& shape, const Runtime& runtime, std::int64_t size) {
  const TrainingConfig& training = config.training;
  const std::string need = describe_memory(training_memory(config, shape, runtime, size));
  const std::int64_t half = smaller_micro_batch_size(training.batch_size, size / 2 + 1);
  if (half > 0) {
    return str(need, ". training.micro_batch_size: ", half, " instead of ", size,
               size == 2 * half ? " halves" : " lowers", " all but the weights (about ",
               format_bytes(training_memory(config, shape, runtime, half).total()), " then)");
  }
  if (training.recompute != Recompute::block && can_recompute_blocks(config.model.dropout, runtime)) {
    return str(need,
               ". training.recompute: block keeps few of the activations and computes each block's forward pass twice");
  }
  return str(need, ". Half of model.block_size halves all but the weights; a smaller model.n_embd lowers all of it");
}

std::int64_t fitting_micro_batch_size(const Config& config, const GptShape& shape, const Runtime& runtime,
                                      std::uint64_t limit) {
  const TrainingConfig& training = config.training;
  const auto fits = [&](std::int64_t size) { return training_memory(config, shape, runtime, size).total() <= limit; };
  std::int64_t size = training.micro_batch_size.value_or(training.batch_size);
  while (!training.micro_batch_size && size > 1 && !fits(size)) {
    size = smaller_micro_batch_size(training.batch_size, size);
  }
  const bool is_tried = reports_lack_of_memory(runtime.device) && !config.runtime.memory_limit_gib;
  if (fits(size) || is_tried) return size;
  throw Error::environment(str("not enough memory: ", format_bytes(limit),
                               config.runtime.memory_limit_gib
                                   ? " are allowed (runtime.memory_limit_gib)"
                                   : " are available (runtime.memory_limit_gib sets another limit)",
                               ", and ", describe_need(config, shape, runtime, size)));
}

std::uint64_t checkpoint_bytes(const Config& config, const GptShape& shape) {
  const ParameterLayout layout(gpt_parameters(shape));
  std::int64_t numbers = (config.training.ema > 0 ? 2 : 1) * layout.parameter_count();
  for (const OptimizerState& state : optimizer_states(config.optimizer, layout)) {
    numbers += c10::multiply_integers(state.shape);
  }
  constexpr std::int64_t bytes_of_a_token = 64, bytes_of_small_files = 64 << 10;
  return static_cast<std::uint64_t>(numbers * static_cast<std::int64_t>(sizeof(float)) +
                                    shape.vocab_size * bytes_of_a_token + bytes_of_small_files);
}

std::uint64_t run_folder_bytes(const Config& config, const GptShape& shape, std::int64_t steps, std::uint64_t there) {
  constexpr std::uint64_t bytes_of_a_line = 160;
  const auto evaluations = static_cast<std::uint64_t>(steps / config.evaluation.interval);
  const auto saves = 1 + static_cast<std::uint64_t>(steps / config.checkpoint.interval) + evaluations;
  const auto lines = static_cast<std::uint64_t>(steps / config.logging.interval) + evaluations;
  const std::uint64_t one = checkpoint_bytes(config, shape);
  const auto at_once = static_cast<std::uint64_t>(config.checkpoint.keep + 2);
  const std::uint64_t room = at_once * one - std::min(there, at_once * one);
  // The old ones are removed only when a new one is there.
  const std::uint64_t checkpoints = std::max(one, std::min(std::min(saves, at_once) * one, room));
  return checkpoints + lines * bytes_of_a_line;
}

std::string describe_room(const DiskNeed& need) {
  const std::string bytes = str("about ", format_bytes(need.run_bytes));
  return need.run_disk.total == 0 ? bytes : str(bytes, ", ", format_bytes(need.run_disk.free), " are free");
}

std::string describe_lack_of_room(const DiskNeed& need, std::int64_t keep) {
  const ToWrite all[] = {{.what = "checkpoints and log", .bytes = need.run_bytes, .disk = need.run_disk},
                         {.what = "token files", .bytes = need.token_bytes, .disk = need.data_disk}};
  const std::string lack = describe_lack_of_room(all);
  if (lack.empty()) return "";
  return str("not enough room: ", lack, keep > 1 ? "; a smaller checkpoint.keep helps, or" : ";",
             " choose a run folder ", need.token_bytes > 0 ? "and a data.dir " : "", "on another disk");
}

}  // namespace inkling
