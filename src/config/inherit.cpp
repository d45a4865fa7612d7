// complete_shape() and inherit_shape() of config.h.
#include "base/error.h"
#include "base/strings.h"
#include "config/config.h"
#include "config/fields.h"
#include "config/values.h"

namespace inkling {
namespace {

Config config_of(const GptShape& shape) {
  Config config;
  static_cast<GptShape&>(config.model) = shape;
  return config;
}

// Gives `to` the value of `from`.
void copy_value(const Setting& to, const Setting& from) { assign(to, parse_yaml(value_as_yaml(from), from.key)); }

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
  copy_value(*all_settings(trial).find(setting.key), setting);
  return trial.model == stored;
}

}  // namespace

void complete_shape(Config& config, const GptShape& stored) {
  Config other = config_of(stored);
  const Settings ours = all_settings(config), theirs = all_settings(other);
  for (const Setting& setting : ours.settings) {
    if (is_of_shape(setting) && !is_asked(config, setting)) copy_value(setting, *theirs.find(setting.key));
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
