// Small shapes with every setting of model:, each alone and many together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/model/small_model.h"

namespace inkling::test {

struct NamedShape {
  std::string name;
  GptShape shape;
};

// The small GPT-2, as it is and with one thing changed.
inline std::vector<NamedShape> single_switches() {
  std::vector<NamedShape> all;
  const auto add = [&](const std::string& name, auto&& change) {
    all.push_back({name, small_shape});
    change(all.back().shape);
  };
  add("GPT-2", [](GptShape&) {});
  add("bias", [](GptShape& s) { s.bias = Bias::none; });
  add("bias: qkv", [](GptShape& s) { s.bias = Bias::qkv; });
  add("tie_embeddings", [](GptShape& s) { s.tie_embeddings = false; });
  add("logit_softcap", [](GptShape& s) { s.logit_softcap = 3.0; });
  add("qk_norm", [](GptShape& s) { s.qk_norm = true; });
  add("n_kv_head", [](GptShape& s) { s.n_kv_head = 1; });
  add("head_size", [](GptShape& s) { s.head_size = 7; });
  add("position: rope", [](GptShape& s) { s.position = Position::rope; });
  add("rope_theta", [](GptShape& s) {
    s.position = Position::rope;
    s.rope_theta = 7.5;
  });
  add("rope_scaling: linear", [](GptShape& s) {
    s.position = Position::rope;
    s.rope_scaling = {.kind = ScalingKind::linear, .factor = 2.5};
  });
  add("rope_scaling: llama3", [](GptShape& s) {
    s.position = Position::rope;
    s.rope_theta = 50;
    s.head_size = 12;
    s.rope_scaling = {.kind = ScalingKind::llama3, .factor = 4, .low = 1, .high = 3, .original = 20};
  });
  add("position: alibi", [](GptShape& s) { s.position = Position::alibi; });
  add("position: none", [](GptShape& s) { s.position = Position::none; });
  add("norm: rmsnorm", [](GptShape& s) { s.norm = NormKind::rmsnorm; });
  add("norm_epsilon", [](GptShape& s) { s.norm_epsilon = 0.1; });
  add("norm_weights", [](GptShape& s) {
    s.norm = NormKind::rmsnorm;
    s.norm_weights = false;
  });
  add("norm_weights of qk_norm", [](GptShape& s) {
    s.qk_norm = true;
    s.norm_weights = false;
  });
  add("embedding_norm", [](GptShape& s) { s.embedding_norm = true; });
  add("conv: 1", [](GptShape& s) { s.conv = 1; });
  add("conv: 2", [](GptShape& s) { s.conv = 2; });
  add("conv: 4", [](GptShape& s) { s.conv = 4; });
  add("conv: 32", [](GptShape& s) { s.conv = 32; });  // more than a text has
  add("n_inner", [](GptShape& s) { s.n_inner = 35; });
  add("activation: gelu", [](GptShape& s) { s.activation = Activation::gelu; });
  add("activation: relu", [](GptShape& s) { s.activation = Activation::relu; });
  add("activation: relu_squared", [](GptShape& s) { s.activation = Activation::relu_squared; });
  add("activation: swiglu", [](GptShape& s) { s.activation = Activation::swiglu; });
  add("activation: geglu", [](GptShape& s) { s.activation = Activation::geglu; });
  add("attention: local 1", [](GptShape& s) { s.patterns = {{1, 1}}; });
  add("attention: local 2", [](GptShape& s) { s.patterns = {{2, 1}}; });
  add("attention: dilated 2 2", [](GptShape& s) { s.patterns = {{2, 2}}; });
  add("attention: dilated 3 30", [](GptShape& s) { s.patterns = {{3, 30}}; });
  add("attention: [full, local 6]", [](GptShape& s) { s.patterns = {{}, {6, 1}}; });
  return all;
}

// A draw for each switch, from (seed, how many have been drawn).
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_(mix64(seed + golden_gamma)) {}

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_below(key_, place_++, static_cast<std::uint64_t>(n)));
  }
  bool coin() { return below(2) == 1; }
  template <class Enum>
  Enum any() {
    return static_cast<Enum>(below(static_cast<std::int64_t>(words_of<Enum>.size())));
  }

 private:
  std::uint64_t key_, place_ = 0;
};

inline GptShape random_shape(std::uint64_t seed) {
  Draws draw(seed);
  GptShape shape = {.n_layer = 1 + draw.below(2), .block_size = 20, .vocab_size = 30 + draw.below(20)};
  shape.n_head = 1 + draw.below(4);
  if (draw.coin()) shape.n_kv_head = shape.n_head % 2 == 0 && draw.coin() ? shape.n_head / 2 : 1;
  shape.n_embd = shape.n_head * 2 * (3 + draw.below(3));
  if (draw.coin()) shape.head_size = 2 * (2 + draw.below(8));  // norms magnify the errors of tiny heads
  shape.bias = draw.coin() ? Bias::all : Bias::none;
  shape.qk_norm = draw.coin();
  if (draw.coin()) shape.logit_softcap = 2.0 + static_cast<double>(draw.below(30));
  shape.tie_embeddings = draw.coin();
  if (draw.coin()) shape.n_inner = 1 + draw.below(70);
  shape.activation = draw.any<Activation>();
  shape.position = draw.any<Position>();
  if (draw.coin()) shape.rope_theta = 100;
  shape.norm = draw.any<NormKind>();
  shape.norm_epsilon = draw.coin() ? 1e-5 : 1e-2;
  for (std::int64_t i = draw.below(4); i > 0; --i) {
    shape.patterns.push_back(draw.below(3) == 0 ? AttentionPattern{}
                                                : AttentionPattern{2 + draw.below(9), 1 + draw.below(4)});
  }
  shape.norm_weights = draw.coin() || (shape.norm == NormKind::layernorm && !shape.qk_norm);
  shape.embedding_norm = draw.coin();
  if (draw.coin()) shape.conv = 2 + draw.below(6);
  shape.rope_scaling.kind = draw.any<ScalingKind>();
  if (shape.rope_scaling.kind != ScalingKind::none) shape.rope_scaling.factor = 1 + static_cast<double>(draw.below(8));
  if (shape.rope_scaling.kind == ScalingKind::llama3) shape.rope_scaling.original = 10 + draw.below(60);
  if (draw.below(3) == 0) shape.bias = Bias::qkv;
  return shape;
}

}  // namespace inkling::test
