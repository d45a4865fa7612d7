#include "generate/context_rule.h"

#include <algorithm>

namespace inkling {

std::uint64_t context_start(std::uint64_t length, std::uint64_t block_size) {
  if (length <= block_size) return 0;
  const std::uint64_t stride = block_size + 1 - std::max<std::uint64_t>(1, block_size / 2);
  return (length - block_size + stride - 1) / stride * stride;
}

std::span<const Token> context_of(std::span<const Token> text, std::int64_t block_size) {
  return text.subspan(context_start(text.size(), static_cast<std::uint64_t>(block_size)));
}

}  // namespace inkling
