// The CUDA twins of the loops in cpu_kernels.h, on device memory: same names, same meaning. Elements are float or
// bfloat16; what is computed with them, sums above all, is float32. Readable without CUDA's headers.
//
// Every function only queues its kernels on the stream: no waiting, no allocation, and what changes from step to step
// is read from device memory, so that a whole step can be captured in a CUDA graph. The same input gives the same bits:
// nothing is added up with atomics; attend_cached counts arriving blocks, and what it computes does not depend on their
// order. Arrays are contiguous and row-major; where their rows begin at multiples of 16 bytes, memory is read
// 16 bytes at a time. Gradients of weights are float32 and are added to. Numbers of rows are below 2^31.
#pragma once

#include <cstdint>

#include "kernels/kernel_settings.h"

namespace inkling {

struct BFloat16 {
  std::uint16_t bits;  // the upper half of a float32
};

// Heads of some tokens, as rows of head_size elements.
struct HeadRows {
  std::int64_t tokens, heads, head_size, stride;
};

using Stream = void*;  // a cudaStream_t; null is the default stream

// One AdamW step, in device memory; beside AdamWSettings, the largest norm of the gradient (0: any) in place of clip.
struct AdamWStep {
  float learning_rate, beta1, beta2, epsilon, weight_decay, max_norm, bias_correction1, bias_correction2;
};

// One Muon step, in device memory.
struct MuonStep {
  float learning_rate, momentum, weight_decay, max_norm;
};

// The longest row of a norm, and the largest head of attend_cached.
constexpr std::int64_t longest_norm = 8192, largest_cached_head = 1024;
// The most blocks that a grid may have along y, and along z.
constexpr std::int64_t largest_grid_yz = 65'535;

// Sizes of scratch. Scratch is written before it is read, so one array can serve every kernel of a stream.
constexpr std::int64_t column_parts = 256;
// Floats, for sums over the rows of [rows, C].
constexpr std::int64_t column_scratch(std::int64_t channels) { return column_parts * channels; }
// Floats, for norm_backward.
constexpr std::int64_t norm_scratch(std::int64_t channels) { return 2 * column_scratch(channels); }
// Doubles, for sum_of_squares.
constexpr std::int64_t square_parts = 1024;
// Rows, in the order of their tokens, whose gradients one warp adds up; and floats of scratch, for embedding_backward.
constexpr std::int64_t embedding_segment(std::int64_t rows) { return rows <= 512 * 32 ? 32 : (rows + 511) / 512; }
constexpr std::int64_t embedding_scratch(std::int64_t rows, std::int64_t channels) {
  return (rows + embedding_segment(rows) - 1) / embedding_segment(rows) * channels;
}
// Keys that one block attends to; and floats of scratch, for attend_cached.
constexpr std::int64_t attention_chunk = 64;
constexpr std::int64_t attend_scratch(std::int64_t batch, std::int64_t heads, std::int64_t head_size,
                                      std::int64_t block) {
  return batch * heads * ((block + attention_chunk - 1) / attention_chunk) * (head_size + 2);
}

// Each function: Error environment if the launch fails.
template <typename Element>
struct CudaKernels {
  // sum = x + branch (branch may be null: then sum is not written, and is x), out = (sum - mean) * rstd * weight +
  // bias. For RMSNorm the mean counts as 0. x, branch, sum, out: [rows, C], C at most longest_norm; mean, rstd: [rows];
  // weight, bias: [C], bias may be null.
  void (*norm_forward)(const Element* x, const Element* branch, Element* sum, Element* out, float* mean, float* rstd,
                       const Element* weight, const Element* bias, const NormForm& form, std::int64_t rows,
                       std::int64_t channels, Stream stream);
  // dx = d(loss)/d(sum) given dout, plus dsum (the gradient that reaches sum on the residual path; may be null).
  // Adds to dweight and dbias ([C], either may be null, dbias where dweight is). dx may be dout or dsum. scratch:
  // norm_scratch(C) floats.
  void (*norm_backward)(const Element* dout, const Element* dsum, const Element* sum, const float* mean,
                        const float* rstd, const Element* weight, Element* dx, float* dweight, float* dbias,
                        float* scratch, const NormForm& form, std::int64_t rows, std::int64_t channels, Stream stream);

  // The same for rows that are heads, without a branch, a bias or a dsum: row n is head n % heads of token n / heads,
  // and tokens begin `stride` elements apart in x, out, dout and dx.
  void (*norm_heads_forward)(const Element* x, Element* out, float* mean, float* rstd, const Element* weight,
                             const NormForm& form, const HeadRows& rows, Stream stream);
  void (*norm_heads_backward)(const Element* dout, const Element* x, const float* mean, const float* rstd,
                              const Element* weight, Element* dx, float* dweight, float* scratch, const NormForm& form,
                              const HeadRows& rows, Stream stream);

  // pre += bias (may be null), out = activation(pre). out: [rows, C]; pre, bias: as wide, or 2 C where it is gated.
  void (*activation_forward)(Element* pre, const Element* bias, Element* out, Activation activation, std::int64_t rows,
                             std::int64_t channels, Stream stream);
  // dpre = dout * activation'(pre). dout: [rows, C]; dpre may be dout unless the activation is gated. Adds the column
  // sums of dpre to dbias (may be null). scratch: column_scratch() floats for as many channels as dpre has.
  void (*activation_backward)(const Element* dout, const Element* pre, Element* dpre, float* dbias, float* scratch,
                              Activation activation, std::int64_t rows, std::int64_t channels, Stream stream);

  // Adds the column sums of x [rows, C] to sums [C]. scratch: column_scratch(C) floats.
  void (*add_column_sums)(const Element* x, float* sums, float* scratch, std::int64_t rows, std::int64_t channels,
                          Stream stream);

  // Softmax and cross-entropy of each row of logits [rows, stride]: the first `vocabulary` columns, which are
  // overwritten by (softmax - onehot) * scale; the columns after them are overwritten by 0. losses: [rows], in nats. A
  // target below 0 is not scored: its row and its loss become 0. Targets are below `vocabulary`; scale: one float on
  // the device. With a softcap above 0 the softmax is that of softcap * tanh(logits / softcap).
  void (*cross_entropy)(Element* logits, const std::int64_t* targets, float* losses, const float* scale, float softcap,
                        std::int64_t rows, std::int64_t vocabulary, std::int64_t stride, Stream stream);

  // out[n] = token_table[tokens[n]] + position_table[positions[n]]; positions may be null: then they are n % time.
  // out: [rows, C]; tables: [V, C], [block, C], of which the second may be null, here and below.
  void (*embedding_forward)(const std::int64_t* tokens, const std::int64_t* positions, const Element* token_table,
                            const Element* position_table, Element* out, std::int64_t rows, std::int64_t time,
                            std::int64_t channels, Stream stream);
  // Adds dout [rows, C] to the rows of both tables' gradients. order [rows] sorts the tokens, stably:
  // sorted_tokens[i] = tokens[order[i]], ascending. scratch: embedding_scratch(rows, C) floats.
  void (*embedding_backward)(const std::int64_t* sorted_tokens, const std::int64_t* order, const Element* dout,
                             float* dtokens, float* dpositions, float* scratch, std::int64_t rows, std::int64_t time,
                             std::int64_t channels, Stream stream);

  // Rotates the first `heads` heads of rows of `stride` elements, pairs (i, i + D/2) (Su et al. 2021), and copies the
  // rest; out may be in. cosines, sines: [angle_rows, D/2]; row n has row n % angle_rows. sign -1: back.
  void (*rotate)(const Element* in, Element* out, const float* cosines, const float* sines, std::int64_t angle_rows,
                 float sign, std::int64_t rows, std::int64_t stride, std::int64_t heads, std::int64_t head_size,
                 Stream stream);

  // out[n] = x[n] + the sum over k of weight[k] * x[n - k], for the positions k < width back that the row's text has.
  // Row n is position positions[n] of its document or, where positions is null, n % time. x, out: [rows, C]; weight:
  // [width, C].
  void (*conv_forward)(const Element* x, const Element* weight, const std::int64_t* positions, Element* out,
                       std::int64_t rows, std::int64_t time, std::int64_t channels, std::int64_t width, Stream stream);
  // Adds to dweight [width, C]. scratch: column_scratch(width * C) floats.
  void (*conv_backward)(const Element* dout, const Element* x, const Element* weight, const std::int64_t* positions,
                        Element* dx, float* dweight, float* scratch, std::int64_t rows, std::int64_t time,
                        std::int64_t channels, std::int64_t width, Stream stream);
  // The same for one token of each text, at position lengths[b] [B]; the text's last inputs lie in a ring, inputs [B,
  // width, C], position p at p % width. x, out: [B, C].
  void (*conv_cached)(const Element* x, Element* inputs, const Element* weight, const std::int64_t* lengths,
                      Element* out, std::int64_t batch, std::int64_t channels, std::int64_t width, Stream stream);

  // out[i] = keep(i) ? x[i] * scale : 0, where keep(i) is
  //   random_bits(mix64(key[0] + site * golden_gamma), key[1] * per_row + i) >> 32 >= threshold:
  // the numbers of a DropoutPlace (backend/backend.h), the site-th. out may be x. Backward: the same of dout.
  void (*dropout)(const Element* x, Element* out, const std::uint64_t* key, std::uint64_t site, std::uint32_t threshold,
                  float scale, std::int64_t n, std::int64_t per_row, Stream stream);

  // out[0] = the sum of x[i]^2 (infinite past the range of float32). scratch: square_parts doubles.
  void (*sum_of_squares)(const float* x, std::int64_t n, double* scratch, float* out, Stream stream);
  // One AdamW step on n values, for gradients clipped to the norm max_norm; norm_squared is that of all gradients. If
  // it is not finite, nothing changes. compute [n] (may be null) gets the new values as Elements.
  void (*adamw)(float* value, const float* gradient, float* moment1, float* moment2, Element* compute,
                const AdamWStep* settings, const float* norm_squared, std::int64_t n, Stream stream);

  // The two ends of a Muon step, as in cpu_kernels.h, for gradients clipped as adamw does it; if norm_squared is not
  // finite, nothing but `update` changes. compute [n] (may be null) gets the new values as Elements.
  void (*muon_momentum)(float* momentum, const float* gradient, Element* update, const MuonStep* settings,
                        const float* norm_squared, std::int64_t n, Stream stream);
  void (*muon_step)(float* value, const Element* update, Element* compute, const MuonStep* settings,
                    const float* norm_squared, std::int64_t n, Stream stream);

  // For generating one token at a time: few rows. A row's bits do not depend on the other rows, nor on their number.
  // out[r, j] = bias[j] + sum over k of x[r, k] * weight[k, j]. x: [rows, inner]; weight: [inner, columns]; bias may be
  // null; out: [rows, columns].
  void (*rows_times_matrix)(const Element* x, const Element* weight, const Element* bias, Element* out,
                            std::int64_t rows, std::int64_t inner, std::int64_t columns, Stream stream);
  // The activation of the same, taken of the float32 sums.
  void (*rows_times_matrix_activated)(const Element* x, const Element* weight, const Element* bias, Element* out,
                                      Activation activation, std::int64_t rows, std::int64_t inner,
                                      std::int64_t columns, Stream stream);
  // The product for weight [columns, inner]: out[r, j] = sum over k of x[r, k] * weight[j, k], as float32.
  void (*rows_times_transposed)(const Element* x, const Element* weight, float* out, std::int64_t rows,
                                std::int64_t inner, std::int64_t columns, Stream stream);
  // Puts the keys and values of qkv [B, form.packed()], position lengths[b] of each row, into the caches [B, n_kv_head,
  // block, D], and attends with the queries over what form.pattern sees, both as cached_place() says. out: [B, H D].
  // lengths [B] stay as they are: the next layer reads them too. D is at most largest_cached_head. scratch:
  // attend_scratch(B, H, D, form.pattern.ring(block)) floats. arrivals [B, H] counts blocks: 0 before, and 0 again when
  // it is done.
  void (*attend_cached)(const Element* qkv, Element* keys, Element* values, const std::int64_t* lengths, Element* out,
                        float* scratch, std::uint32_t* arrivals, std::int64_t batch, const AttentionForm& form,
                        std::int64_t block, Stream stream);
  // Draws the token behind each row as sample_token() of generate/sampler.h does, in float32: weights are rounded to
  // multiples of 2^-36 of the largest. logits [B, stride]: the first `vocabulary` columns count; they are overwritten.
  // contexts [B, block]: the last tokens of row b's context, which has lengths[b]; its token i stands at i % block. The
  // random number is random_bits(keys[b], places[b]). Writes the token to drawn[b] and tokens[b], and behind those of
  // the context; adds 1 to places[b]. If a logit is NaN or +infinity, drawn[b] becomes -1 and the rest stays.
  void (*sample)(float* logits, std::int64_t* contexts, const std::int64_t* lengths, const std::uint64_t* keys,
                 std::int64_t* places, std::int64_t* tokens, std::int64_t* drawn, const SamplingSettings& settings,
                 std::int64_t batch, std::int64_t vocabulary, std::int64_t stride, std::int64_t block, Stream stream);
};

// Defined for float and BFloat16, in the library of the CUDA kernels.
template <typename Element>
const CudaKernels<Element>& cuda_kernels();
template <>
const CudaKernels<float>& cuda_kernels<float>();
template <>
const CudaKernels<BFloat16>& cuda_kernels<BFloat16>();

}  // namespace inkling
