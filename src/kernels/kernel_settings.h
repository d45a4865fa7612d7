// What the CPU loops and their CUDA twins take beside arrays. C++17: nvcc reads it too.
#pragma once

#include <cstdint>

namespace inkling {

// Of the MLP: GELU (Hendrycks, Gimpel 2016) by tanh or exact, ReLU, or its square (So et al. 2021). The gated ones
// (Shazeer 2020) take twice as many channels as they give, F gates and then F values: SiLU or exact GELU of a gate,
// times its value.
enum class Activation { gelu_tanh, gelu, relu, relu_squared, swiglu, geglu };

constexpr bool is_gated(Activation activation) {
  switch (activation) {
    case Activation::swiglu:
    case Activation::geglu:
      return true;
    case Activation::gelu_tanh:
    case Activation::gelu:
    case Activation::relu:
    case Activation::relu_squared:
      return false;
  }
  return false;
}
// Whether the loops of kernels/activation compute it.
constexpr bool has_kernels(Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh:
    case Activation::gelu:
    case Activation::relu:
    case Activation::relu_squared:
    case Activation::swiglu:
    case Activation::geglu:
      return true;
  }
  return false;
}
// Channels in front of an activation that gives `inner`.
constexpr std::int64_t widened(Activation activation, std::int64_t inner) {
  return is_gated(activation) ? 2 * inner : inner;
}
// Channels that an activation gives of `before`.
constexpr std::int64_t narrowed(Activation activation, std::int64_t before) {
  return is_gated(activation) ? before / 2 : before;
}

// LayerNorm (Ba, Kiros, Hinton 2016) or RMSNorm (Zhang, Sennrich 2019), which leaves the mean where it is.
enum class NormKind { layernorm, rmsnorm };
struct NormForm {
  NormKind kind = NormKind::layernorm;
  float epsilon = 1e-5f;  // added to the variance
};

// Which of the positions before it, and itself, a token sees: the newest `window` of those that lie a multiple of
// `dilation` back (local attention, or dilated: Beltagy et al. 2020).
struct AttentionPattern {
  static constexpr std::int64_t everything = INT64_MAX;

  std::int64_t window = everything, dilation = 1;

  constexpr bool is_full() const { return window == everything; }
  // How far it looks back: to the token itself counts as 0. Not for a full one.
  constexpr std::int64_t reach() const { return (window - 1) * dilation; }
  // How many a token sees at most in a text of `time` tokens.
  constexpr std::int64_t seen(std::int64_t time) const {
    const std::int64_t there = (time - 1) / dilation + 1;
    return there < window ? there : window;
  }
  // Positions that a cache of keys has for texts of at most `time` tokens: those of each of the interleaved texts lie
  // in a ring of their own, one ring after the other.
  constexpr std::int64_t capacity(std::int64_t time) const { return (dilation < time ? dilation : time) * seen(time); }
  constexpr std::int64_t ring(std::int64_t capacity) const { return capacity < dilation ? 1 : capacity / dilation; }
  constexpr bool operator==(const AttentionPattern& other) const {
    return window == other.window && dilation == other.dilation;
  }
};

// Where a cache holds the key of a position, and the keys that its query sees: [first, first + count), in any order.
struct CachedPlace {
  std::int64_t slot, first, count;
};
constexpr CachedPlace cached_place(const AttentionPattern& pattern, std::int64_t capacity, std::int64_t position) {
  const std::int64_t ring = pattern.ring(capacity), number = position / pattern.dilation;
  const std::int64_t first = position % pattern.dilation * ring;
  return {first + number % ring, first, number < ring ? number + 1 : ring};
}

// What a query and a key make before the softmax: q k^T / sqrt(D), or that less slope times distance, with a slope for
// each head of queries (ALiBi, Press et al. 2022).
enum class ScoreKind { plain, alibi };

// The heads of attention. n_head queries of head_size channels share n_kv_head keys and values: query head h reads
// those of head h / group() (Ainslie et al. 2023, grouped queries). Packed, a token has all queries, then all keys,
// then all values.
struct AttentionForm {
  std::int64_t n_head = 1, n_kv_head = 1, head_size = 1;
  AttentionPattern pattern = {};
  ScoreKind scores = ScoreKind::plain;

  constexpr std::int64_t group() const { return n_head / n_kv_head; }
  constexpr std::int64_t queries() const { return n_head * head_size; }  // channels of all queries, and of the result
  constexpr std::int64_t keys() const { return n_kv_head * head_size; }  // channels of all keys, or of all values
  constexpr std::int64_t packed() const { return queries() + 2 * keys(); }
};
// Whether the loops of kernels/attention and kernels/attend_cached compute it.
constexpr bool has_kernels(const AttentionForm& form) {
  switch (form.scores) {
    case ScoreKind::plain:
      return true;
    case ScoreKind::alibi:
      return false;
  }
  return false;
}
// Whether a layer of both can be decoded by them.
constexpr bool has_kernels(const AttentionForm& form, Activation activation) {
  return has_kernels(form) && has_kernels(activation);
}

// One AdamW step; bias_correction1 = 1 - beta1^t, bias_correction2 = 1 - beta2^t. The gradient is scaled by clip first.
struct AdamWSettings {
  float learning_rate, beta1, beta2, epsilon, weight_decay, clip, bias_correction1, bias_correction2;
};

// How the next token is drawn. What is off by default stands in the comments.
struct SamplingSettings {
  double temperature = 0.8;         // 0: always the likeliest token; 1: as the model says
  std::uint64_t top_k = 0;          // 0: off. Only the k likeliest tokens
  double top_p = 1.0;               // 1: off. Only the likeliest tokens that together reach this probability
  double min_p = 0.0;               // 0: off. Only tokens at least so likely as this times the likeliest one
  double repetition_penalty = 1.0;  // 1: off. Above 1, tokens of the context (the last block of it) become less likely
};

}  // namespace inkling
