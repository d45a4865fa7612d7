// The signs by which GPT-2's files write bytes: each byte is a visible character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace inkling {

// Bytes 33 to 126, 161 to 172 and 174 to 255 are the code points of the same number; the others are U+0100, U+0101, …
// in ascending order. A space is "Ġ", a line's end "Ċ".
std::string bytes_to_signs(std::string_view bytes);

// The bytes that were written so; none if a character is no byte's sign.
std::optional<std::string> signs_to_bytes(std::string_view signs);

// The 256 bytes in the order of their signs, in which GPT-2's vocabulary begins.
std::string bytes_by_sign();

}  // namespace inkling
