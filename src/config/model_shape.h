// The transformer's shape, and what else a config says of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/words.h"
#include "kernels/kernel_settings.h"

namespace inkling {

// An empty optional is the word auto. fields.cpp lists what every member means and what it may be.

template <>
inline constexpr Words<6> words_of<Activation>{"gelu_tanh", "gelu", "relu", "relu_squared", "swiglu", "geglu"};
template <>
inline constexpr Words<2> words_of<NormKind>{"layernorm", "rmsnorm"};

// Which layers add a bias: all linear layers and LayerNorms, none, or the one that makes queries, keys and values.
enum class Bias { all, none, qkv };
template <>
inline constexpr Words<3> words_of<Bias>{"true", "false", "qkv"};

constexpr bool is_in_every_layer(Bias bias) {
  switch (bias) {
    case Bias::all:
      return true;
    case Bias::none:
    case Bias::qkv:
      return false;
  }
  return false;
}

constexpr bool is_in_queries(Bias bias) {
  switch (bias) {
    case Bias::all:
    case Bias::qkv:
      return true;
    case Bias::none:
      return false;
  }
  return false;
}

// How a token knows where it stands: by a learned table of positions, by queries and keys that turn with it (rotary
// position embedding, Su et al. 2021), by scores that fall with the distance (ALiBi, Press et al. 2022), or only by
// what the mask hides from it.
enum class Position { learned, rope, alibi, none };
template <>
inline constexpr Words<4> words_of<Position>{"learned", "rope", "alibi", "none"};

constexpr bool has_position_table(Position position) {
  switch (position) {
    case Position::learned:
      return true;
    case Position::rope:
    case Position::alibi:
    case Position::none:
      return false;
  }
  return false;
}

// Whether queries and keys turn.
constexpr bool has_rotation(Position position) {
  switch (position) {
    case Position::rope:
      return true;
    case Position::learned:
    case Position::alibi:
    case Position::none:
      return false;
  }
  return false;
}

constexpr ScoreKind score_kind(Position position) {
  switch (position) {
    case Position::alibi:
      return ScoreKind::alibi;
    case Position::learned:
    case Position::rope:
    case Position::none:
      return ScoreKind::plain;
  }
  return ScoreKind::plain;
}

// How the angles of rope are stretched, so that a model reads longer texts than it learned from: all of them (Chen et
// al. 2023), or, as in Llama 3.1, those of the pairs that turn slowly.
enum class ScalingKind { none, linear, llama3 };
template <>
inline constexpr Words<3> words_of<ScalingKind>{"none", "linear", "llama3"};

struct RopeScaling {
  ScalingKind kind = ScalingKind::none;
  double factor = 1;  // by which angles shrink
  // llama3: a pair that turns less often than `low` in `original` positions shrinks by the whole factor, one that turns
  // more often than `high` not at all, and those between in part.
  double low = 1, high = 4;
  std::int64_t original = 8192;

  bool operator==(const RopeScaling& other) const = default;
};

// The transformer's shape. The vocabulary is the tokenizer's, not a setting.
struct GptShape {
  std::int64_t n_layer = 6, n_head = 6, n_embd = 384, block_size = 256, vocab_size = 0;
  Bias bias = Bias::all;
  bool tie_embeddings = true;                  // the output head is the token table
  std::optional<std::int64_t> n_kv_head = {};  // as many keys and values as queries
  std::optional<std::int64_t> head_size = {};  // n_embd / n_head
  std::optional<std::int64_t> n_inner = {};    // channels between the two layers of the MLP
  Activation activation = Activation::gelu_tanh;
  double logit_softcap = 0.0;  // 0: off
  bool qk_norm = false;        // RMSNorm of each query and key, before they turn
  Position position = Position::learned;
  double rope_theta = 10'000;
  RopeScaling rope_scaling = {};
  NormKind norm = NormKind::layernorm;
  double norm_epsilon = 1e-5;
  bool norm_weights = true;     // of RMSNorms, those of qk_norm too; LayerNorms always have them
  bool embedding_norm = false;  // a norm right behind the embeddings
  std::int64_t conv = 0;        // positions of the convolutions behind the two norms of each block; 0: there are none
  std::vector<AttentionPattern> patterns = {};  // repeated over the layers, as short as can be; none: all are full

  bool norm_bias() const { return is_in_every_layer(bias) && norm == NormKind::layernorm; }
  bool has_weights(NormKind kind) const { return norm_weights || kind == NormKind::layernorm; }
  // The heads, which are the same in every layer; and with what they see in this one.
  AttentionForm attention() const {
    return {.n_head = n_head,
            .n_kv_head = n_kv_head.value_or(n_head),
            .head_size = head_size.value_or(n_embd / n_head),
            .scores = score_kind(position)};
  }
  AttentionForm attention(std::size_t layer) const {
    AttentionForm form = attention();
    if (!patterns.empty()) form.pattern = patterns[layer % patterns.size()];
    return form;
  }
  // Whether text can go on without end in bounded memory: each layer sees a window that fits into the block, which it
  // was trained to see, and no table of positions ends.
  bool is_endless() const;
  // For a gated MLP, which has three matrices, 8 C / 3 rounded up to a multiple of 64 gives as many weights as 4 C.
  std::int64_t inner() const {
    return n_inner.value_or(is_gated(activation) ? (8 * n_embd + 191) / 192 * 64 : 4 * n_embd);
  }
  std::int64_t widened() const { return inkling::widened(activation, inner()); }

  std::vector<AttentionPattern> layer_patterns() const;  // one for each layer
  // The same shape with numbers where `auto` stands.
  GptShape without_auto() const;
  // Whether they are the same model, however it is written.
  bool operator==(const GptShape& other) const;
};

// How new weights begin: as GPT-2's do, or such that every block and the head give nothing at first, so that the first
// steps already learn what matters (nanochat, modded-nanogpt). For a hundred steps what they read is mixed at random
// from the first one on.
enum class Initialization { gpt2, zero_output, short_run };
template <>
inline constexpr Words<3> words_of<Initialization>{"gpt2", "zero_output", "short_run"};

struct ModelConfig : GptShape {
  double dropout = 0.0;
  Initialization initialization = Initialization::gpt2;
  std::optional<std::string> init_from = {};  // a model's folder; auto: new weights
};

// Returns "full", "local 128" or "dilated 64 4", as model.attention writes it.
std::string pattern_text(const AttentionPattern& pattern);
std::vector<std::string> pattern_texts(const std::vector<AttentionPattern>& patterns);

// Returns "none", "linear 2" or "llama3 32 1 4 8192" (factor, low, high, original), as model.rope_scaling writes it.
std::string rope_scaling_text(const RopeScaling& scaling);

// Reads such a text again: what it says, or what is wrong with it.
template <class Type>
struct WordsReading {
  std::optional<Type> value;
  std::string problem;  // "has a window of 0, and …"
};
WordsReading<AttentionPattern> read_pattern(std::string_view text);
WordsReading<RopeScaling> read_rope_scaling(std::string_view text);

// Returns the shortest list that gives every layer the same when it repeats; an empty one where all are full.
std::vector<AttentionPattern> shortest_patterns(std::vector<AttentionPattern> patterns);

}  // namespace inkling
