// inherit_shape() of config.h.
#include "base/error.h"
#include "base/strings.h"
#include "config/checks.h"
#include "config/config.h"
#include "config/fields.h"
#include "config/values.h"

namespace inkling {
namespace {

// Gives `to` the value of `from`, as if it were written at `place`.
void copy_value(const Setting& to, const Setting& from, const std::string& place) {
  assign(to, parse_yaml(value_as_yaml(from), place));
}

// Whether the setting leaves `stored` the same model, whichever way it is written.
bool agrees(const Setting& setting, const GptShape& stored) {
  Config trial;
  static_cast<GptShape&>(trial.model) = stored;
  copy_value(*all_settings(trial).find(setting.key), setting, setting.key);
  return trial.model == stored;
}

}  // namespace

void inherit_shape(Config& config, const GptShape& stored, const std::string& folder) {
  Config other;
  static_cast<GptShape&>(other.model) = stored;
  const Settings ours = all_settings(config), theirs = all_settings(other);
  for (const Setting& setting : ours.settings) {
    const std::string& key = setting.key;
    if (section_of(key) != "model" || key == "model.init_from" || key == "model.dropout") continue;
    const Setting& value = *theirs.find(key);
    const auto place = config.written.find(key);
    if (!place || std::holds_alternative<Auto>(setting.get())) {
      copy_value(setting, value, folder);
    } else if (key != "model.block_size" && !agrees(setting, stored)) {
      throw Error::input(str(*place, ": ", key, " is ", value_as_yaml(setting), ", and the weights in ", folder,
                             " (model.init_from) have ", value_as_yaml(value), "; leave it out"));
    }
  }
  check_model_fit(config);
}

}  // namespace inkling
