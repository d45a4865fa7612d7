// JSON that anybody may have written, read totally: what is accepted says one thing only, and reading it is cheap.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace inkling {

inline constexpr int deepest_json = 64;  // objects and lists inside each other

// The whole text as one value. Error input, for the caller to say in which file, if it is no JSON, nests deeper than
// deepest_json, gives a name twice in an object, holds a number that no double can stand for, or holds a zero byte.
nlohmann::json parse_json(std::string_view text);

}  // namespace inkling
