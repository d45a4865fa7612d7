// Which tokens step s, row r of a batch holds: a function of (seed, step, row), specified in docs/formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "config/config.h"
#include "formats/token_file.h"
#include "text/tokenizer.h"

namespace inkling {

// Windows that begin with a document, for data.documents: align.

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

// A window is T + 1 consecutive tokens (T = block_size) of a split of N: the first T are inputs, the last T targets.
// Windows are numbered through the whole run: the window of step s and row r is number k = s * batch_size + r, so the
// order does not depend on how a batch is cut into micro-batches or over ranks.
//
//   epoch:  W     = max(1, floor((N - 1) / T) - 1)            windows in every epoch, whatever its phase
//           slack = N - 1 - W * T                             T <= slack < 2T, less only where N is below 2T + 1
//           e, i  = k div W, k mod W                          epoch, place in the epoch
//           phase = random_below(random_key(seed, window_offset, e), 0, slack + 1)
//           start = phase + T * Permutation(random_key(seed, window_order, e), W)(i)
//           The windows of an epoch lie back to back (each token between is an input once); the phase moves them by
//           another amount every epoch, so that over the epochs every token is seen at every position. The room for
//           that costs one window an epoch, and no token of the split is out of reach.
//   random: start = random_below(random_key(seed, window_offset, 0), k, N - T)        nanoGPT's independent offsets
//
// Nothing is stored: any window of any epoch costs the same few nanoseconds.
class WindowOrder {
 public:
  // Throws Error input if block_size is 0 or token_count < block_size + 1.
  WindowOrder(WindowKind kind, std::uint64_t seed, std::uint64_t token_count, std::uint64_t block_size);

  // The first token of window number k. start(k) + block_size < token_count always holds.
  std::uint64_t start(std::uint64_t sample) const;

  // W above. For random it is how many windows hold as many tokens as the split, so that epochs can be counted there
  // too.
  std::uint64_t windows_per_epoch() const { return windows_; }

 private:
  WindowKind kind_;
  std::uint64_t seed_, token_count_, block_size_, windows_;
};

// Returns which of `count` windows that are numbered comes as window `sample` of the run.
//   epoch:  Permutation(random_key(seed, window_order, e), count)(i)    with e, i = sample div count, sample mod count
//   random: random_below(random_key(seed, window_offset, 0), sample, count)
std::uint64_t numbered_window(WindowKind kind, std::uint64_t seed, std::uint64_t count, std::uint64_t sample);

// Returns the token that each document begins with, where documents are kept apart; none for `join`. It is the
// separator, or what a tokenizer made elsewhere puts in front of each document. tokenizer: that of the data, or null.
// Throws Error input where there is no such token.
std::optional<Token> document_separator(Documents documents, const Tokenizer* tokenizer);

// Throws Error input where the training split is a single document, because the separator, found as above, does not
// occur between its first and its last token. Reads up to where it does.
void require_documents(const TokenSequence& train, Token separator, Documents documents);

struct WindowSettings {
  WindowKind order = WindowKind::epoch;
  std::uint64_t seed = 1, block_size = 0;
  Documents documents = Documents::join;
  std::optional<Token> separator = {};  // in front of documents; needed for `align` alone
};

// The windows of the training split, in the order of a run.
class TrainingWindows {
 public:
  // `tokens` must outlive it. Throws what WindowOrder and PackedWindows throw.
  TrainingWindows(const TokenSequence& tokens, const WindowSettings& settings);

  const TokenSequence& tokens() const { return tokens_; }

  // What window number `sample` of the run holds: T inputs, or with `align` those of a window of packed().
  std::vector<TokenRange> window(std::uint64_t sample) const;

  // Null unless documents are packed.
  const PackedWindows* packed() const { return packed_ ? &*packed_ : nullptr; }

 private:
  const TokenSequence& tokens_;
  WindowSettings settings_;
  WindowOrder order_;
  std::optional<PackedWindows> packed_;
};

}  // namespace inkling
