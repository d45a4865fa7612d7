#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/modeling_inkling.h"
#include "checkpoint/optimizer_file.h"
#include "checkpoint/state_file.h"
#include "formats/model_place.h"

namespace inkling {

namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::size_t step_digits = 6;  // at least, so that names sort by step

std::string step_name(std::int64_t step) {
  return str(step_prefix, padded(static_cast<std::uint64_t>(step), step_digits));
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const auto step = whole_number(name.substr(step_prefix.size()));
  return step && step_name(*step) == name ? step : std::nullopt;
}

struct Entry {
  std::int64_t step;
  fs::path folder;
};

// "step-000500" of ".step-000500.replaced".
std::optional<std::string> replaced_step(std::string_view name) {
  constexpr std::string_view ending = ".replaced";
  if (!name.starts_with(str(".", step_prefix)) || !name.ends_with(ending)) return std::nullopt;
  return std::string(name.substr(1, name.size() - 1 - ending.size()));
}

// A process that was killed while it replaced a checkpoint may have left it under a hidden name only.
void restore_replaced_in(const fs::path& checkpoints) {
  for (const std::string& name : names_in(checkpoints)) {
    if (const auto step = replaced_step(name)) restore_replaced(checkpoints / *step);
  }
}

// All that are named like checkpoints, oldest first.
std::vector<Entry> entries_in(const fs::path& run) {
  std::vector<Entry> entries;
  const fs::path folder = run / "checkpoints";
  restore_replaced_in(folder);
  for (const std::string& name : names_in(folder)) {
    if (const auto step = step_of(name)) entries.push_back({*step, folder / name});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

void check_entry(const Entry& entry, Look look) {
  const std::int64_t step = check_files(entry.folder, look).step;
  if (step != entry.step)
    throw Error::input(str(entry.folder.string(), ": its state.json is of step ", step,
                           "; rename the folder after that step, or remove it"));
}

// Damage is for the person to judge, so it can be passed over. A disk or a folder that cannot be read is not damage,
// and never is.
void rethrow_unless_damaged(const Error& error) {
  if (error.kind() != ErrorKind::input) throw;
}

struct Listing {
  std::vector<Entry> whole;          // oldest first
  std::vector<std::string> damaged;  // what is wrong with each
  std::vector<std::string> newer;    // the same for those that a newer version wrote
  std::int64_t newest_of_newer = -1;
};

Listing list_all(const fs::path& run) {
  Listing listing;
  for (const Entry& entry : entries_in(run)) {
    try {
      check_entry(entry, Look::quick);
      listing.whole.push_back(entry);
    } catch (const NewerVersion& error) {
      listing.newer.push_back(error.message());
      listing.newest_of_newer = entry.step;
    } catch (const Error& error) {
      rethrow_unless_damaged(error);
      listing.damaged.push_back(error.message());
    }
  }
  return listing;
}

const Entry* find_step(const Listing& listing, std::int64_t step) {
  for (const Entry& entry : listing.whole) {
    if (entry.step == step) return &entry;
  }
  return nullptr;
}

// "There are the steps 250, 500. Damaged: …. Newer: …"
std::string what_is_there(const Listing& listing) {
  std::vector<std::string> steps;
  for (const Entry& entry : listing.whole) steps.push_back(str(entry.step));
  std::string text =
      steps.empty() ? "" : str(steps.size() == 1 ? "There is step " : "There are the steps ", join(steps, ", "));
  for (const std::string& message : listing.damaged) text += str(text.empty() ? "" : ". ", "Damaged: ", message);
  for (const std::string& message : listing.newer) text += str(text.empty() ? "" : ". ", "Newer: ", message);
  return text;
}

// "; the runs in it: runs/a, runs/b" for a folder of runs, and the same for one of models, as the hub's cache is.
std::string places_inside(const fs::path& folder) {
  std::vector<std::string> runs, models;
  std::error_code ignored;  // only a hint
  for (const std::string& name : names_in(folder)) {
    const fs::path inside = folder / name;
    const bool is_model = fs::exists(inside / "config.json", ignored) || name.starts_with("models--");
    if (fs::is_directory(inside / "checkpoints", ignored)) runs.push_back(inside.string());
    if (is_model) models.push_back(inside.string());
  }
  return str(runs.empty() ? "" : "; the runs in it: ", join(runs, ", "),
             models.empty() ? "" : "; the models in it: ", join(models, ", "));
}

[[noreturn]] void refuse_place(const fs::path& place) {
  const std::string inside = places_inside(place);
  if (inside.empty()) refuse_other_forms(place);
  const std::string_view without =
      is_there(place / "model.safetensors") ? "; fetch config.json from where model.safetensors came from" : "";
  throw Error::input(str(place.string(),
                         " is neither a run's folder (it holds no checkpoints/) nor a checkpoint or "
                         "model folder (it holds no config.json)",
                         inside, without));
}

// Falls back to the newest if the person did not ask for the best by name.
const Entry& best_of(const Listing& listing, const fs::path& run, bool asked_for) {
  const Entry& newest = listing.whole.back();
  const std::int64_t best_step = load_state(newest.folder).best_step;
  if (const Entry* best = find_step(listing, best_step)) return *best;
  if (asked_for && best_step < 0) {
    throw Error::input(str(run.string(),
                           ": no checkpoint is known to be the best, because the run has not been "
                           "evaluated yet; ask for \"newest\" or a step. ",
                           what_is_there(listing)));
  }
  if (asked_for) {
    throw Error::input(str(run.string(), ": the best checkpoint, step ", best_step,
                           ", is no longer there; ask for "
                           "\"newest\" or another step. ",
                           what_is_there(listing)));
  }
  if (best_step >= 0) {
    log_warning(str(run.string(), ": the best checkpoint, step ", best_step, ", is not there; taking the newest, step ",
                    newest.step));
  }
  return newest;
}

// What is chosen without its step being named must not silently be older than what the person has.
void tell_what_is_passed_over(const Listing& listing) {
  if (listing.newest_of_newer > listing.whole.back().step) {
    throw Error::input(str(listing.newer.back(), ", or ask for a step. ", what_is_there(listing)));
  }
  for (const std::string& message : listing.damaged) log_warning(str("skipping a damaged checkpoint: ", message));
}

const Entry& choose(const Listing& listing, const fs::path& run, const std::string& which) {
  if (which.empty() || which == "best" || which == "newest") tell_what_is_passed_over(listing);
  if (which.empty() || which == "best") return best_of(listing, run, !which.empty());
  if (which == "newest") return listing.whole.back();
  const std::string_view name = which;
  const auto step = whole_number(name.starts_with(step_prefix) ? name.substr(step_prefix.size()) : name);
  if (!step) {
    throw Error::input(str("there is no checkpoint ", quote(which),
                           "; ask for \"newest\", \"best\" or the number of a "
                           "step. ",
                           what_is_there(listing)));
  }
  if (const Entry* entry = find_step(listing, *step)) return *entry;
  throw Error::input(str(run.string(), " has no checkpoint of step ", *step, ". ", what_is_there(listing)));
}

// The folder is renamed first, because a checkpoint that is half removed must not look like one.
void remove_folder(const fs::path& folder, const fs::path& checkpoint) {
  std::error_code code;
  const fs::path hidden = temporary_name(checkpoint, 0);
  fs::rename(folder, hidden, code);
  if (!code) fs::remove_all(hidden, code);
  if (code) log_warning(str("cannot remove the old checkpoint ", folder.string(), ": ", code.message()));
}

// What a process that was killed while it saved or removed step 500 left behind: ".step-000500.tmp-4711-0", and
// ".step-000500.replaced" next to the step-000500 that took its place.
void remove_leftovers(const fs::path& checkpoints) {
  std::set<std::string> steps;
  for (const std::string& name : names_in(checkpoints)) {
    if (const auto step = replaced_step(name); step && is_there(checkpoints / *step)) {
      remove_folder(checkpoints / name, checkpoints / *step);
    }
    const std::size_t end = name.find(".tmp-");
    if (name.starts_with(".step-") && end != std::string::npos) steps.insert(name.substr(1, end - 1));
  }
  for (const std::string& step : steps) remove_abandoned(checkpoints / step);
}

// Refuses to write what could not be loaded.
void check_run(const ParameterArena& arena, const OptimizerStates& optimizer, const TrainingState& state) {
  if (const auto name = tensor_not_finite(arena)) {
    throw Error(ErrorKind::diverged,
                str("training has diverged: after step ", state.step, " tensor ", quote(*name),
                    " of the weights is not finite, so nothing was saved; earlier checkpoints are untouched. ",
                    diverged_advice));
  }
  if (optimizer.steps != state.step - state.skipped_steps) {
    throw Error::internal(str("a run of ", state.step, " steps, ", state.skipped_steps,
                              " of them without an update, has made ", optimizer.steps, " updates"));
  }
}

}  // namespace

fs::path checkpoint_folder(const fs::path& run, std::int64_t step) { return run / "checkpoints" / step_name(step); }

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  const std::vector<Entry> entries = entries_in(run);
  std::vector<std::string> reasons;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    try {
      check_entry(*entry, Look::thorough);
      for (const std::string& reason : reasons) log_warning(str("skipping a damaged checkpoint: ", reason));
      return entry->folder;
    } catch (const NewerVersion& error) {
      throw CannotGoOn(str(error.message(), ", or move its folder away to go on from an older checkpoint"));
    } catch (const Error& error) {
      rethrow_unless_damaged(error);
      reasons.push_back(error.message());
    }
  }
  if (entries.empty()) return std::nullopt;
  throw CannotGoOn(str(run.string(), " has checkpoints, and none can be used, so this run cannot go on. ",
                       join(reasons, ". "), ". Bring an older checkpoint back into ", (run / "checkpoints").string()));
}

fs::path find_checkpoint(const fs::path& asked, const std::string& which) {
  fs::path place = model_folder(asked);
  if (!is_there(asked) && is_there(place))
    log_info(str(asked.string(), ": taken from the hub's cache, ", place.string()));
  restore_replaced(place);
  refuse_broken_links(place);
  if (is_there(place / "config.json")) {
    if (which.empty()) return place;
    throw Error::input(str(place.string(), " is a single checkpoint, so ", quote(which),
                           " cannot be chosen from it; "
                           "leave the choice out, or give the run's folder"));
  }
  if (!is_there(place)) {
    throw Error::input(str(place.string(), ": there is no such folder; ", hint_for_missing(place)));
  }
  if (!is_folder(place / "checkpoints")) refuse_place(place);
  const Listing listing = list_all(place);
  if (listing.whole.empty()) {
    throw Error::input(str(place.string(), " has no checkpoint yet that can be used",
                           listing.damaged.empty() && listing.newer.empty() ? "; train it first: inkling-train CONFIG"
                                                                            : str(". ", what_is_there(listing))));
  }
  return choose(listing, place, which).folder;
}

void prune_checkpoints(const fs::path& run, const TrainingState& state, std::int64_t keep) {
  try {
    std::vector<Entry> entries = list_all(run).whole;
    std::erase_if(entries, [&](const Entry& entry) { return entry.step > state.step; });
    const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1));
    for (std::size_t index = 0; index + kept < entries.size(); ++index) {
      const fs::path& folder = entries[index].folder;
      if (entries[index].step != state.best_step) remove_folder(folder, folder);
    }
    remove_leftovers(run / "checkpoints");
  } catch (const Error& error) {
    log_warning(str("old checkpoints are not removed this time: ", error.message()));
  }
}

// save_checkpoint of checkpoint.h.

void save_checkpoint(const fs::path& folder, const Config& config, const GptShape& shape, const ParameterArena& arena,
                     const OptimizerStates& optimizer, const TrainingState& state, const Tokenizer* tokenizer,
                     const at::Tensor& average, const KeptConfig& kept) {
  check_run(arena, optimizer, state);
  create_folders(folder.parent_path());
  OutputFolder output(folder);
  const fs::path& growing = output.temporary();
  const TextEnds ends = tokenizer == nullptr ? TextEnds{} : TextEnds{tokenizer->first_token(), tokenizer->separator()};
  const Family family = family_of(shape, kept.family);
  write_file(growing / "config.json", print_model_config({shape, family}, config.model.dropout, ends, kept));
  if (family == Family::inkling) write_file(growing / modeling_inkling_name, modeling_inkling);
  write_file(growing / "generation_config.json", print_generation_config(ends, kept));
  write_file(growing / "config.yaml", print_config(config));
  if (tokenizer != nullptr) tokenizer->save(growing);
  write_model_weights(growing / "model.safetensors", shape, arena, arena.values());
  if (average.defined()) write_model_weights(growing / "ema.safetensors", shape, arena, average);
  write_optimizer(growing / "optimizer.safetensors", optimizer);
  write_state(growing, state);
  output.replace();
}

}  // namespace inkling
