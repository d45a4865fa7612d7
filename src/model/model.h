// A language model to train and generate with: Gpt, on the backend's fused operations, or Reference, in LibTorch's own.
// A run chooses one of them once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/heads.h"
#include "model/arena.h"
#include "model/operations.h"
#include "model/parameters.h"
#include "runtime/device.h"

namespace inkling {

// The keys and values of texts that are being generated, and what their convolutions still see.
struct KeyValueCache {
  KeyValueCache() = default;
  // Makes empty rows for texts of at most `positions` tokens; a layer keeps what its pattern still sees. options:
  // device and dtype of keys and values.
  KeyValueCache(const GptShape& shape, std::int64_t rows, std::int64_t positions, const at::TensorOptions& options);

  std::int64_t rows() const { return lengths.size(0); }

  // Takes over all that another one of as many rows holds.
  void copy_from(const KeyValueCache& other);

  // A view of the rows [first, first + count).
  KeyValueCache narrow(std::int64_t first, std::int64_t count) const;

  std::vector<CachedLayer> layers;
  at::Tensor lengths;  // int64 [B]: the positions that each row holds
};

// Returns which position each slot of a layer holds in rows of these lengths, by cached_place(): [B, capacity], below 0
// where none.
at::Tensor held_positions(const at::Tensor& lengths, const AttentionPattern& pattern, std::int64_t capacity);

// Writes the last of T inputs of a convolution, [B, T, C], into an empty ring; an undefined one stays.
void fill(const at::Tensor& conv_inputs, const at::Tensor& x, const at::Tensor& lengths);

// Writes keys and values of T positions, of which row b has lengths[b], into an empty layer.
void fill(const CachedLayer& layer, const AttentionPattern& pattern, const Heads& heads, const at::Tensor& lengths);

class Model {
 public:
  Model(const GptShape& shape, const Backend& backend) : shape_(shape), backend_(backend) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const GptShape& shape() const { return shape_; }
  const Backend& backend() const { return backend_; }

  // Returns the mean cross-entropy in nats per scored token: a float32 scalar with a gradient. tokens, targets: int64
  // [B, T], T <= block_size; a target of not_scored does not count.
  virtual at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets,
                          const TrainingPass& training = {}) const = 0;

  // Returns the logits of the token after each position: [B, T] -> [B, T, V]. Rows may be padded at their end: nothing
  // looks ahead, so each gives what it gives alone.
  virtual at::Tensor logits(const at::Tensor& tokens) const = 0;

  // Puts the keys and values of the beginnings of texts into an empty cache. tokens: int64 [B, T], rows padded at their
  // end; lengths: int64 [B], without the padding.
  virtual void prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache) const = 0;

  // Adds a token per row. tokens: int64 [B]; cached lengths below block_size, or any where text has no end
  // (GptShape::is_endless()) -> the logits of the token after it, [B, V].
  virtual at::Tensor decode(const at::Tensor& tokens, KeyValueCache& cache) const = 0;

 protected:
  // Returns logits, or bound * tanh(logits / bound) in float32 where the shape has a bound.
  at::Tensor capped(const at::Tensor& logits) const;

 private:
  GptShape shape_;
  const Backend& backend_;
};

// Returns the runtime that can compute a model of this shape: where the fused kernels of a GPU cannot, the reference
// model takes their place, which is logged, and so is each part that they decline. has_positions: that of
// training_bytes().
Runtime runtime_for(const GptShape& shape, const Runtime& runtime, bool has_positions = false);

// Whether products are LibTorch's: those of the reference model, and those of attention that the backend declines. (And
// on a GPU those that cublasLt lacks, which is not known before.)
bool multiplies_by_libtorch(const GptShape& shape, const Runtime& runtime, bool has_positions);

// Make the arena of a model, with gradients if it is to be trained, and the model over it, which the arena must
// outlive. `runtime` decides here between fused and reference; make_reference() is in model/reference.cpp.
std::unique_ptr<ParameterArena> make_arena(const GptShape& shape, const Runtime& runtime, Use use,
                                           const std::optional<ParameterRanges>& owned = {});
std::unique_ptr<Model> make_model(const GptShape& shape, const ParameterArena& arena, const Runtime& runtime);
std::unique_ptr<Model> make_reference(const GptShape& shape, const ParameterArena& arena, const Backend& backend);

// Whether training.recompute: block drops the same elements again.
bool can_recompute_blocks(double dropout, const Runtime& runtime);

// Throws Error input for a training.recompute that the model chosen by `runtime` does not support.
void check_recompute(const TrainingPass& training, const Runtime& runtime);

// Returns rows * elements * size, or 2^50 where that is more: a petabyte, past which no machine has memory and sums do
// not overflow.
std::uint64_t bytes_of(std::int64_t rows, std::int64_t elements, std::uint64_t size);

// What training holds, in bytes: the sum of what the model's parts say they keep.
struct TrainingBytes {
  std::uint64_t weights = 0;      // with gradients, and what is kept of each beside it
  std::uint64_t activations = 0;  // kept from the forward for the backward pass, in all layers
  std::uint64_t at_work = 0;      // of one layer while it runs
  std::uint64_t logits = 0;
  std::uint64_t libraries = 0;  // on a GPU: what CUDA's libraries work in, and what LibTorch takes beyond its tensors
  std::uint64_t under_way = 0;  // between the GPUs of ranks

  std::uint64_t total() const { return weights + activations + at_work + logits + libraries + under_way; }
};

// Returns what passes over `rows` tokens each hold, with TrainingPass::positions or without, and without what the
// optimizer keeps. On a GPU that is what LibTorch takes of its memory for them, and of logits and of one layer at work
// only the larger: the logits are gone when the last layer's backward pass begins, and their memory serves again.
TrainingBytes training_bytes(const GptShape& shape, const Runtime& runtime, std::int64_t rows,
                             const TrainingPass& training, bool has_positions);

// The one refusal for everybody who reads what a model answers.

// Throws Error diverged: logits, or log-probabilities, are NaN or infinite. A folder whose weights are not finite is
// not opened at all, so these weights are finite and too large. `to` is what the model was asked, where that has a
// name: "questions.jsonl:3".
[[noreturn]] void refuse_broken_answer(std::string_view to = {});

}  // namespace inkling
