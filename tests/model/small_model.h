// Small models for tests, with reproducible weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model/model.h"
#include "tests/oracle/rounding.h"

namespace inkling::test {

// Two layers of three heads; nothing is a multiple of a vector's width.
inline constexpr GptShape small_shape = {.n_layer = 2, .n_head = 3, .n_embd = 30, .block_size = 20, .vocab_size = 41};

// The same in size, with every switch elsewhere than GPT-2 has it.
inline constexpr GptShape modern_shape = {.n_layer = 2,
                                          .n_head = 4,
                                          .n_embd = 30,
                                          .block_size = 20,
                                          .vocab_size = 41,
                                          .tie_embeddings = false,
                                          .n_kv_head = 2,
                                          .head_size = 10,
                                          .n_inner = 44,
                                          .activation = Activation::swiglu,
                                          .logit_softcap = 15.0,
                                          .qk_norm = true,
                                          .position = Position::rope,
                                          .norm = NormKind::rmsnorm,
                                          .norm_weights = false,
                                          .embedding_norm = true,
                                          .conv = 3};

struct SmallModel {
  std::unique_ptr<ParameterArena> arena;
  std::unique_ptr<Model> model;
};

struct SmallModelSettings {
  Runtime runtime = {};
  std::uint64_t seed = 1;
  Use use = Use::training;
};

// GPT-2's initialisation.
SmallModel make_small_model(const GptShape& shape, const SmallModelSettings& settings = {});

// Weights ten times as large as GPT-2's, biases and norms off their zeros and ones, so that every term of the model
// shows in its output.
SmallModel make_lively_model(const GptShape& shape, const SmallModelSettings& settings = {});

struct Batch {
  at::Tensor tokens, targets;  // int64 [rows, time]; the end of the last row is not scored
};
Batch make_batch(const GptShape& shape, std::int64_t rows, std::int64_t time);

// Where each token stands in its document: int64 [rows, time], of documents of 1 to `longest` tokens.
at::Tensor make_positions(std::int64_t rows, std::int64_t time, std::uint64_t seed = 1, std::uint64_t longest = 9);

// Between the weights of a lively model and its logits for texts of `time` tokens, or the gradients of `tokens`
// targets.
oracle::Roundings logits_roundings(const GptShape& shape, std::int64_t time);
oracle::Roundings gradient_roundings(const GptShape& shape, std::int64_t time, std::int64_t tokens);

// How far two computations of them in float32 may be from each other, relative to a row of logits or to a loss.
double logits_difference(const GptShape& shape, std::int64_t time);

}  // namespace inkling::test
