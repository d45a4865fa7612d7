// What a BPE tokenizer is made of, wherever it was read from.
#pragma once

#include <algorithm>
#include <array>
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

// A token that nothing merges to. No text becomes one that is `special`, such as <|endoftext|>, and it stands for no
// text; the name of any other in a text is that token, and is printed where it is drawn (Qwen's <think>).
struct AddedToken {
  Token token;
  std::string name;
  bool special = true;
  bool normalized = false;  // the name is looked for behind the normalizer, and not in the text as it came
};

// Whether texts can be searched for such a name: those of tokens that are not special are of 2 to longest_token bytes.
inline bool can_stand_in_texts(const std::string& name) { return name.size() >= 2 && name.size() <= longest_token; }

// Where a space stands in front of a text that does not begin with one (`unless_there`), or of every text; and whether
// what follows an added token counts as a text, too.
enum class PrefixSpace { never, first_unless_there, all_unless_there, all };

// Of a BPE that merges the characters of a text (sentencepiece's, as tokenizer.json writes it) and not the bytes of its
// words (GPT-2's).
struct CharacterRules {
  bool space_signs = false;  // names write the space as U+2581
  PrefixSpace prefix = PrefixSpace::never;
  bool cuts_lines = false;                                 // a line's end is the last character of a word
  bool cuts_spaces = false;                                // a space is the first one
  std::optional<std::array<Token, 256>> byte_tokens = {};  // by which characters are spelled that have no token
  std::optional<std::string> unknown = {};                 // the name of the token for what cannot be spelled
};

struct BpeVocabulary {
  Pattern pattern = Pattern::gpt2;                // of words of bytes
  std::optional<CharacterRules> characters = {};  // none: bytes are merged
  bool composes = false;                          // texts are brought to Unicode's form NFC first
  // The bytes each token stands for, by token; empty for added tokens and for numbers that no token has.
  std::vector<std::string> tokens;
  std::vector<Merge> merges;  // the one that is done first comes first
  std::vector<AddedToken> added;
  std::optional<Token> first_token = {};  // stands in front of every text, where the tokenizer's maker wants it
  bool first_token_is_said = false;       // by the post_processor of tokenizer.json, also where there is none
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
