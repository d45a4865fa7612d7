// Takes one new token of each of a few rows through a whole block of the model. Most of the time goes into reading the
// weights; they pass through the caches and push out everything else, so that between two matrices every array and
// every instruction has to come from memory again. Therefore there is one parallel region and little code.
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <memory>

#include "backend/cpu_backend.h"
#include "backend/elements.h"
#include "kernels/cpu_kernels.h"
#include "runtime/parallel.h"

namespace inkling::cpu {
namespace {

// A vector in float32, and a pointer to its elements.
struct FloatVector {
  explicit FloatVector(const Weight& weight) : tensor(in_float32(weight)), at(floats(tensor)) {}

  at::Tensor tensor;
  const float* at;  // null if there is none
};

// A matrix [inner, columns], in one of two dtypes, and its bias.
struct Matrix {
  explicit Matrix(const LinearWeights& weights)
      : inner(weights.weight.value.size(0)), columns(weights.weight.value.size(1)), bias(weights.bias) {
    if (weights.weight.value.scalar_type() == at::kBFloat16) {
      bfloat16 = elements<std::uint16_t>(weights.weight.value);
    } else {
      float32 = floats(weights.weight.value);
    }
  }

  std::int64_t inner, columns;
  FloatVector bias;
  const float* float32 = nullptr;
  const std::uint16_t* bfloat16 = nullptr;
};

// A convolution, and the last inputs of each row, or nothing.
struct Conv {
  Conv(const Weight& weight, const at::Tensor& last_inputs)
      : lines(weight), inputs(floats(last_inputs)), width(weight.defined() ? weight.value.size(0) : 0) {}

  FloatVector lines;  // [width, C]
  float* inputs;      // [B, width, C]
  std::int64_t width;
};

struct Norm {
  explicit Norm(const NormWeights& weights) : weight(weights.weight), bias(weights.bias), form(weights.form) {}

  FloatVector weight, bias;
  NormForm form;
};

// One block's step, shared by all threads.
class BlockStep {
 public:
  BlockStep(const ResidualStream& in, const DecodedBlock& block, const ResidualStream& out)
      : rows_(in.x.size(0)),
        channels_(in.x.size(-1)),
        heads_(block.form),
        cosines_(floats(block.rotation.cosines)),
        sines_(floats(block.rotation.sines)),
        activation_(block.weights.mlp.activation),
        c_attn_(block.weights.c_attn),
        c_proj_(block.weights.c_proj),
        c_fc_(block.weights.mlp.c_fc),
        mlp_c_proj_(block.weights.mlp.c_proj),
        conv_1_(block.weights.conv_1, block.cache.conv_inputs[0]),
        conv_2_(block.weights.conv_2, block.cache.conv_inputs[1]),
        q_norm_(block.weights.q_norm),
        k_norm_(block.weights.k_norm),
        inner_norm_(block.weights.ln_2),
        outer_norm_(block.next_norm),
        keys_(floats(block.cache.keys)),
        values_(floats(block.cache.values)),
        capacity_(block.cache.keys.size(2)),
        lengths_(elements<std::int64_t>(block.lengths)),
        x_(floats(in.x)),
        normed_(floats(in.normed)),
        sum_(floats(out.x)),
        sum_normed_(floats(out.normed)),
        longest_(std::min(capacity_, *std::max_element(lengths_, lengths_ + rows_) + 1)) {
    const std::int64_t parts = at::get_num_threads();
    share_size_ = rows_ * std::max(heads_.packed(), std::max(channels_, c_fc_.columns));
    part_size_ = rows_ * (channels_ + 2) + std::max(longest_, c_fc_.columns);
    const std::int64_t inner = mlp_c_proj_.inner, product = std::max(heads_.queries(), channels_);
    memory_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(
        2 * parts * share_size_ + parts * part_size_ + rows_ * (product + heads_.queries() + inner)));
    shares_[0] = memory_.get();
    shares_[1] = shares_[0] + parts * share_size_;
    part_memory_ = shares_[1] + parts * share_size_;
    queries_ = part_memory_ + parts * part_size_;
    attended_ = queries_ + rows_ * product;
    wide_ = attended_ + rows_ * heads_.queries();
  }

  // What thread `part` of `parts` does. Products are split by the lines of the matrix: a thread's share is the sum over
  // its own lines. The shares are complete once all threads have been waited for.
  void run(std::int64_t part, std::int64_t parts) {
    const auto own = [&](std::int64_t n) { return part_of(n, part, parts); };
    float* const normed = part_memory_ + part * part_size_;
    float* const statistics = normed + rows_ * channels_;
    float* const scores = statistics + 2 * rows_;

    multiply(c_attn_, convolved(conv_1_, normed_, own(channels_), normed), 0, part, own(channels_));
    wait_for_all_threads();
    attend(own(rows_ * heads_.n_kv_head), parts, scores);
    wait_for_all_threads();
    multiply(c_proj_, attended_, 1, part, own(heads_.queries()));
    wait_for_all_threads();
    add_product(c_proj_, x_, 1, parts, own(channels_));
    wait_for_all_threads();
    normalize(inner_norm_, normed, statistics);  // every thread for itself
    multiply(c_fc_, convolved(conv_2_, normed, own(channels_), normed), 0, part, own(channels_));
    wait_for_all_threads();
    widen(own(mlp_c_proj_.inner), parts, scores);
    multiply(mlp_c_proj_, wide_, 1, part, own(mlp_c_proj_.inner));
    wait_for_all_threads();
    add_product(mlp_c_proj_, sum_, 1, parts, own(channels_));
    wait_for_all_threads();
    if (part == 0) normalize(outer_norm_, sum_normed_, statistics);
  }

 private:
  float* share(int which, std::int64_t part) const { return shares_[which] + part * share_size_; }

  // Returns x where there is no convolution; else `out`, of which only these channels are written. out may be x.
  const float* convolved(const Conv& conv, const float* x, Range channels, float* out) const {
    if (conv.inputs == nullptr) return x;
    for (std::int64_t row = 0; row < rows_; ++row) {
      cpu_kernels().conv_cached(x + row * channels_, conv.inputs + row * conv.width * channels_, conv.lines.at,
                                out + row * channels_, lengths_[row], channels_, conv.width, channels.begin,
                                channels.end);
    }
    return out;
  }

  void multiply(const Matrix& matrix, const float* x, int which, std::int64_t part, Range lines) const {
    if (matrix.bfloat16 != nullptr) {
      cpu_kernels().rows_times_lines_bfloat16(x, matrix.bfloat16, share(which, part), rows_, matrix.inner,
                                              matrix.columns, lines.begin, lines.end);
    } else {
      cpu_kernels().rows_times_lines(x, matrix.float32, share(which, part), rows_, matrix.inner, matrix.columns,
                                     lines.begin, lines.end);
    }
  }

  // Writes some columns of the product with its bias, from the shares of all threads, in order.
  void sum_shares(const Matrix& matrix, int which, std::int64_t parts, std::int64_t row, Range columns,
                  float* out) const {
    const float* const bias = matrix.bias.at;
    const std::int64_t offset = row * matrix.columns;
    for (std::int64_t j = columns.begin; j < columns.end; ++j) {
      float sum = share(which, 0)[offset + j];
      for (std::int64_t part = 1; part < parts; ++part) sum += share(which, part)[offset + j];
      out[j - columns.begin] = bias == nullptr ? sum : sum + bias[j];
    }
  }

  // Completes the new key and value of some of all rows' heads of them, and the queries that share them, and attends.
  void attend(Range shared_heads, std::int64_t parts, float* scores) const {
    const std::int64_t size = heads_.head_size;
    for (std::int64_t i = shared_heads.begin; i < shared_heads.end; ++i) {
      const std::int64_t row = i / heads_.n_kv_head, number = i % heads_.n_kv_head;
      const CachedPlace cached = cached_place(heads_.pattern, capacity_, lengths_[row]);
      float *const keys = keys_ + i * capacity_ * size, *const values = values_ + i * capacity_ * size;
      const auto complete = [&](std::int64_t head, float* target) {  // of the packed heads of this row
        sum_shares(c_attn_, 0, parts, row, {head * size, (head + 1) * size}, target);
      };
      const auto complete_query_or_key = [&](std::int64_t head, const Norm& norm, float* target) {
        complete(head, target);
        if (norm.weight.at != nullptr) {
          float statistics[2];
          cpu_kernels().norm_forward(target, nullptr, target, target, statistics, statistics + 1, norm.weight.at,
                                     nullptr, norm.form, 1, size);
        }
        if (cosines_ == nullptr) return;
        const AngleTable angles = {.cosines = cosines_ + row * size / 2, .sines = sines_ + row * size / 2};
        cpu_kernels().rotate(target, target, angles, 0, 1, size, 1, size);
      };
      complete_query_or_key(heads_.n_head + number, k_norm_, keys + cached.slot * size);
      complete(heads_.n_head + heads_.n_kv_head + number, values + cached.slot * size);
      for (std::int64_t head = number * heads_.group(); head < (number + 1) * heads_.group(); ++head) {
        const std::int64_t place = (row * heads_.n_head + head) * size;
        complete_query_or_key(head, q_norm_, queries_ + place);
        cpu_kernels().attend_cached(queries_ + place, keys + cached.first * size, values + cached.first * size,
                                    attended_ + place, scores, cached.count, size, size);
      }
    }
  }

  // sum = x + product, for some columns.
  void add_product(const Matrix& matrix, const float* x, int which, std::int64_t parts, Range columns) const {
    for (std::int64_t row = 0; row < rows_; ++row) {
      float* const product = queries_ + columns.begin;  // which nobody needs any more
      sum_shares(matrix, which, parts, row, columns, product);
      const std::int64_t first = row * channels_ + columns.begin;
      for (std::int64_t j = 0; j < columns.end - columns.begin; ++j) sum_[first + j] = x[first + j] + product[j];
    }
  }

  void normalize(const Norm& norm, float* out, float* statistics) const {
    cpu_kernels().norm_forward(sum_, nullptr, sum_, out, statistics, statistics + rows_, norm.weight.at, norm.bias.at,
                               norm.form, rows_, channels_);
  }

  // Writes some columns of what the activation gives. before: room for as many, twice if it is gated.
  void widen(Range columns, std::int64_t parts, float* before) const {
    const std::int64_t inner = mlp_c_proj_.inner, count = columns.end - columns.begin;
    for (std::int64_t row = 0; row < rows_; ++row) {
      sum_shares(c_fc_, 0, parts, row, columns, before);
      if (is_gated(activation_)) {
        sum_shares(c_fc_, 0, parts, row, {inner + columns.begin, inner + columns.end}, before + count);
      }
      cpu_kernels().activation_forward(before, nullptr, wide_ + row * inner + columns.begin, activation_, 1, count);
    }
  }

  std::int64_t rows_, channels_;
  AttentionForm heads_;
  const float *cosines_, *sines_;  // [B, D/2], or null
  Activation activation_;
  Matrix c_attn_, c_proj_, c_fc_, mlp_c_proj_;
  Conv conv_1_, conv_2_;
  Norm q_norm_, k_norm_, inner_norm_, outer_norm_;
  float *keys_, *values_;  // [B, n_kv_head, capacity, D]
  std::int64_t capacity_;
  const std::int64_t* lengths_;
  const float *x_, *normed_;
  float *sum_, *sum_normed_;
  std::int64_t longest_;
  std::int64_t share_size_, part_size_;
  std::unique_ptr<float[]> memory_;
  float* shares_[2];    // [parts, share_size]: those of one product are read while those of the next are written
  float* part_memory_;  // [parts, part_size]: of each thread alone
  float *queries_, *attended_, *wide_;
};

}  // namespace

ResidualStream decode_block(const ResidualStream& in, const DecodedBlock& block) {
  const ResidualStream out = {at::empty_like(in.x), at::empty_like(in.normed)};
  BlockStep step(in, block, out);
  in_all_threads([&](std::int64_t part, std::int64_t parts) { step.run(part, parts); });
  return out;
}

}  // namespace inkling::cpu
