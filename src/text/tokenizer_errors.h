// The errors that tokenizers share, worded once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "formats/token_file.h"

namespace inkling {

// Throws Error input naming the byte offset if `text` is not well-formed UTF-8.
void require_utf8(std::string_view text);

// Throws Error input if `token` is not below `vocab_size`.
void require_token(Token token, std::uint64_t vocab_size);

// Throws the error for characters without a token; `code_points` are distinct, in the order of the text.
[[noreturn]] void refuse_characters(std::span<const char32_t> code_points);

}  // namespace inkling
