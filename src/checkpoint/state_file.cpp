#include "checkpoint/state_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/model_config.h"
#include "checkpoint/modeling_inkling.h"
#include "checkpoint/optimizer_file.h"
#include "config/resume_policy.h"
#include "formats/json.h"
#include "formats/safetensors.h"

namespace inkling {

namespace {

constexpr const char* state_mark = "inkling-training-state";
constexpr std::int64_t state_version = 2;
constexpr std::int64_t max_steps = 1'000'000'000;  // of training.max_steps

// The last line, around the hash of all text before it.
constexpr std::string_view before_hash = "  \"xxh3_128\": \"";
constexpr std::string_view after_hash = "\"\n}\n";
constexpr std::size_t hash_digits = 32;

std::string with_own_hash(const std::string& text) { return str(text, before_hash, hash_text(text), after_hash); }

bool own_hash_holds(const std::string& file) {
  constexpr std::size_t length = before_hash.size() + hash_digits + after_hash.size();
  return file.size() >= length && with_own_hash(file.substr(0, file.size() - length)) == file;
}

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

// Writes the shortest decimals that read back as the same double. JSON has no word for what is not finite.
std::string json_number(std::optional<double> number) {
  return number && std::isfinite(*number) ? format_shortest(*number) : "null";
}

// The settings of the runtime stand in a section of their own, training.micro_batch_size beside it.
bool is_in_section(const ResolvedField& field) { return field.section == "runtime"; }

std::string resolved_text(const Resolved& resolved) {
  std::vector<std::string> inside, beside;
  for (const ResolvedField& field : resolved_fields(resolved)) {
    (is_in_section(field) ? inside : beside).push_back(str(json_text(field.name), ": ", field.json));
  }
  return str("\"runtime\": {", join(inside, ", "), "},\n  ", join(beside, ",\n  "));
}

std::string state_text(const TrainingState& state) {
  return str("{\n  \"format\": ", json_text(state_mark), ",\n  \"version\": ", state_version,
             ",\n  \"step\": ", state.step, ",\n  \"best_val_loss\": ", json_number(state.best_val_loss),
             ",\n  \"best_step\": ", state.best_step,
             ",\n  \"train_loss_at_best\": ", json_number(state.train_loss_at_best),
             ",\n  \"evaluations_since_best\": ", state.evaluations_since_best,
             ",\n  \"overfitting_in_a_row\": ", state.overfitting_in_a_row,
             ",\n  \"data_hash\": ", json_text(state.data_hash), ",\n  \"seconds\": ", json_number(state.seconds),
             ",\n  \"skipped_steps\": ", state.skipped_steps, ",\n  \"skipped_in_a_row\": ", state.skipped_in_a_row,
             ",\n  \"reports_due\": ", state.reports_due ? "true" : "false", ",\n  ", resolved_text(state.resolved));
}

std::string files_text(const std::vector<SavedFile>& files) {
  std::vector<std::string> lines;
  for (const SavedFile& file : files) {
    lines.push_back(str("    {\"name\": ", json_text(file.name), ", \"size\": ", file.size, ", \"xxh3_128\": \"",
                        file.hash, "\"}"));
  }
  return str("[\n", join(lines, ",\n"), "\n  ]");
}

void write(const fs::path& folder, const TrainingState& state, const std::vector<SavedFile>& files) {
  if (!std::isfinite(state.seconds)) throw Error::internal("a run's time is not a finite number");
  write_file(folder / "state.json",
             with_own_hash(str(state_text(state), ",\n  \"files\": ", files_text(files), ",\n")));
}

JsonFields open_state(const fs::path& folder) {
  const fs::path path = folder / "state.json";
  const std::string text = read_small_file(path);
  JsonFields fields(path, text, "choose another checkpoint");
  if (fields.text("format") != state_mark) fields.refuse("this is not a training state");
  const bool has_own_hash = fields.has("xxh3_128");
  if (has_own_hash && !own_hash_holds(text)) {
    fields.refuse("it is not as it was written: the XXH3-128 in its last line is not that of its text");
  }
  const std::int64_t version = fields.whole("version", 1);
  if (version > state_version) {
    throw NewerVersion(ErrorKind::input, str(path.string(), ": a newer inkling wrote it (version ", version,
                                             ", and this program knows versions 1 to ", state_version,
                                             "); update inkling to use this checkpoint"));
  }
  if (version == 1 && has_own_hash) fields.refuse("it says version 1, and xxh3_128 is a field of version 2");
  if (version == 2 && !has_own_hash) fields.refuse("its last line, xxh3_128, is missing");
  return fields;
}

// Checkpoints of older versions do not tell runtime.split, nor training.micro_batch_size, or say 0.
bool is_untold(const JsonFields& fields, const ResolvedField& field) {
  if (field.name == "split") return !fields.has(field.name);
  return field.name == "micro_batch_size" && (!fields.has(field.name) || fields.json(field.name) == "0");
}

Resolved resolved_from(const JsonFields& fields) {
  const JsonFields runtime = fields.section("runtime");
  Resolved resolved;
  for (ResolvedField field : resolved_fields(resolved)) {
    const JsonFields& around = is_in_section(field) ? runtime : fields;
    if (is_untold(around, field)) continue;
    field.json = around.json(field.name);
    if (!set_resolved_field(resolved, field)) around.refuse_value(field.name, field.allowed);
  }
  return resolved;
}

// What older versions do not tell: how the evaluations went since the best one.
void read_evaluations(const JsonFields& fields, TrainingState& state) {
  const auto count = [&](std::string_view name, std::int64_t largest) {
    return fields.has(name) ? fields.whole(name, 0, largest) : 0;
  };
  state.train_loss_at_best = fields.optional_real("train_loss_at_best");
  state.evaluations_since_best = count("evaluations_since_best", state.step);
  state.overfitting_in_a_row = count("overfitting_in_a_row", overfitting_seen);
}

TrainingState state_from(const JsonFields& fields) {
  TrainingState state;
  state.step = fields.whole("step", 0, max_steps);
  state.best_val_loss = fields.optional_real("best_val_loss");
  state.best_step = fields.whole("best_step", -1, state.step);
  if (!state.best_val_loss) state.best_step = -1;  // version 1 took a first loss of NaN for the best
  read_evaluations(fields, state);
  state.data_hash = fields.text("data_hash");
  state.seconds = fields.real("seconds");
  if (state.seconds < 0) fields.refuse("seconds is below 0");
  state.skipped_steps = fields.whole("skipped_steps", 0, state.step);
  state.skipped_in_a_row = fields.whole("skipped_in_a_row", 0, state.skipped_steps);
  state.reports_due =
      fields.optional_flag("reports_due").value_or(false);  // older versions made them before they saved
  state.resolved = resolved_from(fields);
  state.had_other_dropout = !fields.section("runtime").has("split");
  return state;
}

void check_name(const JsonFields& fields, const std::string& name) {
  if (is_file_name(name) && name != "state.json") return;
  fields.refuse(str("files names ", quote(name), ", which is not another file of the folder"));
}

// Requires what every checkpoint has, so that none of it can be left out of the list and be used unchecked.
void check_complete(const JsonFields& fields, const std::vector<SavedFile>& files) {
  for (const char* needed : {"config.json", "config.yaml", "model.safetensors", "optimizer.safetensors"}) {
    const auto same_name = [&](const SavedFile& file) { return file.name == needed; };
    if (std::none_of(files.begin(), files.end(), same_name)) fields.refuse(str("files does not name ", needed));
  }
}

std::vector<SavedFile> files_from(const JsonFields& fields, std::int64_t version) {
  std::vector<SavedFile> files;
  if (version == 1) {
    for (const std::string& name : fields.texts("files")) files.push_back({.name = name, .size = 0, .hash = ""});
  } else {
    for (const JsonFields& file : fields.sections("files")) {
      files.push_back({.name = file.text("name"),
                       .size = static_cast<std::uint64_t>(file.whole("size", 0)),
                       .hash = file.text("xxh3_128")});
    }
    check_complete(fields, files);
  }
  for (const SavedFile& file : files) check_name(fields, file.name);
  return files;
}

[[noreturn]] void refuse_file(const fs::path& path, const std::string& message) {
  throw Error::input(str(path.string(), ": ", message, "; choose another checkpoint"));
}

void check_is_there(const fs::path& path) {
  if (is_there(path)) return;
  throw Error::input(str(path.string(),
                         ": the file is missing, and belongs to the checkpoint; bring it back, choose another "
                         "checkpoint, or remove state.json to use the folder as a model from elsewhere"));
}

void check_file(const fs::path& path, const SavedFile& saved, Look look) {
  const InputFile file(path);
  if (file.size() != saved.size) {
    refuse_file(path, str("it has ", file.size(), " bytes, and had ", saved.size, " when it was saved",
                          file.size() < saved.size ? ": it was cut short" : ""));
  }
  if (look == Look::quick) return;
  if (const std::string hash = hash_file(path); hash != saved.hash) {
    refuse_file(path,
                str("its bytes are not those that were saved: their XXH3-128 is ", hash, ", and was ", saved.hash));
  }
}

// Version 1 says only that the file was there and was not empty.
void check_file_of_version_1(const fs::path& path) {
  const InputFile file(path);
  if (file.size() == 0) refuse_file(path, "the file is empty");
  if (path.extension() == ".safetensors") SafetensorsFile{path};
}

}  // namespace

void write_state(const fs::path& folder, const TrainingState& state) {
  std::vector<SavedFile> files;
  for (const std::string& name : names_in(folder)) {
    files.push_back({.name = name, .size = InputFile(folder / name).size(), .hash = hash_file(folder / name)});
  }
  write(folder, state, files);
}

void save_state(const fs::path& folder, const TrainingState& state) { write(folder, state, read_state(folder).files); }

StateFile read_state(const fs::path& folder) {
  const JsonFields fields = open_state(folder);
  const std::int64_t version = fields.whole("version", 1, state_version);
  return {.version = version, .state = state_from(fields), .files = files_from(fields, version)};
}

TrainingState load_state(const fs::path& folder) { return read_state(folder).state; }

bool note_validation_loss(TrainingState& state, double loss) {
  if (!std::isfinite(loss) || (state.best_val_loss && loss >= *state.best_val_loss)) {
    ++state.evaluations_since_best;
    return false;
  }
  state.evaluations_since_best = 0;
  state.best_val_loss = loss;
  state.best_step = state.step;
  return true;
}

TrainingState check_files(const fs::path& folder, Look look) {
  const StateFile saved = read_state(folder);
  for (const SavedFile& file : saved.files) {
    if (file.name == modeling_inkling_name) continue;  // for transformers alone, and may have to be changed for it
    check_is_there(folder / file.name);
    if (saved.version == 1)
      check_file_of_version_1(folder / file.name);
    else
      check_file(folder / file.name, file, look);
  }
  const std::int64_t updates = optimizer_steps(folder);
  if (updates != saved.state.step - saved.state.skipped_steps) {
    refuse_file(folder / "optimizer.safetensors",
                str("it has made ", updates, " updates, and state.json records ", saved.state.step, " steps, ",
                    saved.state.skipped_steps, " of them without an update: the two do not belong together"));
  }
  if (saved.version == 1 && look == Look::thorough) {
    log_warning(
        str((folder / "state.json").string(),
            ": it is of version 1, which knows no hashes, so damage inside a file of this checkpoint would not be "
            "noticed; the next one that the run saves has them"));
  }
  return saved.state;
}

void check_checkpoint(const fs::path& folder) {
  if (is_there(folder / "state.json")) check_files(folder, Look::thorough);
}

}  // namespace inkling
