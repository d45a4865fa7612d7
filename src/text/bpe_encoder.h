// Byte-level BPE (Sennrich et al. 2016; Radford et al. 2019): words become tokens by merging, again and again, the
// leftmost of the neighbours whose merge comes first in the list.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/bpe_tables.h"
#include "text/bpe_vocabulary.h"
#include "text/pattern.h"

namespace inkling {

class BpeEncoder {
 public:
  // Throws Error input where a byte has no token, or a merge names a number that is no token, or does not make the
  // bytes of its result.
  explicit BpeEncoder(const BpeVocabulary& vocabulary);

  // Appends the tokens of `text`, which is well-formed UTF-8. It takes time in proportion to the text, however long its
  // words are, and may be called from several threads.
  void encode(std::string_view text, std::vector<Token>& tokens) const;

  // Appends the tokens of one word in the way of the definition, merge by merge, in time n log n: what every other way
  // has to agree with.
  void merge_word(std::string_view word, std::vector<Token>& tokens) const;

  // Does the same in time n. See the comment in encoder.cpp for why.
  void encode_word(std::string_view word, std::vector<Token>& tokens) const;

 private:
  // The last merge that made a token, which is the same wherever the token appears.
  struct Origin {
    Token left = 0, right = 0;
    std::int64_t rank = -1;  // -1: a byte, which nothing made
  };

  void find_origins(const BpeVocabulary& vocabulary);
  bool stay_apart(Token left, Token right, std::int64_t before) const;

  Pattern pattern_;
  std::array<Token, 256> byte_tokens_;
  PairTable pairs_;
  std::vector<Origin> origins_;         // by token
  std::vector<std::uint32_t> lengths_;  // in bytes, by token
  bool in_order_ = true;                // no token is made before its parts can be
  std::optional<TokenTrie> reachable_;  // the tokens that the merges make of their own bytes
  std::optional<TokenTrie> words_;      // all tokens, where words are tokens
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> idle_caches_;
};

}  // namespace inkling
