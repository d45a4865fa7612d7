#include "checkpoint/state_file.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/json_fields.h"
#include "formats/safetensors.h"

namespace inkling {
namespace {

constexpr const char* format_mark = "inkling-training-state";
constexpr std::int64_t format_version = 1;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

// The shortest decimals that read back as the same double. JSON has no word for what is not finite.
std::string json_number(std::optional<double> number) {
  return number && std::isfinite(*number) ? format_shortest(*number) : "null";
}

std::string runtime_text(const RuntimeConfig& runtime) {
  return str("{\"device\": ", json_text(runtime.device), ", \"dtype\": ", json_text(runtime.dtype),
             ", \"threads\": ", runtime.threads, ", \"kernels\": ", json_text(runtime.kernels),
             ", \"deterministic\": ", runtime.deterministic ? "true" : "false", "}");
}

JsonFields open_state(const fs::path& folder) {
  JsonFields fields(folder / "state.json", "choose another checkpoint");
  if (fields.text("format") != format_mark) fields.refuse("this is no training state");
  const std::int64_t version = fields.whole("version", 1, no_limit);
  if (version != format_version) {
    fields.refuse(str("it is of version ", version, ", and this program knows version ", format_version));
  }
  return fields;
}

RuntimeConfig runtime_from(const JsonFields& fields) {
  RuntimeConfig runtime;
  runtime.device = fields.text("device");
  runtime.dtype = fields.text("dtype");
  runtime.threads = fields.whole("threads", 0, no_limit);
  runtime.kernels = fields.text("kernels");
  runtime.deterministic = fields.flag("deterministic");
  return runtime;
}

TrainingState state_from(const JsonFields& fields) {
  TrainingState state;
  state.step = fields.whole("step", 0, no_limit);
  state.best_val_loss = fields.optional_real("best_val_loss");
  state.best_step = fields.whole("best_step", -1, no_limit);
  state.data_hash = fields.text("data_hash");
  state.seconds = fields.real("seconds");
  state.skipped_steps = fields.whole("skipped_steps", 0, no_limit);
  state.skipped_in_a_row = fields.whole("skipped_in_a_row", 0, no_limit);
  state.resolved = runtime_from(fields.section("runtime"));
  state.micro_batch_size = fields.whole_or("micro_batch_size", 0);
  return state;
}

}  // namespace

void write_state(const fs::path& folder, const TrainingState& state, const std::vector<std::string>& files) {
  if (!std::isfinite(state.seconds)) throw Error::internal("a run's time is not a finite number");
  write_file(folder / "state.json",
             str("{\n  \"format\": ", json_text(format_mark), ",\n  \"version\": ", format_version,
                 ",\n  \"step\": ", state.step, ",\n  \"best_val_loss\": ", json_number(state.best_val_loss),
                 ",\n  \"best_step\": ", state.best_step, ",\n  \"data_hash\": ", json_text(state.data_hash),
                 ",\n  \"seconds\": ", json_number(state.seconds), ",\n  \"skipped_steps\": ", state.skipped_steps,
                 ",\n  \"skipped_in_a_row\": ", state.skipped_in_a_row, ",\n  \"runtime\": ",
                 runtime_text(state.resolved), ",\n  \"micro_batch_size\": ", state.micro_batch_size,
                 ",\n  \"files\": ", nlohmann::json(files).dump(), "\n}\n"));
}

TrainingState load_state(const fs::path& folder) { return state_from(open_state(folder)); }

void check_whole(const fs::path& folder) {
  const JsonFields fields = open_state(folder);
  state_from(fields);
  for (const std::string& name : fields.texts("files")) {
    if (fs::path(name).has_parent_path()) fields.refuse(str("files names ", quote(name), ", outside the folder"));
    const InputFile file(folder / name);
    if (file.size() == 0)
      throw Error::input(str(file.path().string(), ": the file is empty; choose another checkpoint"));
    if (name.ends_with(".safetensors")) SafetensorsFile{file.path()};
  }
}

}  // namespace inkling
