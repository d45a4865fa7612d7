#include "data/windows.h"

#include <algorithm>

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

}  // namespace inkling
