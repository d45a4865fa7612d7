// A language model that can be trained and asked. There are two: Gpt, on the backend's fused operations, and Reference,
// in LibTorch's own. A run chooses one of them once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "model/arena.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "runtime/device.h"

namespace inkling {

// What training adds to a forward pass.
struct TrainingPass {
  double dropout = 0.0;         // probability of dropping
  at::Tensor dropout_key = {};  // int64 [1] on the device; dropout_key() of the micro-batch
  Recompute recompute = Recompute::none;
};

class Model {
 public:
  Model(const GptShape& shape, const Backend& backend) : shape_(shape), backend_(backend) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const GptShape& shape() const { return shape_; }
  const Backend& backend() const { return backend_; }

  // Mean cross-entropy in nats per scored token: a float32 scalar with a gradient. tokens, targets: int64 [B, T],
  // T <= block_size; a target of not_scored does not count.
  virtual at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets,
                          const TrainingPass& training = {}) const = 0;

  // [B, T] -> [B, T, V]. Rows padded at their end give what each gives alone: nothing looks ahead.
  virtual at::Tensor logits(const at::Tensor& tokens) const = 0;

  // Runs the beginnings of texts into an empty cache. tokens: int64 [B, T], rows padded at their end; lengths: int64
  // [B].
  virtual void prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache) const = 0;

  // One more token per row. tokens: int64 [B]; every cached length below block_size -> the logits behind it, [B, V].
  virtual at::Tensor decode(const at::Tensor& tokens, KeyValueCache& cache) const = 0;

 private:
  GptShape shape_;
  const Backend& backend_;
};

// The arena of a model that is trained, or that is only asked, and the model over it, as `runtime` says: this is where
// fused or reference is chosen. The arena must outlive the model.
std::unique_ptr<ParameterArena> make_arena(const GptShape& shape, const Runtime& runtime, Use use);
std::unique_ptr<Model> make_model(const GptShape& shape, const ParameterArena& arena, const Runtime& runtime);

// The reference model, of model/reference.cpp.
std::unique_ptr<Model> make_reference(const GptShape& shape, const ParameterArena& arena, const Backend& backend);

// Error input for a setting of training.recompute that the model which `runtime` means does not support.
void check_recompute(Recompute recompute, double dropout, const Runtime& runtime);

// What training holds, in bytes: the sum of what the model's parts say they keep.
struct TrainingBytes {
  std::uint64_t weights = 0;      // with gradients and two moments
  std::uint64_t activations = 0;  // kept from the forward for the backward pass, in all layers
  std::uint64_t at_work = 0;      // what one layer holds while it runs
  std::uint64_t logits = 0;
};
// For passes over `rows` tokens each.
TrainingBytes training_bytes(const GptShape& shape, const Runtime& runtime, std::int64_t rows,
                             const TrainingPass& training);

}  // namespace inkling
