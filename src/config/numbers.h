// Numbers as YAML 1.2 writes them, read strictly: what another reader could take for another number is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace inkling {

// Either a value, or what is wrong with the text ("begins with 0 …; write 10").
template <typename Number>
struct NumberReading {
  std::optional<Number> value;
  std::string problem;
};

// Decimal digits with at most a minus in front.
NumberReading<std::int64_t> read_whole_number(std::string_view text);

// A decimal fraction with or without exponent (3, 0.5, .5, 1e-3), finite and not so small that it becomes 0.
NumberReading<double> read_real_number(std::string_view text);

// Whether a YAML reader could take this text, written without quotes, for a number, a truth value or nothing.
bool looks_like_no_text(std::string_view text);

}  // namespace inkling
