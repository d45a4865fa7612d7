#include "train/start.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "optim/optimizer.h"
#include "text/build_tokenizer.h"

namespace inkling {
namespace {

std::string count_of(std::int64_t count, std::string_view one) {
  return str(format_count(static_cast<std::uint64_t>(count)), " ", one, count == 1 ? "" : "s");
}

// To write what `auto` came to is no change, and the number of threads changes nothing where they share out the batch.
std::vector<ConfigChange> find_changes(const Config& before, const Config& after, const Resolved& run) {
  std::vector<ConfigChange> changes = compare_configs(before, after);
  const std::vector<ConfigChange> meant = compare_configs(without_auto(before, run), without_auto(after, run));
  std::erase_if(changes, [&](const ConfigChange& change) {
    return std::none_of(meant.begin(), meant.end(), [&](const auto& other) { return other.key == change.key; });
  });
  if (without_auto(after, run).runtime.split == WorkSplit::batch) {
    for (ConfigChange& change : changes) {
      if (change.key == "runtime.threads") change.on_resume = OnResume::free;
    }
  }
  return changes;
}

}  // namespace

std::optional<InitialModel> find_initial_model(const ModelConfig& config) {
  if (!config.init_from) return std::nullopt;
  require_model(*config.init_from);
  const fs::path folder = find_checkpoint(*config.init_from, "");
  check_checkpoint(folder);
  return InitialModel{.folder = folder,
                      .shape = read_shape(folder),
                      .tokenizer = holds_tokenizer(folder) ? load_tokenizer(folder) : nullptr};
}

Config inherit_model(Config config, const InitialModel& model) {
  inherit_shape(config, model.shape, model.folder.string());
  inherit_tokenizer(config, model.folder, model.tokenizer.get());
  return config;
}

Config complete_settings(const Config& asked) {
  const auto model = find_initial_model(asked.model);
  return model ? inherit_model(asked, *model) : asked;
}

Config inherit_settings(Config config, const Config& before) {
  complete_shape(config, before.model);
  const TokenizerConfig& tokenizer = before.data.tokenizer;
  if (!config.written.find("data.tokenizer.kind")) config.data.tokenizer.kind = tokenizer.kind;
  if (!config.written.find("data.tokenizer.from")) config.data.tokenizer.from = tokenizer.from;
  return config;
}

void require_same_tokens(const Tokenizer& tokenizer, const InitialModel& model) {
  if (!model.tokenizer) return;
  const auto problem = misunderstanding(tokenizer, *model.tokenizer);
  if (!problem) return;
  throw Error::input(str("data.tokenizer does not match the weights in ", model.folder.string(), " (model.init_from): ",
                         *problem, "; leave data.tokenizer out to use the tokenizer saved with them"));
}

std::vector<std::string> describe_initial_model(const InitialModel& model, const GptShape& shape) {
  const GptShape& stored = model.shape;
  const std::size_t tensors = gpt_parameters(stored).size();
  std::vector<std::string> lines = {
      str("starts from ", model.folder.string(), ": all ", tensors, " tensors of a model of ",
          format_count(static_cast<std::uint64_t>(ParameterLayout(gpt_parameters(stored)).parameter_count())),
          " parameters")};
  const std::int64_t cut = stored.block_size - shape.block_size;
  if (has_position_table(shape.position) && cut > 0) {
    lines.push_back(str("cut: ", count_of(cut, "learned position"), ", from ", shape.block_size, " on"));
  } else if (has_position_table(shape.position) && cut < 0) {
    lines.push_back(
        str("added: ", count_of(-cut, "learned position"), ", from ", stored.block_size, " on, with new values"));
  } else if (cut < 0) {
    lines.push_back(str("model.block_size is ", shape.block_size, ", and the weights were trained on ",
                        stored.block_size, " tokens at once"));
  }
  if (const std::int64_t added = shape.vocab_size - stored.vocab_size; added > 0) {
    lines.push_back(str("added: ", count_of(added, "token"), ", from ", stored.vocab_size,
                        " on, each as the mean of those before"));
  }
  return lines;
}

std::optional<Resume> find_resume(const fs::path& run, Config& config, bool accept_changes) {
  const std::optional<fs::path> newest = newest_checkpoint(run);
  if (!newest) return std::nullopt;
  Config before = load_kept_config(*newest / "config.yaml", {});
  const TrainingState state = load_state(*newest);
  // Older versions wrote the batch size where auto stands now.
  const bool was_whole = before.training.micro_batch_size == before.training.batch_size;
  if (state.resolved.micro_batch_size == 0 && !config.training.micro_batch_size && was_whole) {
    before.training.micro_batch_size.reset();
  }
  if (config.model.init_from) config = inherit_settings(std::move(config), before);
  check_changes(before, config, state.resolved, accept_changes);
  if (const std::string rates = describe_new_rates(before, config, state.step); !rates.empty()) log_warning(rates);
  return Resume{*newest, state, before.training.max_steps, before.training.stop_when.patience};
}

void check_changes(const Config& before, const Config& after, const Resolved& run, bool accept_changes) {
  bool refused = false;
  bool asks = false;
  for (const ConfigChange& change : find_changes(before, after, run)) {
    refused |= change.on_resume == OnResume::refuse;
    asks |= change.on_resume == OnResume::ask;
    log_info(str("changed since the checkpoint: ", change.key, ": ", change.before, " -> ", change.after,
                 change.on_resume == OnResume::refuse ? "  (another model or other data)" : ""));
  }
  if (refused) {
    throw CannotGoOn(
        "this run cannot go on with another model or other data (changes above); change the settings back");
  }
  if (asks && !accept_changes) {
    throw CannotGoOn("the changes above alter the result, so the resumed run would not equal an uninterrupted one",
                     true);
  }
}

std::string describe_new_rates(const Config& before, const Config& after, std::int64_t step) {
  const std::int64_t end = before.training.max_steps;
  if (before.schedule.decay_steps || after.schedule.decay_steps || step == 0) return "";
  ScheduleConfig old = after.schedule;
  old.decay_steps = end;
  const double kept = learning_rate(step, after.optimizer, old, end);
  const double changed = learning_rate(step, after.optimizer, after.schedule, after.training.max_steps);
  if (kept == changed) return "";
  const auto shown = [](double rate) { return format_shortest(std::round(rate * 1e8) / 1e8); };
  return str("step ", format_count(static_cast<std::uint64_t>(step) + 1), " has the learning rate ", shown(changed),
             ", and would have had ", shown(kept), ": the schedule ends at training.max_steps, and is stretched from ",
             end, " to ", after.training.max_steps, " steps with it; schedule.decay_steps: ", end,
             " keeps the old one");
}

}  // namespace inkling
