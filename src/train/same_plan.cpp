// require_same_plan() of plan.h.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "kernels/cpu_kernels.h"
#include "runtime/device.h"
#include "train/plan.h"

namespace inkling {
namespace {

// What a rank has come to, beside its settings: a name and a line each.
using Facts = std::vector<std::pair<std::string_view, std::string>>;

// Those of a finished run are as many.
Facts facts_of(const RunPlan* plan) {
  Facts facts = {{"whether the run is finished", plan == nullptr ? "yes" : "no"},
                 {"the checkpoint to go on from", ""},
                 {"the data's hash", ""},
                 {"the vocabulary", ""},
                 {"runtime.device", ""},
                 {"runtime.dtype", ""},
                 {"runtime.kernels", ""},
                 {"runtime.split", ""},
                 {"training.micro_batch_size", ""},
                 {"the instruction set", ""}};
  if (plan == nullptr) return facts;
  const Resolved resolved = resolved_from(plan->runtime);
  auto value = facts.begin();
  (++value)->second = plan->resume ? plan->resume->checkpoint.filename().string() : "none";
  (++value)->second = plan->dataset.hash;
  (++value)->second = str(plan->shape.vocab_size);
  (++value)->second = resolved.device.cuda ? "cuda" : "cpu";
  (++value)->second = word_of(resolved.dtype);
  (++value)->second = word_of(resolved.kernels);
  (++value)->second = word_of(resolved.split);
  (++value)->second = str(plan->config.training.micro_batch_size.value());
  // Where each rank makes the whole update, their weights would part.
  if (!plan->config.ranks.shard_optimizer) (++value)->second = cpu_kernels().name;
  return facts;
}

std::string said(std::string_view name, std::string_view own, std::string_view of_first) {
  return str(name, " is ", own, " there, and ", of_first, " in rank 0");
}

// Returns what this rank has that rank 0 has not; "" where they are alike.
std::string difference(const Config& first, const Config& own) {
  for (const ConfigChange& change : compare_configs(first, own)) {
    const bool is_free = change.key == "runtime.threads" || change.key == "runtime.memory_limit_gib";
    if (!is_free) return said(change.key, change.after, change.before);
  }
  return "";
}

std::string difference(std::string_view lines_of_first, const Facts& own) {
  for (const auto& [name, value] : own) {
    const std::string_view line = lines_of_first.substr(0, lines_of_first.find('\n'));
    if (line != value) return said(name, value, line);
    lines_of_first.remove_prefix(line.size() + 1);
  }
  return "";
}

}  // namespace

void agree_on_split(const Ranks& ranks, RunPlan* plan) {
  const bool has_gpu = plan != nullptr && !computes_with_threads(plan->runtime.device);
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  const bool in_order = !has_gpu || plan->runtime.split == WorkSplit::batch;
  const std::int64_t size = ranks.least(has_gpu ? plan->config.training.micro_batch_size.value() : any);
  const bool all_in_order = ranks.least(in_order ? 1 : 0) == 1;
  if (!has_gpu) return;
  plan->config.training.micro_batch_size = size;
  if (!all_in_order) plan->runtime.split = WorkSplit::products;
}

void require_same_plan(const Ranks& ranks, const Config& asked, const RunPlan* plan) {
  if (ranks.is_alone()) return;
  const Facts facts = facts_of(plan);
  std::string lines;
  for (const auto& [name, value] : facts) lines += value + "\n";
  const std::string config = ranks.gather(ranks.is_first() ? print_config(asked) : "").front();
  const std::string lines_of_first = ranks.gather(ranks.is_first() ? lines : "").front();
  std::string differs = difference(parse_config(config, "rank 0", {}), asked);
  if (differs.empty()) differs = difference(lines_of_first, facts);
  const std::vector<std::string> all = ranks.gather(differs);
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const std::string& of_rank = all[static_cast<std::size_t>(rank)];
    if (of_rank.empty()) continue;
    throw Error::input(str(ranks.name_of(rank), " would do something else than rank 0: ", of_rank,
                           "; start all ranks by the same command, with a run folder and data that all of them see"));
  }
}

}  // namespace inkling
