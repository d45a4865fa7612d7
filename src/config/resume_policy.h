// What a run takes over from an earlier one: what of the settings may change when it goes on, what it keeps of its
// first start, and the shape of a model that it starts from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace inkling {

// OnResume says what it means that a setting changes between a run and its resumption.
enum class OnResume {
  free,    // applies without anybody's consent: max_steps, intervals, logging, paths
  ask,     // needs --accept-changes
  refuse,  // another model or other data: needs --fresh
};

struct ConfigChange {
  std::string key;     // "optimizer.learning_rate"
  std::string before;  // as print_config writes it
  std::string after;
  OnResume on_resume;
};

std::vector<ConfigChange> compare_configs(const Config& before, const Config& after);

// Resolved is what a run made of every `auto`. A checkpoint keeps it in state.json, so that a resumed run uses the
// same.
struct Resolved {
  DeviceChoice device;
  Dtype dtype = Dtype::float32;
  std::int64_t threads = 1;
  WorkSplit split = WorkSplit::products;
  Kernels kernels = Kernels::fused;
  bool deterministic = true;
  std::int64_t micro_batch_size = 0;  // 0: not known, because an older version wrote the checkpoint
};

struct ResolvedField {
  std::string section;  // "runtime" or "training", where the setting stands
  std::string name;     // "device"
  std::string json;     // its value as JSON: "\"cpu\"", "2", "true"
  std::string allowed;  // for people: "cpu, cuda or cuda:N"
};

// Returns a field for every member, in the order of the settings.
std::vector<ResolvedField> resolved_fields(const Resolved& resolved);

// Returns the settings with what `auto` came to in the place of it, in a run that resolved its own to `run`, as far as
// other settings or the run say it: two configs that mean the same are the same then.
Config without_auto(Config config, const Resolved& run);

// Sets the member that the field names from the field's JSON. Returns false, and changes nothing, for a value that the
// setting does not allow, and for auto.
bool set_resolved_field(Resolved& resolved, const ResolvedField& field);

// Completes the shape of a run that starts from a model: what the person left out of model:, or wrote as auto, becomes
// what `stored` has. Throws an Error input for settings that do not fit together.
void complete_shape(Config& config, const GptShape& stored);

// Does so where the model's weights are in `folder`. Throws an Error input with the place of a setting that says
// otherwise than `stored`; block_size may.
void inherit_shape(Config& config, const GptShape& stored, const std::string& folder);

}  // namespace inkling
