// What a byte-level BPE tokenizer is made of, wherever it was read from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/tokenizer_settings.h"
#include "formats/token_file.h"

namespace inkling {

// The limits of vocabularies made elsewhere. No known one comes near the first; a larger number would take memory for
// all the numbers below it. Of the second, in bytes, known tokens have at most some hundred.
inline constexpr std::uint64_t largest_token = (1 << 21) - 1;
inline constexpr std::size_t longest_token = 1024;

struct Merge {
  Token left, right, result;
};

// A token that text never encodes to: <|endoftext|> and its like.
struct AddedToken {
  Token token;
  std::string name;
};

struct BpeVocabulary {
  Pattern pattern = Pattern::gpt2;
  // The bytes each token stands for, by token; empty for added tokens and for numbers that no token has.
  std::vector<std::string> tokens;
  std::vector<Merge> merges;  // the one that is done first comes first
  std::vector<AddedToken> added;
  std::optional<Token> first_token = {};  // stands in front of every text, where the tokenizer's maker wants it
  // A word that is a token becomes that token, whatever the merges would make of it (tiktoken; ignore_merges of
  // Hugging Face).
  bool words_are_tokens = false;

  // Null if there is no such added token.
  const AddedToken* find_added(std::optional<Token> token) const {
    const auto found =
        std::find_if(added.begin(), added.end(), [&](const AddedToken& one) { return one.token == token; });
    return found == added.end() ? nullptr : &*found;
  }
  const AddedToken* find_added(const std::string& name) const {
    const auto found =
        std::find_if(added.begin(), added.end(), [&](const AddedToken& one) { return one.name == name; });
    return found == added.end() ? nullptr : &*found;
  }
};

// The signs by which GPT-2's files write bytes: each byte is a visible character.

// Bytes 33 to 126, 161 to 172 and 174 to 255 are the code points of the same number; the others are U+0100, U+0101, …
// in ascending order. A space is "Ġ", a line's end "Ċ".
std::string bytes_to_signs(std::string_view bytes);

// The bytes that were written so; none if a character is no byte's sign.
std::optional<std::string> signs_to_bytes(std::string_view signs);

// The 256 bytes in the order of their signs, in which GPT-2's vocabulary begins.
std::string bytes_by_sign();

}  // namespace inkling
