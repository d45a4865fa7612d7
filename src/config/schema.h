// The list of all settings for other programs: editors, shells and validators.
#pragma once

#include <string>
#include <string_view>

namespace inkling {

// Returns the JSON schema (draft 2020-12) of a config file. It says of one setting what reading the file would say,
// with its old words and its old name, and nothing of settings that must fit together. Each setting also has
// "x-values", what it takes in words, and "x-on-resume".
std::string config_schema();

// Returns how --help names the values of a setting: "auto|float32|bfloat16", "auto|N". Words that are typed as they
// stand are in lower case, places for others in upper case.
std::string values_as_type(std::string_view key);

}  // namespace inkling
