#include "data/windows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

WindowKind parse_window_kind(std::string_view order) {
  if (order == "epoch") return WindowKind::epoch;
  if (order == "random") return WindowKind::random;
  if (order == "documents") return WindowKind::documents;
  throw Error::input(str("data.order is ", inkling::quote(order), ": write epoch, random or documents"));
}

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

WindowOrder::WindowOrder(std::uint64_t seed, std::vector<std::uint64_t> starts)
    : kind_(WindowKind::documents), seed_(seed), windows_(starts.size()), starts_(std::move(starts)) {
  if (starts_.empty()) {
    throw Error::input(
        "data.order: documents finds no document to begin with: the text is a single document, or too "
        "short for a block; write epoch or random");
  }
}

std::uint64_t WindowOrder::start(std::uint64_t sample) const {
  if (kind_ == WindowKind::random) {
    return random_below(random_key(seed_, Purpose::window_offset, 0), sample, token_count_ - block_size_);
  }
  const std::uint64_t epoch = sample / windows_;
  const Permutation order(random_key(seed_, Purpose::window_order, epoch), windows_);
  const std::uint64_t place = order(sample % windows_);
  if (kind_ == WindowKind::documents) return starts_[place];
  const std::uint64_t slack = token_count_ - 1 - windows_ * block_size_;
  const std::uint64_t phase = random_below(random_key(seed_, Purpose::window_offset, epoch), 0, slack + 1);
  return phase + block_size_ * place;
}

std::vector<std::uint64_t> document_windows(const TokenSequence& tokens, Token separator, std::uint64_t block_size) {
  std::vector<std::uint64_t> starts;
  std::vector<Token> block(std::size_t{1} << 20);
  std::uint64_t next = 0;  // where the document at hand needs its next window
  for (std::uint64_t first = 0; first < tokens.count(); first += block.size()) {
    block.resize(std::min<std::uint64_t>(block.size(), tokens.count() - first));
    tokens.read(first, block);
    for (std::uint64_t i = 0; i < block.size() && first + i + block_size < tokens.count(); ++i) {
      if (block[i] != separator && first + i != next) continue;
      starts.push_back(first + i);
      next = first + i + block_size;
    }
  }
  return starts;
}

}  // namespace inkling
