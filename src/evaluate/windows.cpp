#include "evaluate/windows.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

void check_stride(std::int64_t stride, std::int64_t block_size) {
  if (stride >= 1 && stride <= block_size) return;
  throw Error::input(
      str("--stride is ", stride, " and must be from 1 to ", block_size, ", which is the model's block_size"));
}

WindowCutter::WindowCutter(std::int64_t block_size, std::int64_t stride)
    : block_size_(static_cast<std::size_t>(block_size)), stride_(static_cast<std::size_t>(stride)) {
  check_stride(stride, block_size);
}

void WindowCutter::add(std::span<const Token> tokens) {
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

Passage WindowCutter::cut(std::size_t length) {
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(begin_);
  return {{first, first + static_cast<std::ptrdiff_t>(length)}, given_};
}

std::optional<Passage> WindowCutter::next() {
  if (tokens_.size() - begin_ <= block_size_) return std::nullopt;
  Passage window = cut(block_size_ + 1);
  begin_ += stride_;
  given_ = block_size_ - stride_ + 1;
  return window;
}

std::optional<Passage> WindowCutter::last() {
  const std::size_t left = tokens_.size() - begin_;
  if (left <= given_) return std::nullopt;
  return cut(left);
}

void Stretches::add(const ScoredPiece& window) {
  const std::uint64_t stretch = scored_ / block_size_;
  if (stretch == pieces_.size()) pieces_.emplace_back();
  pieces_.back().nats += window.nats;
  pieces_.back().tokens += window.tokens;
  scored_ += window.tokens;
}

}  // namespace inkling
