// What two neighbouring tokens merge to.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

// A hash table from pairs of tokens to the place of their merge in the list of merges, and its result.
class PairTable {
 public:
  struct Entry {
    Token left, right;
    std::uint32_t rank;
    Token result;
  };

  explicit PairTable(std::size_t most_pairs) {
    std::size_t size = 16;
    while (size < 2 * most_pairs) size *= 2;
    entries_.resize(size, Entry{no_token, no_token, 0, 0});
    mask_ = size - 1;
  }

  // Does nothing if the pair is there already.
  void insert(Token left, Token right, std::uint32_t rank, Token result) {
    Entry& entry = entries_[place(left, right)];
    if (entry.left == no_token) entry = {left, right, rank, result};
  }

  // Null if the two do not merge.
  const Entry* find(Token left, Token right) const {
    const Entry& entry = entries_[place(left, right)];
    return entry.left == no_token ? nullptr : &entry;
  }

 private:
  static constexpr Token no_token = ~Token{0};

  // Where the pair is, or where it would go.
  std::size_t place(Token left, Token right) const {
    const std::uint64_t key = std::uint64_t{left} << 32 | right;
    std::size_t at = (key * 0x9e3779b97f4a7c15ULL >> 24) & mask_;
    while (entries_[at].left != no_token && (entries_[at].left != left || entries_[at].right != right)) {
      at = (at + 1) & mask_;
    }
    return at;
  }

  std::vector<Entry> entries_;
  std::size_t mask_;
};

}  // namespace inkling
