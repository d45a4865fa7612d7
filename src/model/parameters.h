// What a model has: the one list of its parameters, and views of them for the operations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/weights.h"
#include "config/model_shape.h"
#include "model/arena.h"

namespace inkling {

// Returns the model's shape as the settings give it.
GptShape shape_from(const ModelConfig& model, std::uint64_t vocab_size);

// Some columns of a parameter, or elements of a vector, which the files of Llama's family hold under a name of their
// own.
struct FileColumns {
  std::string name;  // without the prefix "model."
  std::int64_t first = 0, count = 0;
};

struct GptParameter {
  ParameterSpec spec;
  // Whether the arena holds it. The weights of norms that have none are ones for the operations and in files alone.
  bool in_arena = true;
  std::vector<FileColumns> llama = {};
  bool transposed =
      false;  // Llama's files hold [out, in], as torch.nn.Linear does; the arena and GPT-2's hold [in, out]
};

// Returns the list, in the order of GPT-2's files. Everything that speaks of parameters follows from it: the arena, the
// views, the files of both families (checkpoint/file_tensors.h), counts.
std::vector<GptParameter> list_parameters(const GptShape& shape);

// Returns those that the arena holds. GPT-2 small has 124,439,808 elements.
std::vector<ParameterSpec> gpt_parameters(const GptShape& shape);

// Sets initial values, from (seed, parameter, element) alone, as InitialValue says. With gpt2 the standard deviation of
// normal numbers is 0.02, and 0.02 / sqrt(2 n_layer) in the two projections that write to the residual stream. With
// zero_output these, and a head of its own, are zero; it is 1 in tables, and 0.5 / sqrt(n_embd) in the other matrices.
// short_run is the same but for convolutions, 0.5 instead of zero, and c_fc, 1 / sqrt(n_embd).
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

 private:
  friend std::vector<GptParameter> list_parameters(const GptShape& shape);
  GptWeights() = default;
};

}  // namespace inkling
