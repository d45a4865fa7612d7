#include "model/gpt.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "backend/choose.h"
#include "backend/heads.h"
#include "model/composed_parts.h"
#include "model/operations.h"
#include "model/rotation.h"

namespace inkling {

namespace {

// Those of the columns, or, where rows hold several documents, of each token's position.
Rotation rotation_of_tokens(const GptShape& shape, const at::Tensor& tokens, const at::Tensor& positions = {}) {
  Rotation columns = rotation_of(shape, at::arange(tokens.size(1), tokens.options()));
  if (!columns.defined() || !positions.defined()) return columns;
  const at::Tensor all = positions.flatten();
  return {columns.cosines.index_select(0, all), columns.sines.index_select(0, all)};
}

// What FlashAttention's backward pass holds beyond `mlp`, the bytes that the MLP has freed: gradients of queries, keys
// and values, side by side at the end, and before that those of queries in float32, which are deterministic as sums of
// so many parts that all multiprocessors have work. These take new memory where no tensor of the MLP is as large.
std::uint64_t held_by_flash_attention(const GptShape& shape, const Runtime& runtime, std::int64_t rows,
                                      std::uint64_t mlp) {
  const AttentionForm form = shape.attention();
  const std::int64_t heads = std::max<std::int64_t>(rows / shape.block_size, 1) * form.n_head;
  const std::int64_t parts = runtime.deterministic ? (multiprocessors(runtime.device) + heads - 1) / heads : 1;
  const std::size_t element = c10::elementSize(runtime.dtype);
  const std::int64_t gradients = form.packed() + (form.group() > 1 ? 2 * form.queries() : 0);
  const std::uint64_t smaller = bytes_of(rows, gradients + 2 * shape.n_embd, element);
  const std::uint64_t sums = std::max(bytes_of(rows, parts * form.queries() + form.n_head, sizeof(float)),
                                      bytes_of(rows, form.packed(), element));
  if (sums > bytes_of(rows, shape.widened(), element)) return sums + smaller - std::min(smaller, mlp);
  const std::uint64_t all = smaller + sums;
  return all - std::min(all, mlp);
}

// And what the head does: logits in rows of a multiple of 128, of which the gradients take the place; then the input in
// float32, twice, and where the vocabulary is padded a copy of the table or its gradient (backend/cuda_head.cpp).
std::uint64_t held_by_head(const GptShape& shape, std::int64_t rows, std::size_t element) {
  const std::int64_t padded = (shape.vocab_size + 127) / 128 * 128, channels = shape.n_embd;
  const bool is_copied = shape.vocab_size % 8 != 0;
  const std::uint64_t x = bytes_of(rows, channels, element);
  const std::uint64_t gradient = is_copied ? bytes_of(padded, channels, sizeof(float)) : 0;
  const std::uint64_t copy = is_copied ? bytes_of(padded, channels, element) : 0;
  return bytes_of(rows, padded, element) + x +
         std::max({bytes_of(rows, channels, 2 * sizeof(float)) + x, gradient, x + copy});
}

}  // namespace

Gpt::Gpt(const GptShape& shape, const ParameterArena& arena, const Backend& backend)
    : Model(shape, backend), weights_(shape, arena) {}

// x = x + attention(conv(norm(x))); x = x + mlp(conv(norm(x))), where the model has convolutions. Each addition is made
// together with the norm that reads it, so a block takes the stream with its first norm and passes it on with the next
// block's.
ResidualStream Gpt::block(const ResidualStream& in, std::size_t layer, Pass& pass) const {
  const AttentionForm form = shape().attention(layer);
  const at::Tensor seen = conv(in.normed, weights_.blocks[layer].conv_1, pass);
  const at::Tensor qkv = queries_keys_values(seen, weights_.blocks[layer], form, pass);
  const ResidualStream middle = after_attention(in.x, attention(qkv, form, pass), layer, pass);
  return after_mlp(middle.x, conv(middle.normed, weights_.blocks[layer].conv_2, pass), layer, pass);
}

ResidualStream Gpt::after_attention(const at::Tensor& x, const at::Tensor& heads, std::size_t layer, Pass& pass) const {
  const BlockWeights& block = weights_.blocks[layer];
  const at::Tensor attended = dropout(linear(heads, block.c_proj, pass), pass);
  return add_norm(x, attended, block.ln_2, pass);
}

ResidualStream Gpt::after_mlp(const at::Tensor& x, const at::Tensor& seen, std::size_t layer, Pass& pass) const {
  const at::Tensor fed = dropout(mlp(seen, weights_.blocks[layer].mlp, pass), pass);
  return add_norm(x, fed, weights_.norm_behind(layer), pass);
}

ResidualStream Gpt::embed(const at::Tensor& tokens, Pass& pass) const {
  at::Tensor x = embedding(tokens, weights_.embedding, pass);
  if (shape().embedding_norm) x = norm(x, weights_.embedding_norm, pass);
  x = dropout(x, pass);
  return {x, norm(x, weights_.blocks.front().ln_1, pass)};
}

at::Tensor Gpt::hidden(const at::Tensor& tokens, Pass& pass) const {
  pass.rotation = rotation_of_tokens(shape(), tokens, pass.training.positions);
  const ResidualStream embedded = embed(tokens, pass);
  Tensors stream = {embedded.x, embedded.normed};
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
    const auto through = [this, layer](const Tensors& in, Pass& own) -> Tensors {
      const ResidualStream out = block({in[0], in[1]}, layer, own);
      return {out.x, out.normed};
    };
    stream = run_block(stream, through, pass);
  }
  return stream[1];
}

at::Tensor Gpt::loss(const at::Tensor& tokens, const at::Tensor& targets, const TrainingPass& training) const {
  Pass pass{backend(), training};
  return head_loss(hidden(tokens, pass), weights_.head, targets, shape().logit_softcap, pass);
}

at::Tensor Gpt::logits(const at::Tensor& tokens) const {
  Pass pass{backend()};
  return capped(backend().logits(hidden(tokens, pass), weights_.head));
}

// From here on with a cache of keys and values: the beginnings of texts, and one more token.
void Gpt::prefill(const at::Tensor& tokens, const at::Tensor& lengths, KeyValueCache& cache) const {
  Pass pass{backend()};
  pass.rotation = rotation_of_tokens(shape(), tokens);
  ResidualStream stream = embed(tokens, pass);
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
    const AttentionForm form = shape().attention(layer);
    const CachedLayer& cached = cache.layers[layer];
    fill(cached.conv_inputs[0], stream.normed, lengths);
    const at::Tensor seen = conv(stream.normed, weights_.blocks[layer].conv_1, pass);
    const at::Tensor qkv = queries_keys_values(seen, weights_.blocks[layer], form, pass);
    fill(cached, form.pattern, split_heads(qkv, form), lengths);
    stream = after_attention(stream.x, attention(qkv, form, pass), layer, pass);
    fill(cached.conv_inputs[1], stream.normed, lengths);
    stream = after_mlp(stream.x, conv(stream.normed, weights_.blocks[layer].conv_2, pass), layer, pass);
  }
  cache.lengths.copy_(lengths);
}

at::Tensor Gpt::decode(const at::Tensor& tokens, KeyValueCache& cache) const {
  const Rotation turned = rotation_of(shape(), cache.lengths);
  at::Tensor x = backend().decode_embedding(tokens, cache.lengths, weights_.embedding);
  if (shape().embedding_norm) x = backend().norm(x, {}, weights_.embedding_norm).out;
  ResidualStream stream = {x, backend().norm(x, {}, weights_.blocks.front().ln_1).out};
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
    RECORD_FUNCTION("decode_block", std::vector<c10::IValue>());
    if (!backend().decodes(shape().attention(layer), shape().activation)) {
      stream = decode_composed(stream, layer, cache, turned);
      continue;
    }
    stream = backend().decode_block(stream, {.weights = weights_.blocks[layer],
                                             .next_norm = weights_.norm_behind(layer),
                                             .form = shape().attention(layer),
                                             .cache = cache.layers[layer],
                                             .lengths = cache.lengths,
                                             .rotation = turned});
  }
  cache.lengths.add_(1);
  RECORD_FUNCTION("decode_logits", std::vector<c10::IValue>());
  return capped(backend().decode_logits(stream.normed.squeeze(1), weights_.head));
}

// What decode_block() does, text by text: LibTorch's products do not promise a row the same bits whatever others there
// are.
ResidualStream Gpt::decode_composed(const ResidualStream& in, std::size_t layer, const KeyValueCache& cache,
                                    const Rotation& rotation) const {
  const BlockWeights& block = weights_.blocks[layer];
  const AttentionForm form = shape().attention(layer);
  Tensors x, normed;
  for (std::int64_t text = 0; text < cache.rows(); ++text) {
    const auto own = [text](const at::Tensor& all) { return all.defined() ? all.narrow(0, text, 1) : all; };
    const CachedLayer cached = cache.layers[layer].narrow(text, 1);
    const at::Tensor length = own(cache.lengths);
    Pass pass{.backend = backend(), .rotation = {own(rotation.cosines), own(rotation.sines)}};
    const at::Tensor seen = cached_convolve(own(in.normed), block.conv_1.value, cached.conv_inputs[0], length);
    const Heads heads = split_heads(queries_keys_values(seen, block, form, pass), form);
    const at::Tensor attended = cached_attention(heads, form, cached, length);
    const ResidualStream middle = after_attention(own(in.x), attended, layer, pass);
    const at::Tensor fed = cached_convolve(middle.normed, block.conv_2.value, cached.conv_inputs[1], length);
    const ResidualStream out = after_mlp(middle.x, fed, layer, pass);
    x.push_back(out.x);
    normed.push_back(out.normed);
  }
  return {at::cat(x), at::cat(normed)};
}

TrainingBytes Gpt::activation_bytes(const GptShape& shape, const Backend& backend, std::int64_t rows,
                                    at::ScalarType dtype, const TrainingPass& training, bool has_positions) {
  const std::int64_t channels = shape.n_embd;
  const AttentionForm heads = shape.attention();
  const auto bytes = [rows](std::int64_t elements, std::size_t size) { return bytes_of(rows, elements, size); };
  const bool again = training.recompute == Recompute::block;
  const bool composed_mlp = !backend.activates(shape.activation);  // which keeps everything
  const Recompute of_mlp = composed_mlp ? Recompute::none : training.recompute;
  const std::size_t element = c10::elementSize(dtype);
  std::uint64_t block =
      bytes(2 * (kept_by_norm(channels) + kept_by_conv(shape)) + kept_by_linear(channels) + kept_by_attention(shape) +
                kept_by_mlp(shape, of_mlp) + (composed_mlp && is_gated(shape.activation) ? shape.inner() : 0),
            element);
  std::uint64_t at_work = bytes(std::max(held_by_mlp(shape), held_by_attention(shape)), element);
  if (!backend.attends(dtype, heads, has_positions)) {  // it is composed, and keeps its probabilities, dropped ones too
    const std::uint64_t scores = bytes(shape.block_size * heads.n_head, sizeof(float));
    block += (training.dropout > 0 ? 2 : 1) * scores;
    // And queries, keys and values for each query, in float32, instead of qkv.
    block += bytes(3 * heads.queries(), sizeof(float));
    block -= bytes(heads.packed(), element);
    at_work += 3 * scores;
  }
  const std::uint64_t stream = bytes(2 * channels, element);  // what is kept of a block that is computed again
  const std::uint64_t embedded = shape.embedding_norm ? bytes(kept_by_norm(channels), element) : 0;
  return {.activations = embedded + static_cast<std::uint64_t>(shape.n_layer) * (again ? stream : block),
          .at_work = at_work + (again ? block : 0),
          .logits = bytes(shape.vocab_size, sizeof(float))};
}

TrainingBytes Gpt::bytes_on_gpu(const GptShape& shape, const Runtime& runtime, std::int64_t rows,
                                const TrainingPass& training, bool has_positions) {
  const Backend& backend = choose_backend(runtime);
  const std::int64_t channels = shape.n_embd;
  const AttentionForm heads = shape.attention();
  const std::size_t element = c10::elementSize(runtime.dtype);
  const auto bytes = [rows](std::int64_t elements, std::size_t size) { return bytes_of(rows, elements, size); };
  const bool again = training.recompute == Recompute::block, is_composed = !backend.activates(shape.activation);
  const bool is_gated_alone = is_composed && is_gated(shape.activation);
  const std::uint64_t mlp = bytes(
      kept_by_mlp(shape, is_composed ? Recompute::none : training.recompute) + (is_gated_alone ? shape.inner() : 0),
      element);
  std::uint64_t attention = bytes(kept_by_attention(shape), element), of_attention = 0;
  if (backend.attends(runtime.dtype, heads, has_positions)) {
    attention += bytes(heads.n_head, sizeof(float));
    of_attention = held_by_flash_attention(shape, runtime, rows, mlp);
  } else {  // as above; and which scores are hidden
    const std::uint64_t scores = bytes(shape.block_size * heads.n_head, sizeof(float));
    attention += (training.dropout > 0 ? 2 : 1) * scores + bytes(3 * heads.queries(), sizeof(float)) -
                 bytes(heads.packed(), element) +
                 bytes_of(has_positions ? rows : shape.block_size, shape.block_size, 1);
    of_attention = 4 * scores - std::min(4 * scores, mlp);  // of which LibTorch frees one, and finds no use for it
  }
  const std::uint64_t block =
      bytes(2 * (kept_by_norm(channels) + kept_by_conv(shape)) + kept_by_linear(channels), element) +
      bytes(4, sizeof(float)) + attention + mlp;
  // Backwards, the MLP's part is gone when attention's begins.
  const std::uint64_t of_mlp = bytes(3 * channels + shape.widened() + (is_gated(shape.activation) ? shape.inner() : 0) +
                                         (training.recompute == Recompute::gelu ? shape.inner() : 0),
                                     element);
  const std::uint64_t work = std::max(of_mlp, of_attention) + (again ? block : 0);
  const std::uint64_t ends = bytes((shape.embedding_norm ? 3 : 2) * channels, element);  // first sum, last norm
  const std::uint64_t layers = static_cast<std::uint64_t>(shape.n_layer);
  return {.activations = ends + layers * (again ? bytes(2 * channels, element) : block),
          .at_work = work,
          // What a block that is computed again works in forwards is kept, in pieces too small for logits.
          .logits = held_by_head(shape, rows, element) + (again ? bytes(held_by_mlp(shape), element) : 0)};
}

}  // namespace inkling
