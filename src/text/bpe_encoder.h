// BPE (Sennrich et al. 2016; Radford et al. 2019): words become tokens by merging, again and again, the leftmost of the
// neighbours whose merge comes first in the list. A word begins as its bytes or, for a vocabulary of characters, as its
// characters.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/token_file.h"
#include "text/bpe_vocabulary.h"
#include "text/pattern.h"

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

// The words that an encoder has met lately, with their tokens: most of a text is words that came before.

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

// The tokens that a text begins with.

// A tree of bytes. The nodes that two bytes lead to are found at once, the edges behind them in one hash table.
class TokenTrie {
 public:
  static constexpr Token no_token = ~Token{0};
  static constexpr std::size_t most_bytes = (std::size_t{1} << 24) - 1;  // of all tokens: nodes have numbers of 24 bits

  // The tree of the tokens whose bytes are not empty; of two with the same bytes the first counts.
  explicit TokenTrie(const std::vector<std::string>& bytes_of_token);

  Token find(std::string_view bytes) const;           // the token of exactly these bytes, or no_token
  Token longest_prefix(std::string_view text) const;  // the longest token that `text` begins with, or no_token
  // The longest token, shorter than itself, that this one begins with, or no_token.
  Token shorter(Token token) const { return shorter_[token]; }

 private:
  struct Node {
    std::uint32_t number;  // 0: there is none
    Token token;           // that ends here, or no_token
  };
  struct Edge {
    std::uint32_t from_and_byte;  // node << 8 | byte
    Node to;
  };

  void insert(std::string_view bytes, Token token);
  Node follow(std::string_view text, Token* longest) const;

  static std::size_t pair_of(std::string_view text) {
    return std::size_t{static_cast<unsigned char>(text[0])} << 8 | static_cast<unsigned char>(text[1]);
  }
  static std::uint32_t edge_key(std::uint32_t node, char byte) { return node << 8 | static_cast<unsigned char>(byte); }
  // Where the edge is, or where it would go.
  std::size_t place(std::uint32_t from_and_byte) const {
    std::size_t at = (from_and_byte * 0x9e3779b1U >> 3) & mask_;
    while (edges_[at].to.number != 0 && edges_[at].from_and_byte != from_and_byte) at = (at + 1) & mask_;
    return at;
  }

  std::vector<Token> bytes_;  // the tokens of a single byte
  std::vector<Node> pairs_;   // by the first two bytes
  std::vector<Edge> edges_;
  std::size_t mask_;
  std::uint32_t node_count_ = 0;
  std::vector<Token> shorter_;
};

class BpeEncoder {
 public:
  // Throws Error input where a byte has no token (unless characters are merged), or a merge names a number that is no
  // token, or does not make the bytes of its result.
  explicit BpeEncoder(const BpeVocabulary& vocabulary);

  // Appends the tokens of `text`, which is well-formed UTF-8. It takes time in proportion to the text, however long its
  // words are, and may be called from several threads. Characters without a token are spelled by the tokens of their
  // bytes; where there are none of these either, they are left out (can_spell() tells).
  void encode(std::string_view text, std::vector<Token>& tokens) const;

  // Whether the text of one character has a token, or its bytes have.
  bool can_spell(std::string_view character) const { return spells_bytes_ || is_known(character); }

  // Appends the tokens of one word in the way of the definition, merge by merge, in time n log n: what every other way
  // has to agree with.
  void merge_word(std::string_view word, std::vector<Token>& tokens) const;

  // Does the same in time n. See the comment in bpe_encoder.cpp for why.
  void encode_word(std::string_view word, std::vector<Token>& tokens) const;

 private:
  // The last merge that made a token, which is the same wherever the token appears.
  struct Origin {
    Token left = 0, right = 0;
    std::int64_t rank = -1;  // -1: a byte or character, which nothing made
  };

  void find_byte_tokens(const BpeVocabulary& vocabulary);
  void find_origins(const BpeVocabulary& vocabulary);
  bool stay_apart(Token left, Token right, std::int64_t before) const;
  bool is_known(std::string_view character) const { return reachable_->find(character) != TokenTrie::no_token; }
  void encode_words(std::string_view text, std::vector<Token>& tokens) const;
  void encode_characters(std::string_view text, std::vector<Token>& tokens) const;

  Pattern pattern_;
  bool of_characters_, cuts_lines_ = false, cuts_spaces_ = false;
  bool spells_bytes_ = true;
  std::array<Token, 256> byte_tokens_;
  PairTable pairs_;
  std::vector<Origin> origins_;         // by token
  std::vector<std::uint32_t> lengths_;  // in bytes, by token
  bool in_order_ = true;                // no token is made before its parts can be
  std::optional<TokenTrie> reachable_;  // the tokens that the merges make of their own bytes or characters
  std::optional<TokenTrie> words_;      // all tokens, where words are tokens
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> idle_caches_;
};

}  // namespace inkling
