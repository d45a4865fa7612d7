#include "config/resume_policy.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "config/fields.h"

namespace inkling {
namespace {

// A single JSON value is a YAML value too. Its quotes are cut off without a look for escapes, because
// no word of a setting needs one.
YamlNode node_of(std::string_view json) {
  const bool is_text = json.size() >= 2 && json.front() == '"';
  return {is_text ? YamlNode::Kind::quoted : YamlNode::Kind::plain,
          std::string(is_text ? json.substr(1, json.size() - 2) : json),
          "",
          {},
          {}};
}

Config config_of(const GptShape& shape) {
  Config config;
  static_cast<GptShape&>(config.model) = shape;
  return config;
}

bool is_of_shape(const Setting& setting) {
  if (section_of(setting.key) != "model") return false;
  return setting.key != "model.init_from" && setting.key != "model.dropout" && setting.key != "model.initialization";
}

// Whether the person asked for a value of the shape, and not for auto.
bool is_asked(const Config& config, const Setting& setting) {
  return config.written.find(setting.key) && !std::holds_alternative<Auto>(setting.get());
}

// Whether the setting leaves `stored` the same model, whichever way it is written.
bool agrees(const Setting& setting, const GptShape& stored) {
  Config trial = config_of(stored);
  all_settings(trial).find(setting.key)->set(setting.get());
  return trial.model == stored;
}

// The settings of a model of this shape, such that two of them are the same where the models are.
Config meaning_of(const GptShape& shape) {
  Config config = config_of(shape.without_auto());
  GptShape& model = config.model;
  model.patterns = shape.layer_patterns();
  if (!has_rotation(model.position)) model.rope_theta = 0, model.rope_scaling = {};  // nothing reads them
  return config;
}

}  // namespace

bool GptShape::operator==(const GptShape& other) const {
  return vocab_size == other.vocab_size && compare_configs(meaning_of(*this), meaning_of(other)).empty();
}

std::vector<ConfigChange> compare_configs(const Config& before, const Config& after) {
  Config old_copy = before, new_copy = after;
  const std::vector<Setting> old_settings = all_settings(old_copy).settings;
  const std::vector<Setting> new_settings = all_settings(new_copy).settings;
  std::vector<ConfigChange> changes;
  for (std::size_t i = 0; i < old_settings.size(); ++i) {
    std::string old_value = value_as_yaml(old_settings[i]), new_value = value_as_yaml(new_settings[i]);
    if (old_value == new_value) continue;
    changes.push_back({old_settings[i].key, std::move(old_value), std::move(new_value), old_settings[i].on_resume});
  }
  return changes;
}

std::vector<ResolvedField> resolved_fields(const Resolved& resolved) {
  Resolved copy = resolved;
  std::vector<ResolvedField> fields;
  for (const Setting& setting : resolved_settings(copy).settings) {
    fields.push_back({.section = section_of(setting.key),
                      .name = name_of(setting.key),
                      .json = value_as_json(setting),
                      .allowed = describe_allowed(setting)});
  }
  return fields;
}

Config without_auto(Config config, const Resolved& run) {
  static_cast<GptShape&>(config.model) = config.model.GptShape::without_auto();
  TokenizerConfig& tokenizer = config.data.tokenizer;
  const bool is_learned = tokenizer.kind == TokenizerKind::bpe && !tokenizer.from;
  if (is_learned) tokenizer.pattern = tokenizer.pattern.value_or(Pattern::gpt2);
  OptimizerConfig& optimizer = config.optimizer;
  for (std::optional<double>* rate :
       {&optimizer.embedding_learning_rate, &optimizer.head_learning_rate, &optimizer.vector_learning_rate}) {
    *rate = rate->value_or(optimizer.learning_rate);
  }
  config.schedule.decay_steps = config.schedule.decay_steps.value_or(config.training.max_steps);
  RuntimeConfig& runtime = config.runtime;
  runtime.device = runtime.device.value_or(run.device);
  if (runtime.device->cuda) runtime.device->index = runtime.device->index.value_or(0);
  runtime.dtype = runtime.dtype.value_or(run.dtype);
  runtime.threads = runtime.threads.value_or(run.threads);
  runtime.split = runtime.split.value_or(run.split);
  runtime.kernels = runtime.kernels.value_or(run.kernels);
  std::optional<std::int64_t>& size = config.training.micro_batch_size;
  if (run.micro_batch_size > 0) size = size.value_or(run.micro_batch_size);  // 0: an older version did not say
  return config;
}

bool set_resolved_field(Resolved& resolved, const ResolvedField& field) {
  try {
    assign(*resolved_settings(resolved).find(field.section + "." + field.name), node_of(field.json));
    return true;
  } catch (const Error&) {
    return false;
  }
}

void complete_shape(Config& config, const GptShape& stored) {
  Config other = config_of(stored);
  const Settings ours = all_settings(config), theirs = all_settings(other);
  for (const Setting& setting : ours.settings) {
    if (is_of_shape(setting) && !is_asked(config, setting)) setting.set(theirs.find(setting.key)->get());
  }
  check_model_fit(config);
}

void inherit_shape(Config& config, const GptShape& stored, const std::string& folder) {
  Config other = config_of(stored);
  const Settings ours = all_settings(config), theirs = all_settings(other);
  for (const Setting& setting : ours.settings) {
    if (!is_of_shape(setting) || !is_asked(config, setting) || setting.key == "model.block_size") continue;
    if (agrees(setting, stored)) continue;
    throw Error::input(str(*config.written.find(setting.key), ": ", setting.key, " is ", value_as_yaml(setting),
                           ", and the weights in ", folder, " (model.init_from) have ",
                           value_as_yaml(*theirs.find(setting.key)), "; leave it out"));
  }
  complete_shape(config, stored);
}

}  // namespace inkling
