// Unicode's normal form NFC (UAX #15), which some tokenizers bring a text to first: "e" and a combining accent become
// one character. The door to the library utf8proc, in the version of Unicode that it knows.
#pragma once

#include <string>
#include <string_view>

namespace inkling {

// Returns `text`, which is well-formed UTF-8, in the form NFC, in time n log n for any text.
std::string compose(std::string_view text);

// Whether nothing in front of the character changes what it becomes and the other way round, so that a text may be cut
// there: it neither combines nor moves.
bool begins_anew(char32_t code_point);

}  // namespace inkling
