// The words that stand for the values of an enum in files, flags and messages. Each enum has a line, in its own order.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "config/config.h"

namespace inkling {

template <std::size_t count>
using Words = std::array<std::string_view, count>;

// clang-format off
template <class Enum> inline constexpr Words<0> words_of{};
template <> inline constexpr Words<3> words_of<TokenizerKind>{"byte", "char", "sentencepiece"};
template <> inline constexpr Words<2> words_of<PieceModel>{"unigram", "bpe"};
template <> inline constexpr Words<2> words_of<WindowKind>{"epoch", "random"};
template <> inline constexpr Words<2> words_of<GeluForm>{"tanh", "exact"};
template <> inline constexpr Words<1> words_of<OptimizerName>{"adamw"};
template <> inline constexpr Words<2> words_of<ScheduleName>{"cosine", "constant"};
template <> inline constexpr Words<3> words_of<Recompute>{"none", "gelu", "block"};
template <> inline constexpr Words<2> words_of<Dtype>{"float32", "bfloat16"};
template <> inline constexpr Words<2> words_of<Kernels>{"fused", "reference"};
// clang-format on

// Returns "char" for TokenizerKind::character.
template <class Enum>
constexpr std::string_view word_of(Enum value) {
  return words_of<Enum>[static_cast<std::size_t>(value)];
}

}  // namespace inkling
