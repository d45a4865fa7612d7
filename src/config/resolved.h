// Resolved as the fields of a JSON file. The settings (fields.cpp) give them their names and rules.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace inkling {

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

}  // namespace inkling
