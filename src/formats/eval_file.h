// llm.c's files of multiple-choice questions, already as tokens: a header of 256 int32 (1,024 bytes), then 16-bit
// numbers (docs/formats.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

struct TokenChoice {
  std::vector<Token> context;               // at least one token
  std::vector<std::vector<Token>> endings;  // at least two, of at least one token each
  std::size_t label = 0;                    // the right one
};

// Reads the whole of a file, whose bytes are given; `path` is for messages. Every length, count and mark is checked
// against the others. Throws Error input naming the file, the byte, the example and the field that is wrong, also for a
// token of vocab_size or more.
std::vector<TokenChoice> read_eval_file(const std::filesystem::path& path, std::string_view bytes,
                                        std::uint64_t vocab_size);

}  // namespace inkling
