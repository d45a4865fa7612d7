// A strict reader of the part of YAML that a config needs: sections, lists and one-line values, each with its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

struct YamlNode {
  enum class Kind {
    nothing,   // "key:" with no value, ~ or null
    plain,     // a value without quotes
    quoted,    // a value in quotes: text, whatever it looks like
    verbatim,  // a value from the command line, where the shell has dealt with the quotes
    list,
    section,
  };

  Kind kind = Kind::nothing;
  std::string text;             // plain, quoted, verbatim
  std::string place;            // "file:line:column", both from 1, columns counted in characters
  std::vector<YamlNode> keys;   // section: as many as items
  std::vector<YamlNode> items;  // list, section
};

// Reads the one document in `text`; `name` stands for the file in messages. Throws an Error input for what is not YAML,
// and for what YAML allows but a config does not need, because it hides mistakes or costs time and memory without
// bound: duplicate keys, anchors and aliases, tags, directives, a second document, values over several lines, deep
// nesting, control characters, more than 256 KiB.
YamlNode parse_yaml(std::string_view text, std::string_view name);

// Readers of numbers as YAML 1.2 writes them (numbers.cpp). They refuse what another reader could take for another
// number.

// A NumberReading holds either a value, or what is wrong with the text ("begins with 0 …; write 10").
template <typename Number>
struct NumberReading {
  std::optional<Number> value;
  std::string problem;
};

// Reads decimal digits with at most a minus in front.
NumberReading<std::int64_t> read_whole_number(std::string_view text);

// Reads a decimal fraction with or without exponent (3, 0.5, .5, 1e-3) that is finite and does not round to 0.
NumberReading<double> read_real_number(std::string_view text);

// Says whether a YAML reader could take this text, written without quotes, for a number, a truth value or nothing.
bool looks_like_no_text(std::string_view text);

}  // namespace inkling
