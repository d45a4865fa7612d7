// The model on fused operations: embeddings, blocks of attention and MLP, an output head (Radford et al. 2019, and what
// has changed since, as GptShape says).
#pragma once

#include "model/model.h"
#include "model/operations.h"

namespace inkling {

class Gpt final : public Model {
 public:
  // The arena must outlive the model.
  Gpt(const GptShape& shape, const ParameterArena& arena, const Backend& backend);

  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets, const TrainingPass& training) const override;
  at::Tensor logits(const at::Tensor& tokens) const override;
  void prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache) const override;
  at::Tensor decode(const at::Tensor& tokens, KeyValueCache& cache) const override;

  // Returns what training passes over `rows` tokens hold beside the weights, summed over the operations.
  static TrainingBytes activation_bytes(const GptShape& shape, const Backend& backend, std::int64_t rows,
                                        at::ScalarType dtype, const TrainingPass& training, bool has_positions);
  // The same on a GPU.
  static TrainingBytes bytes_on_gpu(const GptShape& shape, const Runtime& runtime, std::int64_t rows,
                                    const TrainingPass& training, bool has_positions);

 private:
  ResidualStream embed(const at::Tensor& tokens, Pass& pass) const;
  ResidualStream block(const ResidualStream& in, std::size_t layer, Pass& pass) const;
  ResidualStream after_attention(const at::Tensor& x, const at::Tensor& heads, std::size_t layer, Pass& pass) const;
  ResidualStream after_mlp(const at::Tensor& x, const at::Tensor& seen, std::size_t layer, Pass& pass) const;
  ResidualStream decode_composed(const ResidualStream& in, std::size_t layer, const KeyValueCache& cache,
                                 const Rotation& rotation) const;
  at::Tensor hidden(const at::Tensor& tokens, Pass& pass) const;

  GptWeights weights_;
};

}  // namespace inkling
