// All parameters of a model in one flat piece of memory; modules hold views. The optimizer, clipping, gradient
// reduction and the checkpoint are each one pass over it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/context.h"

namespace inkling {

struct ParameterSpec {
  std::string name;  // Hugging Face's: "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;
  bool decay = false;  // weight decay applies: matrices
};

// Where a parameter lies, in elements from the start of the arena.
struct Parameter {
  ParameterSpec spec;
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

// Decayed parameters come first, so that each half is one contiguous range; within a half the order of `specs`.
// Every parameter begins at a multiple of 16 elements (64 bytes); the gaps stay zero.
class ParameterLayout {
 public:
  explicit ParameterLayout(const std::vector<ParameterSpec>& specs);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& parameter(std::string_view name) const;  // Error internal if there is none
  std::int64_t parameter_count() const;                     // elements, gaps not counted
  std::int64_t size() const { return size_; }               // elements, gaps counted
  std::int64_t decay_end() const { return decay_end_; }     // [0, decay_end) is decayed

 private:
  std::vector<Parameter> parameters_;
  std::int64_t size_ = 0;
  std::int64_t decay_end_ = 0;
};

// Of what dtype the gradients of a model are that is trained: of that of its weights, as autograd makes them, or
// float32 whatever the weights are, as the fused operations write them.
enum class Gradients { none, as_weights, in_float32 };

class ParameterArena : public ParameterLayout {
 public:
  // Values start at zero. compute_dtype is what the math reads: float32, or bfloat16 beside the float32 master values.
  ParameterArena(const std::vector<ParameterSpec>& specs, at::Device device, at::ScalarType compute_dtype,
                 Gradients gradients);

  at::Tensor values() const { return values_; }        // [size] float32: the master values, until they are released
  at::Tensor gradients() const { return gradients_; }  // [size] float32; undefined without gradients
  at::Tensor compute_values() const { return compute_values_; }  // [size]: what the math reads; may be values()

  // What the model computes with: a view in the compute dtype, and where its gradient is added up.
  Weight weight(std::string_view name) const;
  at::Tensor master(std::string_view name) const;  // float32 view

  void zero_gradients();
  // Enough before a pass with Context::overwrites, which writes the gradients of matrices.
  void zero_vector_gradients();
  void collect_gradients();  // after a backward pass: adds the compute dtype's gradients to gradients()
  void refresh_compute();    // after values() changed: copies them to the compute dtype
  // For a model that is only read, before weight() is asked for: gives values() back, and keeps vectors (biases, norms)
  // in `dtype`, that of what flows through the model.
  void release_master(at::ScalarType dtype);

 private:
  at::Tensor view(const at::Tensor& flat, const Parameter& parameter) const;

  at::Tensor values_, gradients_;
  at::Tensor compute_values_, compute_gradients_;  // the two above where the compute dtype is float32
  at::Tensor vectors_;                             // from decay_end() on, if they are kept apart
};

}  // namespace inkling
