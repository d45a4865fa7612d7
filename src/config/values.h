// Conversions between a setting's value and what a file says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/fields.h"
#include "config/yaml.h"

namespace inkling {

// Reads `node` into the setting's member. Throws an Error input with the node's place for a value that has the wrong
// type or is not allowed.
void assign(const Setting& setting, const YamlNode& node);

// Returns "runtime.kernels: aten is called reference now" where `node` holds an old word of the setting.
std::optional<std::string> note_of_old_word(const Setting& setting, const YamlNode& node);

// Returns the member's value as YAML that reads back as the same value.
std::string value_as_yaml(const Setting& setting);

// Returns it as JSON. It must be a single value whose text needs no escape: a number, a truth value or a word.
std::string value_as_json(const Setting& setting);

// Returns `text` in quotes for a message, cut where it is long.
std::string shown(std::string_view text);

// Tells people what is allowed: "a whole number from 1 to 1000", "one of auto, float32, bfloat16".
std::string describe_allowed(const Setting& setting);

// "applies", "asks" or "refused": what a change on a resume means.
std::string_view on_resume_word(OnResume on_resume);

}  // namespace inkling
