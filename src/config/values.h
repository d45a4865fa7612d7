// One value of a setting: from what the person wrote, and back to YAML.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/fields.h"
#include "config/yaml.h"

namespace inkling {

// Reads `node` into the setting's member. Error input with the node's place for a wrong type or a value that is not
// allowed.
void assign(const Setting& setting, const YamlNode& node);

// "runtime.kernels: aten is called reference now", where `node` holds an old word of the setting.
std::optional<std::string> note_of_old_word(const Setting& setting, const YamlNode& node);

// The member's value as YAML that reads back as the same value.
std::string value_as_yaml(const Setting& setting);

// The same as JSON, for a single value whose text needs no escape: a number, a truth value, a word.
std::string value_as_json(const Setting& setting);

// In quotes for a message, and cut if it is long.
std::string shown(std::string_view text);

// For people: "a whole number from 1 to 1000", "one of auto, float32, bfloat16".
std::string describe_allowed(const Setting& setting);

}  // namespace inkling
