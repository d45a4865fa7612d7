#include "train/room.h"

#include <algorithm>
#include <vector>

#include "base/disk_room.h"
#include "base/strings.h"
#include "model/parameters.h"
#include "optim/optimizer.h"

namespace inkling {
namespace {

std::uint64_t bytes_to_come(const RunPlan& plan, const std::filesystem::path& run) {
  const std::int64_t done = plan.resume ? plan.resume->state.step : 0;
  const std::int64_t steps = std::max<std::int64_t>(plan.config.training.max_steps - done, 0);  // reports may be left
  return run_folder_bytes(plan.config, plan.shape, steps, bytes_below(run / "checkpoints"));
}

}  // namespace

std::uint64_t checkpoint_bytes(const Config& config, const GptShape& shape) {
  const ParameterLayout layout(gpt_parameters(shape));
  std::int64_t numbers = (config.training.ema > 0 ? 2 : 1) * layout.parameter_count();
  for (const OptimizerState& state : optimizer_states(config.optimizer.name, layout)) {
    for (const Parameter& parameter : layout.parameters()) numbers += state.has(parameter) ? parameter.count : 0;
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

std::string describe_room(const RunPlan& plan, const std::filesystem::path& run) {
  const DiskSpace disk = disk_space(run);
  const std::string need = str("about ", format_bytes(bytes_to_come(plan, run)));
  return disk.total == 0 ? need : str(need, ", ", format_bytes(disk.free), " are free");
}

std::string describe_lack_of_room(const RunPlan& plan, const std::filesystem::path& run) {
  const std::vector<ToWrite> all = {
      {.what = "checkpoints and log", .bytes = bytes_to_come(plan, run), .disk = disk_space(run)},
      {.what = "token files", .bytes = plan.dataset.bytes_to_write, .disk = disk_space(plan.dataset.folder)}};
  const std::string lack = describe_lack_of_room(all);
  if (lack.empty()) return "";
  return str("not enough room: ", lack, plan.config.checkpoint.keep > 1 ? "; a smaller checkpoint.keep helps, or" : ";",
             " name another disk with --out", all.back().bytes > 0 ? " and data.dir" : "");
}

}  // namespace inkling
