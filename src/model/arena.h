// All parameters of a model in one flat piece of memory, of which the model has views. The optimizer, clipping,
// gradient reduction and the checkpoint each make one pass over it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/weights.h"

namespace inkling {

// Parameters that an optimizer may treat alike, in the arena's order: tables that are looked up (a tied head's is one),
// hidden matrices, an output head of its own, and vectors (biases, norms), which never decay.
enum class ParameterGroup { embedding, matrix, head, vector };
inline constexpr std::array all_parameter_groups = {ParameterGroup::embedding, ParameterGroup::matrix,
                                                    ParameterGroup::head, ParameterGroup::vector};
std::string_view group_name(ParameterGroup group);  // "embedding"

// Normal numbers too, but of other deviations: `widening` of the first matrix of an MLP, `residual` of those that write
// to the residual stream, and `conv` of convolutions, for which it may be 0.
enum class InitialValue { normal, widening, residual, conv, zeros, ones };

struct ParameterSpec {
  std::string name;  // Hugging Face's: "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;
  ParameterGroup group = ParameterGroup::matrix;
  std::vector<std::int64_t> columns = {};  // of the matrices that stand side by side in it; empty: it is one matrix
  InitialValue initial = InitialValue::normal;
};

// Where a parameter lies, in elements from the start of the arena.
struct Parameter {
  ParameterSpec spec;
  std::int64_t offset = 0;
  std::int64_t count = 0;

  // Returns the view of a tensor [arena.size()], or of one that begins at element `begin` of the arena, that lies
  // there, in the parameter's shape.
  at::Tensor part_of(const at::Tensor& flat, std::int64_t begin = 0) const {
    return flat.narrow(0, offset - begin, count).view(spec.shape);
  }
};

// Elements [begin, end) of the arena.
struct ParameterRange {
  std::int64_t begin = 0, end = 0;

  std::int64_t count() const { return end - begin; }
};

// Elements of the arena that a rank keeps something for: ascending ranges. What it keeps is flat, one range behind the
// other, without what lies between them.
struct ParameterRanges {
  std::vector<ParameterRange> ranges;

  std::int64_t count() const;
  void add(const ParameterRange& next);                    // behind all others; joins the last if nothing is between
  ParameterRanges within(const ParameterRange& of) const;  // what of them lies there
  std::int64_t place_of(std::int64_t element) const;       // of one of them, in what is kept
  at::Tensor part_of(const at::Tensor& kept, const ParameterRange& part) const;  // `part`: of one range
};

// Where each parameter lies. Those of a group stand together, in the order of `specs`, so that each group is one
// contiguous range. Every parameter begins at a multiple of 16 elements (64 bytes); the gaps stay zero.
class ParameterLayout {
 public:
  explicit ParameterLayout(const std::vector<ParameterSpec>& specs);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& parameter(std::string_view name) const;  // Error internal if there is none
  std::int64_t parameter_count() const;                     // elements, gaps not counted
  std::int64_t size() const { return size_; }               // elements, gaps counted
  ParameterRange range(ParameterGroup group) const { return ranges_[static_cast<std::size_t>(group)]; }
  std::int64_t end_of(std::size_t parameter) const;  // where the next one begins
  // Returns the arena in pieces of elements_of_block (runtime/parallel.h): what norms are summed over and updates are
  // shared out by. The last piece of a group, and of each hidden matrix, is shorter.
  std::vector<ParameterRange> blocks() const;

 private:
  std::vector<Parameter> parameters_;
  std::array<ParameterRange, all_parameter_groups.size()> ranges_;
  std::int64_t size_ = 0;
};

// The dtype in which gradients are written: that of the weights, by autograd, or always float32, by the fused
// operations. A model that is not trained has none.
enum class Gradients { none, as_weights, in_float32 };

class ParameterArena : public ParameterLayout {
 public:
  // Values start at zero. compute_dtype is what the math reads: float32, or bfloat16 beside the float32 master values.
  // owned: of ranks of which each updates a part, what this one keeps the master values of, where there are copies to
  // compute with; none: all. values() are on the CPU then, for who fills or saves all of them, until they are given up.
  // They begin with zeros, and refresh_compute() takes from them what is kept.
  ParameterArena(const std::vector<ParameterSpec>& specs, at::Device device, at::ScalarType compute_dtype,
                 Gradients gradients, const std::optional<ParameterRanges>& owned = {});

  // Returns an arena over the same values, with gradients of its own: for a pass that another thread makes meanwhile.
  std::unique_ptr<ParameterArena> with_own_gradients() const;

  // [size] float32: the master values, until they are released; undefined where others keep some of them.
  at::Tensor values() const { return values_; }
  at::Tensor gradients() const { return gradients_; }            // [size] float32; undefined without gradients
  at::Tensor compute_values() const { return compute_values_; }  // [size]: what the math reads; may be values()

  // Returns what the model computes with: a view in the compute dtype, and where its gradient is added up.
  Weight weight(std::string_view name) const;
  at::Tensor master(std::string_view name) const;              // a view of values()
  at::Tensor master(const ParameterRange& part) const;         // flat, of what is kept here
  at::Tensor master_within(const ParameterRange& part) const;  // the same with zeros where others keep it
  // Whether master values and what the math reads are two things.
  bool has_copies() const { return !compute_values_.is_same(values_); }

  // Call begin_gradients() before a step's first backward pass and collect_gradients() after each. Operations that
  // write float32 gradients learn from Weight::begin_write() who is first, so only vectors are set to zero.
  void begin_gradients();
  void collect_gradients();         // adds the compute dtype's gradients to gradients(), where they are separate
  void zero_unwritten_gradients();  // sets those to zero that no pass has written since begin_gradients()

  // Of biases, norms and whatever else is added or multiplied element by element: their device and dtype.
  at::TensorOptions vector_options() const;

  // To be called after values(), or master values, changed: copies them to the compute dtype.
  void refresh_compute();

  bool keeps_all() const { return !kept_values_.defined(); }
  at::Tensor kept_values() const { return kept_values_; }  // flat, one range behind the other
  void set_values(at::Tensor values) { values_ = std::move(values); }
  void give_up_values();  // does nothing where all are kept

  // For a model that is not trained, before weight() is called: gives up values(), and keeps vectors (biases, norms) in
  // `dtype`, that of what flows through the model.
  void release_master(at::ScalarType dtype);

 private:
  ParameterArena(const ParameterArena& shared, at::Tensor gradients);

  at::Tensor values_, gradients_;
  ParameterRanges owned_;                          // what is kept of the values, unless that is all
  at::Tensor kept_values_;                         // of these
  at::Tensor compute_values_, compute_gradients_;  // the same as the two above where the compute dtype is float32
  at::Tensor vectors_;                             // the group `vector`, where release_master() has set it apart
  bool writers_ask_ = false;                       // whether the operations that write gradients call begin_write()
  std::unique_ptr<bool[]> fresh_;                  // by parameter: what Weight::is_fresh points to
};

}  // namespace inkling
