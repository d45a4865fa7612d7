// The CPU's inner loops: raw pointers, one thread, rows [0, rows). backend/cpu splits the rows over threads.
// Each loop exists once, in kernels/cpu, and is compiled for every instruction set below; the best one that this
// machine can run, or the one that INKLING_INSTRUCTION_SET names, is chosen when the program starts, so a binary built
// here runs on any x86-64. Arrays are contiguous, row-major float32 where nothing else is said. These loops are the
// specification of the CUDA kernels of the same name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/kernel_settings.h"

namespace inkling {

// One head's queries, keys and values, [T, D] each, with rows `row` floats apart (AttentionForm::packed() where they
// are packed in one tensor); its output and the gradient of that have rows out_row floats apart.
struct AttentionHead {
  const float* queries = nullptr;
  const float* keys = nullptr;
  const float* values = nullptr;
  std::int64_t row = 0, out_row = 0;
  std::int64_t time = 0, head_size = 0;
  std::int64_t window = AttentionPattern::everything;  // how many keys a query sees at most: its own, and the newest
  bool is_first_of_group =
      true;  // the gradients of keys and values are written; added, for later heads that share them
  // Dropout of the probabilities: the element of two positions of the text has the random number of place
  // (index * text + query) * text + key. Row n is position first + n * step.
  std::int64_t index = 0, text = 0, first = 0, step = 1;
  std::uint64_t dropout_key = 0;
  std::uint32_t dropout_threshold = 0;  // 0: none
  float dropout_scale = 1.0f;
};

// The cosines and sines of the angles by which D/2 pairs turn, [rows, D/2]. Row n of what is rotated has row n % rows.
struct AngleTable {
  const float* cosines = nullptr;
  const float* sines = nullptr;
  std::int64_t rows = 1;
  float sign = 1.0f;  // -1: back, which is also the gradient
};

struct CpuKernels {
  const char* name;  // "avx512", "avx2", "baseline"

  // sum = x + branch (branch may be null: then sum must be x itself), out = (sum - mean) * rstd * weight + bias. For
  // RMSNorm the mean counts as 0. x, branch, sum, out: [rows, C]; mean, rstd: [rows]; weight, bias: [C], bias may be
  // null.
  void (*norm_forward)(const float* x, const float* branch, float* sum, float* out, float* mean, float* rstd,
                       const float* weight, const float* bias, const NormForm& form, std::int64_t rows,
                       std::int64_t channels);
  // dx = d(loss)/d(sum) given dout, plus dsum (the gradient that reaches sum on the residual path; may be null).
  // Adds to dweight and dbias ([C], either may be null).
  void (*norm_backward)(const float* dout, const float* dsum, const float* sum, const float* mean, const float* rstd,
                        const float* weight, float* dx, float* dweight, float* dbias, const NormForm& form,
                        std::int64_t rows, std::int64_t channels);

  // pre += bias (may be null), out = activation(pre). out: [rows, C]; pre, bias: as wide, or 2 C where it is gated.
  void (*activation_forward)(float* pre, const float* bias, float* out, Activation activation, std::int64_t rows,
                             std::int64_t channels);
  // dpre = dout * activation'(pre). dout: [rows, C]; dpre may be dout unless the activation is gated. Adds the column
  // sums of dpre to dbias (may be null).
  void (*activation_backward)(const float* dout, const float* pre, float* dpre, float* dbias, Activation activation,
                              std::int64_t rows, std::int64_t channels);

  // Causal attention (Vaswani et al. 2017, with scores / sqrt(D)). out: [T, D]; logsumexp: [T], of each query's scores.
  // scratch: attention_scratch() floats. Time follows the window: tiles outside are not visited.
  void (*attention_forward)(const AttentionHead& head, float* out, float* logsumexp, float* scratch);
  // Writes the gradients of queries, keys and values (or adds those of a later head), whose rows are head.row apart.
  void (*attention_backward)(const AttentionHead& head, const float* out, const float* logsumexp, const float* dout,
                             float* dqueries, float* dkeys, float* dvalues, float* scratch);
  std::int64_t (*attention_scratch)(std::int64_t time, std::int64_t head_size, std::int64_t window);

  // Softmax and cross-entropy of each row of logits [rows, V] (overwritten by (softmax - onehot) * scale).
  // Returns the sum over rows of -log softmax[target], in nats. A target below 0 is not scored: its row becomes 0. With
  // a softcap above 0 the softmax is that of softcap * tanh(logits / softcap).
  double (*cross_entropy)(float* logits, const std::int64_t* targets, float scale, float softcap, std::int64_t rows,
                          std::int64_t vocabulary);

  // out[n] = token_table[tokens[n]] + position_table[n % time]. out: [rows, C]; tables: [V, C], [block, C], of
  // which the second may be null, here and below.
  void (*embedding_forward)(const std::int64_t* tokens, const float* token_table, const float* position_table,
                            float* out, std::int64_t first_row, std::int64_t rows, std::int64_t time,
                            std::int64_t channels);
  // Adds dout to the rows of both tables' gradients, columns [first, last), in the order of the rows: deterministic
  // however the columns are split over threads.
  void (*embedding_backward)(const std::int64_t* tokens, const float* dout, float* dtokens, float* dpositions,
                             std::int64_t rows, std::int64_t time, std::int64_t channels, std::int64_t first,
                             std::int64_t last);

  // Rotates the first `heads` heads of rows that are `stride` floats apart, pairs (i, i + D/2) (Su et al. 2021), and
  // copies the rest; out may be in.
  void (*rotate)(const float* in, float* out, const AngleTable& angles, std::int64_t first_row, std::int64_t rows,
                 std::int64_t stride, std::int64_t heads, std::int64_t head_size);

  // out[n] = x[n] + the sum over k of weight[k] * x[n - k], for the positions k < width back that the row's text has.
  // Row n is position positions[n] of its document or, where positions is null, n % time. x, out: [rows, C]; weight:
  // [width, C].
  void (*conv_forward)(const float* x, const float* weight, const std::int64_t* positions, float* out,
                       std::int64_t first_row, std::int64_t rows, std::int64_t time, std::int64_t channels,
                       std::int64_t width);
  // Reads rows of dout behind its own, up to the end of their text. Adds to dweight [width, C].
  void (*conv_backward)(const float* dout, const float* x, const float* weight, const std::int64_t* positions,
                        float* dx, float* dweight, std::int64_t first_row, std::int64_t rows, std::int64_t time,
                        std::int64_t channels, std::int64_t width);
  // The same for the token at `position` of one text, whose last inputs lie in a ring [width, C]: position p at
  // p % width. x, out: [C], of which channels [first, last) are read and written; out may be x.
  void (*conv_cached)(const float* x, float* inputs, const float* weight, float* out, std::int64_t position,
                      std::int64_t channels, std::int64_t width, std::int64_t first, std::int64_t last);

  // Adds the column sums of x [rows, C] to sums [C].
  void (*add_column_sums)(const float* x, float* sums, std::int64_t rows, std::int64_t channels);

  // One AdamW step on n values (Loshchilov, Hutter 2019, equation 12).
  void (*adamw)(float* value, const float* gradient, float* moment1, float* moment2, const AdamWSettings& settings,
                std::int64_t n);
  // The two ends of a Muon step on n values (Jordan et al. 2024), with g = clip * gradient:
  //   momentum = memory * momentum + g,  update = g + memory * momentum (Nesterov's form)
  // and, when the update has been made orthogonal:
  //   value = value * (1 - learning_rate * weight_decay) - learning_rate * update
  void (*muon_momentum)(float* momentum, const float* gradient, float* update, float memory, float clip,
                        std::int64_t n);
  void (*muon_step)(float* value, const float* update, float learning_rate, float weight_decay, std::int64_t n);
  void (*add)(float* sums, const float* x, std::int64_t n);  // sums += x
  double (*sum_of_squares)(const float* x, std::int64_t n);

  // x[i] *= keep(i) ? scale : 0, where keep(i) is random_bits(key, first + i) >> 32 >= threshold.
  void (*dropout)(float* x, std::uint64_t key, std::uint64_t first, std::uint32_t threshold, float scale,
                  std::int64_t n);

  // out[r, j] = sum over k in [first, last) of x[r, k] * weight[k, j]: these lines' share of the product with weight
  // [inner, columns]. The order of the sum depends on first and last, not on the other rows: a row's bits are its own.
  void (*rows_times_lines)(const float* x, const float* weight, float* out, std::int64_t rows, std::int64_t inner,
                           std::int64_t columns, std::int64_t first, std::int64_t last);
  // With a weight in bfloat16 (its bits): the sums are float32's all the same, and half the bytes are read.
  void (*rows_times_lines_bfloat16)(const float* x, const std::uint16_t* weight, float* out, std::int64_t rows,
                                    std::int64_t inner, std::int64_t columns, std::int64_t first, std::int64_t last);
  // out[r, j] = sum over k of x[r, k] * weight[j, k], for columns [first, last) of the product with weight [columns,
  // inner].
  void (*rows_times_transposed)(const float* x, const float* weight, float* out, std::int64_t rows, std::int64_t inner,
                                std::int64_t columns, std::int64_t first, std::int64_t last);
  void (*rows_times_transposed_bfloat16)(const float* x, const std::uint16_t* weight, float* out, std::int64_t rows,
                                         std::int64_t inner, std::int64_t columns, std::int64_t first,
                                         std::int64_t last);
  // Attention of one query over `length` cached keys and values ([length, D], rows `stride` floats apart).
  // scores is scratch of `length` floats.
  void (*attend_cached)(const float* query, const float* keys, const float* values, float* out, float* scores,
                        std::int64_t length, std::int64_t stride, std::int64_t head_size);
};

// What the whole process computes with: the best of all_cpu_kernels(), or the one that the environment variable
// INKLING_INSTRUCTION_SET names. Error environment where this processor does not have it.
const CpuKernels& cpu_kernels();

// Every instruction set that this processor can run, the best first.
std::span<const CpuKernels* const> all_cpu_kernels();

// The names of all that were compiled, the best first, whether this processor can run them or not.
std::span<const std::string_view> compiled_instruction_sets();

// One of all_cpu_kernels() by its name. Error environment, which names them, where it is none of them.
const CpuKernels& cpu_kernels_named(std::string_view name);

}  // namespace inkling
