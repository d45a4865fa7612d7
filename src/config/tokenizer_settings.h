// What a person may choose of a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/words.h"

namespace inkling {

enum class TokenizerKind { byte, character, sentencepiece, bpe };
template <>
inline constexpr Words<4> words_of<TokenizerKind>{"byte", "char", "sentencepiece", "bpe"};

// The regular expressions by which families of tokenizers cut a text into words, matched from left to right:
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   cl100k  '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|
//           \s+(?!\S)|\s
//   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//           \s+(?!\S)|\s+
// cl100k and llama3 differ only in the white space at the end of a text. The others change what becomes of numbers:
//   qwen2    llama3's, each digit a word of its own
//   smollm2  gpt2's on what stands between numbers, each digit a word of its own
//   numbers  gpt2's on what stands between numbers, each number a word of its own
enum class Pattern { gpt2, cl100k, llama3, qwen2, smollm2, numbers };
template <>
inline constexpr Words<6> words_of<Pattern>{"gpt2", "cl100k", "llama3", "qwen2", "smollm2", "numbers"};

enum class PieceModel { unigram, bpe };
template <>
inline constexpr Words<2> words_of<PieceModel>{"unigram", "bpe"};

struct TokenizerConfig {
  TokenizerKind kind = TokenizerKind::character;
  std::optional<std::string> from = {};         // a path, for bpe also gpt2; auto: learned from the text
  std::optional<Pattern> pattern = {};          // bpe alone; auto: what `from` says, or gpt2
  std::uint64_t vocab_size = 4096;              // of what is learned: sentencepiece, bpe
  PieceModel model_type = PieceModel::unigram;  // sentencepiece alone
  double character_coverage = 0.9995;           // sentencepiece alone
};

}  // namespace inkling
