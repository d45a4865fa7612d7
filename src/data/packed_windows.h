// Windows that begin with a document, for data.documents: align.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/token_file.h"

namespace inkling {

// `count` inputs, from token number `first` of a sequence on. The target of each is the token behind it.
struct TokenRange {
  std::uint64_t first = 0, count = 0;

  bool operator==(const TokenRange&) const = default;
};

// Puts the documents of a sequence of N tokens into windows of T = block_size inputs, by the rule of docs/formats.md:
// best fit, the longest first (Ding et al. 2024). A document begins with a separator, the first one with token 0; its
// inputs are its tokens, but for the sequence's last one, which has no token behind it. One of more than T is cut every
// T tokens, and each piece is a document of its own. Takes some 20 bytes a piece and, while it packs, at most 100 more.
class PackedWindows {
 public:
  // Reads the sequence once. Throws Error input if it has fewer than two tokens.
  PackedWindows(const TokenSequence& tokens, Token separator, std::uint64_t block_size);

  std::uint64_t count() const { return begins_.size() - 1; }

  // The pieces of a window, one behind the other; at least one, and T inputs at most.
  std::span<const TokenRange> window(std::uint64_t number) const {
    return std::span(pieces_).subspan(begins_[number], begins_[number + 1] - begins_[number]);
  }

  std::uint64_t documents() const { return documents_; }
  std::uint64_t cut_documents() const { return cut_; }  // those of more than T inputs
  double unused_share() const;                          // of the windows' places

 private:
  std::uint64_t block_size_, documents_ = 0, cut_ = 0;
  std::vector<TokenRange> pieces_;     // window by window
  std::vector<std::uint64_t> begins_;  // of each window in pieces_, and its end
};

}  // namespace inkling
