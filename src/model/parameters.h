// The parameters of a model by name, and views of them for the operations.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/weights.h"
#include "config/model_shape.h"
#include "model/arena.h"

namespace inkling {

// Returns the model's shape as the settings give it.
GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size);

// Returns every parameter under the name that it has in Hugging Face's GPT-2. GPT-2 small has 124,439,808 elements.
std::vector<ParameterSpec> gpt_parameters(const GptShape& shape);

// Sets initial values, from (seed, parameter, element) alone: ones for the weights of norms, zeros for biases and
// convolutions, and for the rest normal numbers. With gpt2 their standard deviation is 0.02, and 0.02 / sqrt(2 n_layer)
// in the two projections that write to the residual stream. With zero_output these, and a head of its own, are zero; it
// is 1 in tables, and 0.5 / sqrt(n_embd) in the other matrices.
void initialize(ParameterArena& arena, const GptShape& shape, std::uint64_t seed,
                Initialization initialization = Initialization::gpt2);

struct GptWeights {
  GptWeights(const GptShape& shape, const ParameterArena& arena);  // views: the arena must outlive them

  // Returns the norm that reads the residual stream after a block: the next block's first, or the last of all.
  const NormWeights& norm_behind(std::size_t layer) const {
    return layer + 1 < blocks.size() ? blocks[layer + 1].ln_1 : ln_f;
  }

  EmbeddingWeights embedding;
  NormWeights embedding_norm;  // undefined for a model without one
  Weight head;                 // [V, C]; the token table, where they are tied
  std::vector<BlockWeights> blocks;
  NormWeights ln_f;
};

}  // namespace inkling
