// How often each word of a text comes, in bounded memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

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

}  // namespace inkling
