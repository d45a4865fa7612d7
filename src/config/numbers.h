// Readers of numbers as YAML 1.2 writes them. They refuse what another reader could take for another number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace inkling {

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
