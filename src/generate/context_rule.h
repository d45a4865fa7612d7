// Which part of a text the model is shown.
#pragma once

#include <cstdint>
#include <span>

#include "formats/token_file.h"

namespace inkling {

// The context rule. A text of `length` tokens (prompt included) is continued from its tokens [start, length), encoded
// at positions 0, 1, …: all of them while they fit into block_size T; when they no longer do, the last half of the
// context (T / 2 tokens, the newest included) is encoded anew from position 0 and grows again up to T:
//
//   start = 0                                            for length <= T
//   start = ceil((length - T) / stride) * stride         for length > T, where stride = T + 1 - max(1, T / 2)
//
// It depends on the length alone, so a text is continued alike with and without a cache, and a long prompt exactly as
// if it had been generated. (The positions are learned, so a cached key is of no use at another one.)
std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size);

// The tokens of the text from there on.
std::span<const Token> context_of(std::span<const Token> text, std::int64_t block_size);

}  // namespace inkling
