// The words that an encoder has met lately, with their tokens: most of a text is words that came before.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

// A word has one place, where it stays until another word with the same place comes. Only short words have one.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 15;
  static constexpr std::size_t most_tokens = 4;

  // A word of at most longest_word bytes as numbers, and where it lies.
  struct Key {
    std::uint64_t low, high;  // its bytes, then zeros, then its length
    std::size_t place;
  };

  WordCache() : entries_(std::size_t{1} << place_bits) {}

  // `readable` bytes can be read at `word`, at least `length`.
  static Key key(const char* word, std::size_t length, std::size_t readable) {
    Key key{0, 0, 0};
    if (readable >= 16) {
      std::memcpy(&key.low, word, 8);
      std::memcpy(&key.high, word + 8, 8);
      key.low &= length >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * length) - 1;
      key.high &= length <= 8 ? 0 : (std::uint64_t{1} << 8 * (length - 8)) - 1;
    } else {
      std::memcpy(&key.low, word, length < 8 ? length : 8);
      if (length > 8) std::memcpy(&key.high, word + 8, length - 8);
    }
    key.high |= std::uint64_t{length} << 56;
    const std::uint64_t mixed = (key.low ^ key.high * 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;
    key.place = mixed >> (64 - place_bits);
    return key;
  }

  // The tokens of the word, or nothing (no word has no tokens).
  std::span<const Token> find(const Key& key) const {
    const Entry& entry = entries_[key.place];
    const bool same = entry.low == key.low && (entry.high & ~count_bits) == key.high;
    return std::span(entry.tokens).first(same ? entry.high >> count_shift & 0xf : 0);
  }

  void insert(const Key& key, std::span<const Token> tokens) {
    if (tokens.size() > most_tokens) return;
    Entry& entry = entries_[key.place];
    entry.low = key.low;
    entry.high = key.high | std::uint64_t{tokens.size()} << count_shift;
    std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  }

 private:
  static constexpr int place_bits = 17, count_shift = 60;
  static constexpr std::uint64_t count_bits = std::uint64_t{0xf} << count_shift;

  struct Entry {
    std::uint64_t low = 0, high = 0;  // of the key; `high` has the number of tokens in its uppermost bits
    std::array<Token, most_tokens> tokens{};
  };

  std::vector<Entry> entries_;  // 4 MiB
};

}  // namespace inkling
