// The parameters of a model by name, and views of them for the operations.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/weights.h"
#include "config/config.h"
#include "model/arena.h"

namespace inkling {

// Returns the model's shape as the settings give it.
GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size);

// Returns every parameter under the name that it has in Hugging Face's GPT-2. GPT-2 small has 124,439,808 elements.
std::vector<ParameterSpec> gpt_parameters(const GptShape& shape);

// Sets GPT-2's initial values, from (seed, parameter, element) alone: N(0, 0.02) for matrices, N(0, 0.02 / sqrt(2
// n_layer)) for the two projections that write to the residual stream, ones for the weights of norms, zeros for biases.
void initialize(ParameterArena& arena, const GptShape& shape, std::uint64_t seed);

struct GptWeights {
  GptWeights(const GptShape& shape, const ParameterArena& arena);  // views: the arena must outlive them

  // Returns the norm that reads the residual stream after a block: the next block's first, or the last of all.
  const NormWeights& norm_behind(std::size_t layer) const {
    return layer + 1 < blocks.size() ? blocks[layer + 1].ln_1 : ln_f;
  }

  EmbeddingWeights embedding;
  Weight head;  // [V, C]; the token table, where they are tied
  std::vector<BlockWeights> blocks;
  NormWeights ln_f;
};

}  // namespace inkling
