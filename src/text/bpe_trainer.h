// Learning the merges of byte-level BPE from a text (Sennrich et al. 2016).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace inkling {

// How often each word of a text comes, in bounded memory.

// Where the words outgrow the memory, the rarest are forgotten: first those that came once, then those that came twice,
// and so on (lossy counting, Manku and Motwani 2002). What remains depends on the text alone.
class WordCounts {
 public:
  explicit WordCounts(std::size_t most_bytes);  // of all different words together

  void add(std::string_view word);  // at most 4 GiB

  std::size_t size() const { return words_.size(); }
  // The i-th word that came and was not forgotten.
  std::string_view word(std::size_t i) const {
    return std::string_view(text_).substr(words_[i].begin, words_[i].length);
  }
  std::uint64_t count(std::size_t i) const { return words_[i].count; }

 private:
  struct Word {
    std::uint64_t hash, count;
    std::uint32_t begin, length;  // in text_
  };

  // Where the word's number is, or where it would go.
  std::size_t place(std::uint64_t hash, std::string_view word) const;
  void rebuild(std::size_t places);
  void forget_rare();

  std::size_t most_bytes_;
  std::uint64_t forgotten_count_ = 0;  // words that came so often or less were forgotten last
  std::string text_;
  std::vector<Word> words_;
  std::vector<std::uint32_t> places_;  // by hash: a word's number + 1, or 0
};

class BpeTrainer {
 public:
  // At most `most_bytes` of different words are kept, those that come most often; learning takes up to 16 bytes of
  // memory for each.
  explicit BpeTrainer(Pattern pattern, std::size_t most_bytes = std::size_t{32} << 20);

  // Takes a part of the training text: well-formed UTF-8 that begins and ends where the pattern has a boundary.
  void add(std::string_view part);

  // Merges, again and again, the pair of neighbours that comes most often, of equal ones that of the smaller tokens,
  // until there are `most_tokens` tokens or no pair comes twice. The first 256 tokens are the bytes in the order of
  // GPT-2, and the i-th merge makes token 256 + i. Calls `progress` with the number of tokens. The same words in the
  // same numbers give the same tokens; those of Hugging Face's trainer with min_frequency=2.
  BpeVocabulary finish(std::size_t most_tokens, const std::function<void(std::size_t)>& progress = {}) const;

 private:
  Pattern pattern_;
  WordCounts words_;
};

}  // namespace inkling
