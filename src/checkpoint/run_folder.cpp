// The checkpoints of a run: finding, listing and pruning, from checkpoint.h.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/temporary.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/state_file.h"

namespace inkling {
namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::size_t step_digits = 6;  // at least, so that names sort by step

std::string step_name(std::int64_t step) {
  const std::string digits = str(step);
  return str(step_prefix, std::string(step_digits - std::min(step_digits, digits.size()), '0'), digits);
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const auto step = whole_number(name.substr(step_prefix.size()));
  return step && step_name(*step) == name ? step : std::nullopt;
}

// The names in a folder that may be missing or be read-protected.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  fs::directory_iterator entry(folder, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// What is wrong with a checkpoint, if anything is.
std::optional<std::string> damage(const CheckpointEntry& entry) {
  try {
    check_whole(entry.folder);
    const std::int64_t step = load_state(entry.folder).step;
    if (step == entry.step) return std::nullopt;
    return str(entry.folder.string(), ": its state.json is of step ", step);
  } catch (const Error& error) {
    return error.message();
  }
}

// A process that was killed while it replaced a checkpoint may have left it under a hidden name alone.
void restore_replaced_in(const fs::path& checkpoints) {
  for (const std::string& name : names_in(checkpoints)) {
    constexpr std::string_view ending = ".replaced";
    if (!name.starts_with(str(".", step_prefix)) || !name.ends_with(ending)) continue;
    restore_replaced(checkpoints / name.substr(1, name.size() - 1 - ending.size()));
  }
}

struct Listing {
  std::vector<CheckpointEntry> whole;  // oldest first
  std::vector<std::string> damaged;    // what is wrong with each
};

Listing list_all(const fs::path& run) {
  Listing listing;
  const fs::path folder = run / "checkpoints";
  restore_replaced_in(folder);
  for (const std::string& name : names_in(folder)) {
    const auto step = step_of(name);
    if (!step) continue;
    const CheckpointEntry entry = {*step, folder / name};
    if (auto message = damage(entry))
      listing.damaged.push_back(std::move(*message));
    else
      listing.whole.push_back(entry);
  }
  const auto earlier = [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; };
  std::sort(listing.whole.begin(), listing.whole.end(), earlier);
  return listing;
}

const CheckpointEntry* find_step(const Listing& listing, std::int64_t step) {
  for (const CheckpointEntry& entry : listing.whole) {
    if (entry.step == step) return &entry;
  }
  return nullptr;
}

// "There are the steps 250, 500. Damaged: …"
std::string what_is_there(const Listing& listing) {
  std::vector<std::string> steps;
  for (const CheckpointEntry& entry : listing.whole) steps.push_back(str(entry.step));
  std::string text =
      steps.empty() ? "" : str(steps.size() == 1 ? "There is step " : "There are the steps ", join(steps, ", "));
  for (const std::string& message : listing.damaged) text += str(text.empty() ? "" : ". ", "Damaged: ", message);
  return text;
}

// "; the runs in it: runs/a, runs/b" for a folder of runs.
std::string runs_inside(const fs::path& folder) {
  std::vector<std::string> runs;
  std::error_code ignored;
  for (const std::string& name : names_in(folder)) {
    if (fs::is_directory(folder / name / "checkpoints", ignored)) runs.push_back((folder / name).string());
  }
  return runs.empty() ? "" : str("; the runs in it: ", join(runs, ", "));
}

// Falls back to the newest where the person did not ask for the best by name.
const CheckpointEntry& best_of(const Listing& listing, const fs::path& run, bool asked_for) {
  const CheckpointEntry& newest = listing.whole.back();
  const std::int64_t best_step = load_state(newest.folder).best_step;
  if (const CheckpointEntry* best = find_step(listing, best_step)) return *best;
  if (asked_for && best_step < 0) {
    throw Error::input(str(run.string(),
                           ": no checkpoint is known to be the best, because the run has not been "
                           "evaluated yet; ask for \"newest\" or a step. ",
                           what_is_there(listing)));
  }
  if (asked_for) {
    throw Error::input(str(run.string(), ": the best checkpoint, step ", best_step,
                           ", is not there any more; ask for "
                           "\"newest\" or another step. ",
                           what_is_there(listing)));
  }
  if (best_step >= 0) {
    log_warning(str(run.string(), ": the best checkpoint, step ", best_step, ", is not there; taking the newest, step ",
                    newest.step));
  }
  return newest;
}

const CheckpointEntry& choose(const Listing& listing, const fs::path& run, const std::string& which) {
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
  if (const CheckpointEntry* entry = find_step(listing, *step)) return *entry;
  throw Error::input(str(run.string(), " has no checkpoint of step ", *step, ". ", what_is_there(listing)));
}

// Under a hidden name first: a folder that is half removed must not look like a checkpoint.
void remove_folder(const fs::path& folder) {
  std::error_code code;
  const fs::path hidden = temporary_name(folder, 0);
  fs::rename(folder, hidden, code);
  if (!code) fs::remove_all(hidden, code);
  if (code) log_warning(str("cannot remove the old checkpoint ", folder.string(), ": ", code.message()));
}

// ".step-000500.tmp-4711-0": what a process that was killed while it saved or removed step 500 left behind.
void remove_leftovers(const fs::path& checkpoints) {
  std::set<std::string> steps;
  for (const std::string& name : names_in(checkpoints)) {
    const std::size_t end = name.find(".tmp-");
    if (name.starts_with(".step-") && end != std::string::npos) steps.insert(name.substr(1, end - 1));
  }
  for (const std::string& step : steps) remove_abandoned(checkpoints / step);
}

}  // namespace

fs::path checkpoint_folder(const fs::path& run, std::int64_t step) { return run / "checkpoints" / step_name(step); }

std::vector<CheckpointEntry> list_checkpoints(const fs::path& run) {
  const Listing listing = list_all(run);
  for (const std::string& message : listing.damaged) log_warning(str("a damaged checkpoint is left aside: ", message));
  return listing.whole;
}

fs::path find_checkpoint(const fs::path& place, const std::string& which) {
  std::error_code ignored;
  if (fs::exists(place / "config.json", ignored)) {
    if (which.empty()) return place;
    throw Error::input(str(place.string(), " is a single checkpoint, so ", quote(which),
                           " cannot be chosen from it; "
                           "leave the choice out, or give the run's folder"));
  }
  if (!fs::exists(place, ignored)) throw Error::input(str(place.string(), ": there is no such folder"));
  if (!fs::is_directory(place / "checkpoints", ignored)) {
    throw Error::input(str(place.string(),
                           " is neither a run's folder (it holds no checkpoints/) nor a checkpoint or "
                           "model folder (it holds no config.json)",
                           runs_inside(place)));
  }
  const Listing listing = list_all(place);
  if (listing.whole.empty()) {
    throw Error::input(
        str(place.string(), " has no checkpoint yet that can be used",
            listing.damaged.empty() ? "; train it first: inkling-train CONFIG" : str(". ", what_is_there(listing))));
  }
  return choose(listing, place, which).folder;
}

void prune_checkpoints(const fs::path& run, std::int64_t keep, std::int64_t best_step) {
  const std::vector<CheckpointEntry> entries = list_all(run).whole;
  const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(keep, 1));
  for (std::size_t index = 0; index + kept < entries.size(); ++index) {
    if (entries[index].step != best_step) remove_folder(entries[index].folder);
  }
  remove_leftovers(run / "checkpoints");
}

}  // namespace inkling
