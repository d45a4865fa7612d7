// Where a text may be cut into pieces.
#pragma once

#include <cstddef>
#include <string_view>

namespace inkling {

// The length of the longest front of `text`, which is longer than `limit` bytes, that has at most `limit` bytes and
// ends before white space or, where there is none, between characters. At least 1; well-formed UTF-8 stays so.
std::size_t cut_within(std::string_view text, std::size_t limit);

}  // namespace inkling
