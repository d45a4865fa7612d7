#include "data/windows.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

WindowOrder::WindowOrder(WindowKind kind, std::uint64_t seed, std::uint64_t token_count, std::uint64_t block_size)
    : kind_(kind), seed_(seed), token_count_(token_count), block_size_(block_size) {
  if (block_size == 0) throw Error::input("block_size is 0: a window needs at least one token");
  if (token_count <= block_size) {
    throw Error::input(str("there are only ", format_count(token_count), " tokens, and one window of block_size ",
                           format_count(block_size), " takes ", format_count(block_size + 1),
                           ": use more text or a smaller block_size"));
  }
  const std::uint64_t back_to_back = (token_count - 1) / block_size;
  windows_ = std::max<std::uint64_t>(back_to_back, 2) - 1;
}

std::uint64_t WindowOrder::start(std::uint64_t sample) const {
  if (kind_ == WindowKind::random) {
    return random_below(random_key(seed_, Purpose::window_offset, 0), sample, token_count_ - block_size_);
  }
  const std::uint64_t epoch = sample / windows_;
  const std::uint64_t slack = token_count_ - 1 - windows_ * block_size_;
  const std::uint64_t phase = random_below(random_key(seed_, Purpose::window_offset, epoch), 0, slack + 1);
  const Permutation order(random_key(seed_, Purpose::window_order, epoch), windows_);
  return phase + block_size_ * order(sample % windows_);
}

std::uint64_t numbered_window(WindowKind kind, std::uint64_t seed, std::uint64_t count, std::uint64_t sample) {
  if (kind == WindowKind::random) return random_below(random_key(seed, Purpose::window_offset, 0), sample, count);
  return Permutation(random_key(seed, Purpose::window_order, sample / count), count)(sample % count);
}

std::optional<Token> document_separator(Documents documents, const Tokenizer* tokenizer) {
  if (documents == Documents::join) return std::nullopt;
  const auto separator = tokenizer != nullptr ? token_in_front(*tokenizer) : std::nullopt;
  if (separator) return separator;
  throw Error::input(str("data.documents is ", word_of(documents), ", and ",
                         tokenizer != nullptr ? "the tokenizer has no token that a document begins with: use join"
                                              : "token files do not tell which token a document begins with: use join, "
                                                "or start from a model with their tokenizer (model.init_from)"));
}

void require_documents(const TokenSequence& train, Token separator, Documents documents) {
  constexpr std::uint64_t at_once = 1 << 16;
  std::vector<Token> part;
  for (std::uint64_t at = 1; at + 1 < train.count(); at += part.size()) {
    part.resize(std::min(at_once, train.count() - 1 - at));
    train.read(at, part);
    if (std::find(part.begin(), part.end(), separator) != part.end()) return;
  }
  throw Error::input(str("data.documents is ", word_of(documents), ", and the training split is one document: token ",
                         separator,
                         ", which others would begin with, is not between its first and its last one. Use "
                         "data.documents: join, or other data"));
}

TrainingWindows::TrainingWindows(const TokenSequence& tokens, const WindowSettings& settings)
    : tokens_(tokens), settings_(settings), order_(settings.order, settings.seed, tokens.count(), settings.block_size) {
  if (settings.documents == Documents::align) {
    packed_.emplace(tokens, settings.separator.value(), settings.block_size);
  }
}

std::vector<TokenRange> TrainingWindows::window(std::uint64_t sample) const {
  if (!packed_) return {{order_.start(sample), settings_.block_size}};
  const auto pieces = packed_->window(numbered_window(settings_.order, settings_.seed, packed_->count(), sample));
  return {pieces.begin(), pieces.end()};
}

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
