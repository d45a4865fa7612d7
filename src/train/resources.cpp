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
#include "train/exchange.h"
#include "train/leaves.h"

namespace inkling {
namespace {

// Returns the largest divisor of batch_size below `size`; 0 if there is none.
std::int64_t smaller_micro_batch_size(std::int64_t batch_size, std::int64_t size) {
  do {
    --size;
  } while (size > 0 && batch_size % size != 0);
  return size;
}

constexpr std::int64_t most_windows_of_a_grid = 65'535;  // that attention on a GPU takes together
constexpr std::int64_t least_tokens = 64;                // of a micro-batch: products of fewer rows are much slower
// Micro-batches beyond this are no faster on a CPU.
constexpr std::uint64_t most_bytes_at_once = std::uint64_t{512} << 20;
// Adding up the gradients of a large model takes longer than it saves. Of as many as one thread would hold, so that
// whether a batch is shared out does not follow the threads that there are.
constexpr std::uint64_t most_gradient_bytes = std::uint64_t{384} << 20;

TrainingBytes bytes_of_pass(const Config& config, const GptShape& shape, const Runtime& runtime, std::int64_t rows) {
  return training_bytes(shape, runtime, rows * shape.block_size,
                        {.dropout = config.model.dropout, .recompute = config.training.recompute},
                        config.data.keeps_documents_apart());
}

bool is_small(const Config& config, const GptShape& shape, const Runtime& runtime, std::int64_t rows) {
  const TrainingBytes bytes = bytes_of_pass(config, shape, runtime, rows);
  return bytes.activations + bytes.at_work + bytes.logits <= most_bytes_at_once;
}

// Returns the windows of a micro-batch with which the thread that has most to do has least; of several such numbers the
// largest; 0 if there are not so many micro-batches. threads: 1 where all compute the same micro-batch.
std::int64_t shared_out(const Config& config, const GptShape& shape, const Runtime& runtime, std::int64_t threads) {
  const std::int64_t batch = config.training.batch_size;
  std::int64_t best = 0, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t rows = batch; rows > 0; rows = smaller_micro_batch_size(batch, rows)) {
    const std::int64_t leaves = batch / rows;
    const bool is_large_enough = leaves == 1 || rows * shape.block_size >= least_tokens;
    if (leaves < threads || !is_large_enough || (rows > 1 && !is_small(config, shape, runtime, rows))) continue;
    const std::int64_t of_a_thread = (leaves + threads - 1) / threads * rows;
    if (of_a_thread < least) best = rows, least = of_a_thread;
  }
  return best;
}

// Whether each thread gets a micro-batch of so many windows, and gradients of its own are worth it.
bool can_share_out(const TrainingConfig& training, const GptShape& shape, std::int64_t rows, int threads) {
  if (rows == 0 || training.batch_size / rows < threads) return false;
  const auto elements = static_cast<std::uint64_t>(ParameterLayout(gpt_parameters(shape)).size());
  const auto copies = static_cast<std::uint64_t>(gradients_held(training.batch_size / rows, 1));
  return copies * elements * sizeof(float) <= most_gradient_bytes;
}

// Returns the largest divisor of a batch of which each rank gets one, or the fewest have none.
std::int64_t largest_of_ranks(std::int64_t batch_size, int ranks) {
  std::int64_t size = batch_size;
  while (size > 1 && batch_size / size < ranks) size = smaller_micro_batch_size(batch_size, size);
  return size;
}

BatchSplit choose_on_cpu(const Config& config, const GptShape& shape, const Runtime& runtime) {
  const std::optional<std::int64_t>& asked = config.training.micro_batch_size;
  const int workers = runtime.threads * runtime.ranks.count();
  const std::int64_t rows = asked.value_or(shared_out(config, shape, runtime, workers));
  const bool can = can_share_out(config.training, shape, rows, workers);
  const WorkSplit split = config.runtime.split.value_or(can ? WorkSplit::batch : WorkSplit::products);
  // The batch of a person who asks for it is shared out as far as it goes.
  if (split == WorkSplit::batch && rows > 0) return {.micro_batch_size = rows, .split = split};
  return {.micro_batch_size =
              asked.value_or(std::max<std::int64_t>(shared_out(config, shape, runtime, runtime.ranks.count()), 1)),
          .split = split};
}

}  // namespace

TrainingBytes training_memory(const Config& config, const GptShape& shape, const Runtime& runtime,
                              std::int64_t micro_batch_size) {
  TrainingBytes bytes = bytes_of_pass(config, shape, runtime, micro_batch_size);
  const ParameterLayout layout(gpt_parameters(shape));
  int workers = 0;
  const bool has_threads = computes_with_threads(runtime.device);
  const int ranks = runtime.ranks.count();
  if (!has_threads && ranks > 1) bytes.under_way = exchange_bytes(layout.size(), ranks);
  if (!has_threads && (ranks > 1 || runtime.split == WorkSplit::batch)) workers = 1;  // each matrix by itself
  if (runtime.split == WorkSplit::batch && !has_threads) {
    const std::int64_t leaves = most_leaves_of_rank(config.training.batch_size / micro_batch_size, runtime.ranks);
    bytes.weights += static_cast<std::uint64_t>((gradients_held(leaves, 1) - 1) * layout.size()) * sizeof(float);
  } else if (runtime.split == WorkSplit::batch) {
    workers = runtime.threads;
    const std::int64_t leaves = most_leaves_of_rank(config.training.batch_size / micro_batch_size, runtime.ranks);
    const auto at_once = static_cast<std::uint64_t>(std::min<std::int64_t>(leaves, workers));
    for (std::uint64_t* of_a_pass : {&bytes.activations, &bytes.at_work, &bytes.logits}) *of_a_pass *= at_once;
    const auto more = static_cast<std::uint64_t>((gradients_held(leaves, workers) - 1) * layout.size());
    const bool has_copies = runtime.dtype != at::kFloat;  // in the dtype of the weights, beside those in float32
    bytes.weights += more * (sizeof(float) + (has_copies ? c10::elementSize(runtime.dtype) : 0));
  }
  const bool in_memory = choose_backend(runtime).muon_works_in_its_memory;  // else what it makes is float32
  const int owners = config.ranks.shard_optimizer ? runtime.ranks.count() : 1;
  bytes.weights += optimizer_bytes(config.optimizer, layout, in_memory ? runtime.dtype : at::kFloat, workers, owners);
  if (!has_threads && runtime.dtype != at::kFloat) {  // master values beside what is computed with
    bytes.weights -= static_cast<std::uint64_t>(layout.size() - layout.size() / owners) * sizeof(float);
  }
  const auto averages = static_cast<std::uint64_t>((layout.size() + owners - 1) / owners);
  if (config.training.ema > 0) bytes.weights += averages * sizeof(float);
  return bytes;
}

std::string describe_memory(const TrainingBytes& bytes) {
  std::vector<std::pair<std::uint64_t, std::string>> parts = {{bytes.weights, "weights, gradients and moments"},
                                                              {bytes.activations, "activations"},
                                                              {bytes.logits, "logits"},
                                                              {bytes.at_work, "one layer at work"},
                                                              {bytes.under_way, "exchanges between ranks"},
                                                              {bytes.libraries, "CUDA's libraries"}};
  std::erase_if(parts, [](const auto& part) { return part.first == 0; });
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

std::int64_t half_micro_batch_size(std::int64_t batch_size, std::int64_t size) {
  return smaller_micro_batch_size(batch_size, size / 2 + 1);
}

std::string describe_need(const Config& config, const GptShape& shape, const Runtime& runtime, std::int64_t size,
                          std::uint64_t limit) {
  const TrainingConfig& training = config.training;
  const std::string need = describe_memory(training_memory(config, shape, runtime, size));
  if (runtime.split == WorkSplit::batch && computes_with_threads(runtime.device)) {
    Runtime together = runtime;
    together.split = WorkSplit::products;
    const auto bytes = [&](std::int64_t rows) { return training_memory(config, shape, together, rows).total(); };
    std::int64_t rows = size;
    while (rows > 1 && bytes(rows) > limit) rows = smaller_micro_batch_size(training.batch_size, rows);
    return str(need, ". runtime.split: products", rows < size ? str(" with training.micro_batch_size: ", rows) : "",
               " has one gradient for all threads (about ", format_bytes(bytes(rows)), " then)");
  }
  const std::int64_t half = half_micro_batch_size(training.batch_size, size);
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

BatchSplit split_batch(const Config& config, const GptShape& shape, const Runtime& asked, std::uint64_t limit) {
  const TrainingConfig& training = config.training;
  Runtime runtime = asked;
  const auto fits = [&](std::int64_t rows) { return training_memory(config, shape, runtime, rows).total() <= limit; };
  const bool has_threads = computes_with_threads(runtime.device);
  if (!has_threads && training.micro_batch_size.value_or(0) > most_windows_of_a_grid) {
    throw Error::input(str("training.micro_batch_size ", *training.micro_batch_size,
                           ": attention on a GPU takes at most ", most_windows_of_a_grid,
                           " windows together; write a smaller micro_batch_size that divides ", "training.batch_size ",
                           training.batch_size, ", or auto"));
  }
  const bool is_alone = runtime.ranks.is_alone();
  const std::int64_t of_rank = largest_of_ranks(training.batch_size, runtime.ranks.count());
  BatchSplit result = {.micro_batch_size = training.micro_batch_size.value_or(of_rank),
                       .split = config.runtime.split.value_or(is_alone ? WorkSplit::products : WorkSplit::batch)};
  if (has_threads) result = choose_on_cpu(config, shape, runtime);
  runtime.split = result.split;
  std::int64_t& size = result.micro_batch_size;
  const bool follows_limit = !has_threads || config.runtime.memory_limit_gib;
  const bool follows_memory = follows_limit && !training.micro_batch_size;
  const auto is_too_large = [&](std::int64_t rows) {
    return (!has_threads && rows > most_windows_of_a_grid) || !fits(rows);
  };
  const auto come_down = [&] {
    while (follows_memory && size > 1 && is_too_large(size)) size = smaller_micro_batch_size(training.batch_size, size);
  };
  if (!has_threads) come_down();                                // with the bits of any number of ranks, if it can be
  if (follows_limit && !config.runtime.split && !fits(size)) {  // one gradient for all threads takes less
    size = training.micro_batch_size.value_or(of_rank);
    runtime.split = result.split = WorkSplit::products;
  }
  come_down();
  const bool is_tried = reports_lack_of_memory(runtime.device) && !config.runtime.memory_limit_gib;
  if (fits(size) || is_tried) return result;
  throw Error::environment(str("not enough memory: ", format_bytes(limit),
                               config.runtime.memory_limit_gib
                                   ? " are allowed (runtime.memory_limit_gib)"
                                   : " are available (runtime.memory_limit_gib sets another limit)",
                               ", and ", describe_need(config, shape, runtime, size, limit)));
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
