#include "data/packed_windows.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"

namespace inkling {
namespace {

constexpr std::uint64_t tokens_at_once = 1 << 20;

// Calls found(n) for each token n > 0 that is the separator.
template <typename Found>
void find_separators(const TokenSequence& tokens, Token separator, const Found& found) {
  std::vector<Token> part;
  for (std::uint64_t at = 0; at < tokens.count(); at += part.size()) {
    part.resize(std::min(tokens_at_once, tokens.count() - at));
    tokens.read(at, part);
    for (std::uint64_t i = at == 0 ? 1 : 0; i < part.size(); ++i) {
      if (part[i] == separator) found(at + i);
    }
  }
}

// Returns the window of each piece, and how many windows there are. Each piece, the longest first and of equal ones the
// earlier, goes where it leaves the least room, of equal windows into the first; where it fits nowhere, a window
// begins.
std::pair<std::vector<std::uint64_t>, std::uint64_t> best_fit(const std::vector<TokenRange>& longest_first,
                                                              std::uint64_t block_size) {
  std::vector<std::uint64_t> window_of;
  window_of.reserve(longest_first.size());
  std::set<std::pair<std::uint64_t, std::uint64_t>> rooms;  // room and number of each window that is not full
  std::uint64_t windows = 0;
  for (const TokenRange& piece : longest_first) {
    const auto fitting = rooms.lower_bound({piece.count, 0});
    auto [room, window] = fitting == rooms.end() ? std::pair(block_size, windows++) : *fitting;
    if (fitting != rooms.end()) rooms.erase(fitting);
    if (room > piece.count) rooms.emplace(room - piece.count, window);
    window_of.push_back(window);
  }
  return {std::move(window_of), windows};
}

}  // namespace

PackedWindows::PackedWindows(const TokenSequence& tokens, Token separator, std::uint64_t block_size)
    : block_size_(block_size) {
  if (tokens.count() < 2) throw Error::input("there are fewer than two tokens: nothing can be learned from them");
  std::vector<TokenRange> pieces;
  const auto add_document = [&](std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    ++documents_;
    if (end - begin > block_size) ++cut_;
    for (std::uint64_t first = begin; first < end; first += block_size) {
      pieces.push_back({first, std::min(block_size, end - first)});
    }
  };
  std::uint64_t begin = 0;
  find_separators(tokens, separator, [&](std::uint64_t next) {
    add_document(begin, next);
    begin = next;
  });
  add_document(begin, tokens.count() - 1);
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const TokenRange& a, const TokenRange& b) { return a.count > b.count; });

  const auto [window_of, windows] = best_fit(pieces, block_size);
  begins_.assign(windows + 1, 0);
  for (const std::uint64_t window : window_of) ++begins_[window + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  std::vector<std::uint64_t> next(begins_.begin(), begins_.end() - 1);
  pieces_.resize(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces_[next[window_of[i]]++] = pieces[i];
}

double PackedWindows::unused_share() const {
  std::uint64_t used = 0;
  for (const TokenRange& piece : pieces_) used += piece.count;
  return 1.0 - static_cast<double>(used) / static_cast<double>(count() * block_size_);
}

}  // namespace inkling
