#include "model/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "backend/choose.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "model/gpt.h"

namespace inkling {

namespace {

// On a GPU: what cublasLt or cuBLAS works in, and as much again for pieces of memory that LibTorch takes for small
// tensors, 2 or 20 MiB at a time. cuBLAS works in its own for each thread.
constexpr std::uint64_t bytes_of_library = std::uint64_t{32} << 20;

bool is_reference(const Runtime& runtime) { return runtime.kernels == Kernels::reference; }

// Elements per token that one layer of the reference model keeps: the inputs of the two norms, their outputs, qkv,
// attention's output, the MLP before and after the activation; and what autograd keeps inside the parts that LibTorch
// composes.
std::int64_t kept_by_reference(const GptShape& shape) {
  const AttentionForm form = shape.attention();
  const bool turns = has_rotation(shape.position), is_grouped = form.group() > 1;
  std::int64_t kept = 4 * shape.n_embd + form.packed() + form.queries() + shape.widened() + shape.inner();
  const bool has_weights = shape.norm_weights;  // of norms: then what they multiply is kept too
  if (shape.norm == NormKind::rmsnorm && has_weights) kept += 2 * shape.n_embd;
  if (is_gated(shape.activation)) kept += shape.inner();  // the gates
  if (shape.qk_norm) kept += (has_weights ? 2 : 1) * (form.queries() + form.keys());
  // Of each position that a convolution sees, the shifted input and the product; and the sums.
  if (shape.conv > 0) kept += 2 * shape.n_embd * shape.conv;
  if (turns) kept += form.queries();
  if (is_grouped) kept += 2 * form.queries();  // a key and a value for each query
  if (turns && !is_grouped) kept += form.keys();
  return kept;
}

// On a GPU, bytes of each logit: the logits, their softmax and its gradient in float32; and, where that is not enough,
// the logits in the model's dtype. What is freed of them serves again.
std::int64_t bytes_of_logit(const GptShape& shape, std::uint64_t element) {
  const std::int64_t in_float32 = shape.logit_softcap > 0 ? 4 : 3;
  return in_float32 * static_cast<std::int64_t>(sizeof(float)) +
         (element < sizeof(float) ? static_cast<std::int64_t>(element) : 0);
}

// And holds while it runs. Backwards, the gradient of gates and that of values each fill a tensor of both.
std::int64_t held_by_reference(const GptShape& shape) {
  const std::int64_t halves = is_gated(shape.activation) ? shape.widened() + 2 * shape.inner() : 0;
  const std::int64_t mlp = 2 * shape.widened() + shape.inner() + halves;
  return 3 * shape.n_embd + std::max(mlp, 3 * shape.attention().packed());
}

TrainingBytes reference_bytes(const GptShape& shape, const Runtime& runtime, std::int64_t rows,
                              const TrainingPass& training, bool has_positions) {
  const auto element = static_cast<std::uint64_t>(c10::elementSize(runtime.dtype));
  const bool on_cpu = computes_with_threads(runtime.device);
  const bool again = training.recompute == Recompute::block;
  const auto bytes = [&](std::int64_t elements, std::uint64_t each) { return bytes_of(rows, elements, each); };
  // Scores that fall with the distance are in float32 at least, and their probabilities become the model's dtype.
  const bool falls = shape.attention().scores != ScoreKind::plain;
  const std::uint64_t of_score = falls ? std::max<std::uint64_t>(element, sizeof(float)) : element;
  const std::uint64_t block = bytes(shape.n_embd, element), scores = bytes(shape.block_size * shape.n_head, of_score);
  const std::uint64_t rounded = of_score > element ? bytes(shape.block_size * shape.n_head, element) : 0;
  std::uint64_t layer = bytes(kept_by_reference(shape), element);
  std::uint64_t at_work = bytes(held_by_reference(shape), element), of_attention = 0;
  // Attention step by step, in every layer that drops probabilities or hides more than the future.
  const bool masked = training.dropout > 0 || has_positions || falls;
  const std::uint64_t hidden = bytes_of(has_positions ? rows : shape.block_size, shape.block_size, 1);
  std::uint64_t probabilities = 0, layers_step_by_step = 0;
  for (const AttentionPattern& pattern : shape.layer_patterns()) {
    layers_step_by_step += masked || !pattern.is_full();
  }
  if (training.dropout > 0) {
    probabilities = 2 * scores + rounded + hidden;  // and their dropped copy
    of_attention = 3 * scores;
    if (choose_backend(runtime).dropout == nullptr) {  // what was dropped where is kept, and random numbers are made
      const std::uint64_t numbers = bytes(shape.block_size * shape.n_head, 1);
      layer += 2 * bytes(shape.n_embd, 1);
      probabilities += numbers;
      const std::uint64_t slice = static_cast<std::uint64_t>(dropout_slice(runtime.device));
      of_attention += 3 * sizeof(std::int64_t) * std::min(numbers, slice);
    }
  } else if (layers_step_by_step > 0) {
    probabilities = scores + rounded + hidden;
    of_attention = 3 * scores;
  }
  // What the MLP keeps is gone when attention's backward pass begins, and LibTorch's allocator on a GPU cuts it up.
  const std::uint64_t mlp = bytes(shape.n_embd + shape.widened() + shape.inner(), element);
  at_work = on_cpu ? at_work + of_attention : std::max(at_work, of_attention - std::min(of_attention, mlp));
  // Freed blocks serve again where they are up to a quarter too large (runtime/cpu_memory.h): an eighth on average, as
  // the composed operations' sizes are many. The fused ones ask for the same sizes in every layer. On a GPU LibTorch
  // keeps no block that is much too large.
  const auto spaced = [&](std::uint64_t size) { return on_cpu ? size + size / 8 : size; };
  const std::uint64_t layers = static_cast<std::uint64_t>(shape.n_layer);
  return {.activations = again ? layers * block : layers * spaced(layer) + layers_step_by_step * spaced(probabilities),
          .at_work = at_work + (again ? spaced(layer) + spaced(probabilities) : 0),
          .logits = on_cpu ? (shape.logit_softcap > 0 ? 4 : 3) *
                                 bytes(shape.vocab_size, sizeof(float))  // log-softmax, gradient, tanh
                           : bytes(shape.vocab_size * bytes_of_logit(shape, element), 1)};
}

// Names the parts that the backend declines.
void log_composed_parts(const GptShape& shape, const Runtime& runtime, const Backend& backend, bool has_positions) {
  std::vector<std::string> parts;
  const AttentionForm form = shape.attention();
  if (!backend.attends(backend.activation_dtype(runtime.dtype), form, has_positions)) parts.emplace_back("attention");
  if (!backend.activates(shape.activation)) parts.push_back(str("the activation ", word_of(shape.activation)));
  if (!backend.decodes(form, shape.activation)) parts.emplace_back("generation");
  if (parts.empty()) return;
  log_info(str("runtime.kernels: there is no fused kernel here for this model's ", join(parts, " and "),
               ": LibTorch's operations take its place, which is slower"));
}

}  // namespace

std::uint64_t bytes_of(std::int64_t rows, std::int64_t elements, std::uint64_t size) {
  constexpr double most = 0x1p50;
  const double product = static_cast<double>(rows) * static_cast<double>(elements) * static_cast<double>(size);
  return product < most ? static_cast<std::uint64_t>(rows * elements) * size : std::uint64_t{1} << 50;
}

at::Tensor Model::capped(const at::Tensor& logits) const {
  const double bound = shape_.logit_softcap;
  if (bound == 0.0) return logits;
  return logits.to(c10::promoteTypes(logits.scalar_type(), at::kFloat)).div(bound).tanh().mul(bound);
}

Runtime runtime_for(const GptShape& shape, const Runtime& runtime, bool has_positions) {
  if (is_reference(runtime)) return runtime;
  const Backend& backend = choose_backend(runtime);
  const std::int64_t head_size = shape.attention().head_size;
  if (shape.n_embd <= backend.most_channels && head_size <= backend.most_head_channels) {
    log_composed_parts(shape, runtime, backend, has_positions);
    return runtime;
  }
  log_info(str("runtime.kernels: reference, because the fused kernels of a GPU take at most ", backend.most_channels,
               " channels and heads of ", backend.most_head_channels, ", and the model has ", shape.n_embd, " and ",
               head_size));
  Runtime composed = runtime;
  composed.kernels = Kernels::reference;
  return composed;
}

bool multiplies_by_libtorch(const GptShape& shape, const Runtime& runtime, bool has_positions) {
  return is_reference(runtime) || !choose_backend(runtime).attends(runtime.dtype, shape.attention(), has_positions);
}

std::unique_ptr<ParameterArena> make_arena(const GptShape& shape, const Runtime& runtime, Use use,
                                           const std::optional<ParameterRanges>& owned) {
  const Gradients trained = is_reference(runtime) ? Gradients::as_weights : Gradients::in_float32;
  return std::make_unique<ParameterArena>(gpt_parameters(shape), runtime.device, runtime.dtype,
                                          use == Use::training ? trained : Gradients::none, owned);
}

std::unique_ptr<Model> make_model(const GptShape& shape, const ParameterArena& arena, const Runtime& runtime) {
  const Backend& backend = choose_backend(runtime);
  if (is_reference(runtime)) return make_reference(shape, arena, backend);
  return std::make_unique<Gpt>(shape, arena, backend);
}

bool can_recompute_blocks(double dropout, const Runtime& runtime) {
  return dropout == 0 || choose_backend(runtime).repeats_dropout;
}

void check_recompute(const TrainingPass& training, const Runtime& runtime) {
  if (training.recompute == Recompute::gelu && is_reference(runtime)) {
    throw Error::input(
        "training.recompute: gelu is for the fused kernels, and this run computes with the reference model "
        "(runtime.kernels: reference); block works with both");
  }
  if (training.recompute == Recompute::block && !can_recompute_blocks(training.dropout, runtime)) {
    throw Error::input(
        "training.recompute: block would draw other dropout numbers on a GPU when it computes a block again; set "
        "model.dropout: 0, training.recompute: none, or runtime.kernels: reference");
  }
}

TrainingBytes training_bytes(const GptShape& shape, const Runtime& runtime, std::int64_t rows,
                             const TrainingPass& training, bool has_positions) {
  const auto element = static_cast<std::uint64_t>(c10::elementSize(runtime.dtype));
  const auto weights = static_cast<std::uint64_t>(ParameterLayout(gpt_parameters(shape)).size());
  const std::uint64_t copies = is_reference(runtime) ? 2 : 1;  // in the compute dtype: of values, and of gradients
  const bool on_cpu = computes_with_threads(runtime.device);
  TrainingBytes bytes =
      is_reference(runtime) ? reference_bytes(shape, runtime, rows, training, has_positions)
      : on_cpu ? Gpt::activation_bytes(shape, choose_backend(runtime), rows, runtime.dtype, training, has_positions)
               : Gpt::bytes_on_gpu(shape, runtime, rows, training, has_positions);
  if (!on_cpu) {
    (bytes.logits > bytes.at_work ? bytes.at_work : bytes.logits) = 0;
    bytes.libraries = (multiplies_by_libtorch(shape, runtime, has_positions) ? 3 : 2) * bytes_of_library;
  }
  bytes.weights = weights * (2 * sizeof(float) + (runtime.dtype == at::kFloat ? 0 : copies * element));
  return bytes;
}

void refuse_broken_answer(std::string_view to) {
  throw Error(ErrorKind::diverged, str("the model's answer", to.empty() ? "" : " to ", to,
                                       " is not a number: its training diverged or its weights are damaged; "
                                       "try an earlier checkpoint"));
}

KeyValueCache::KeyValueCache(const GptShape& shape, std::int64_t rows, std::int64_t positions,
                             const at::TensorOptions& options)
    : lengths(at::zeros({rows}, options.dtype(at::kLong))) {
  const AttentionForm form = shape.attention();
  for (const AttentionPattern& pattern : shape.layer_patterns()) {
    const std::int64_t capacity = pattern.capacity(positions);
    const auto empty = [&] { return at::zeros({rows, form.n_kv_head, capacity, form.head_size}, options); };
    const auto ring = [&] {
      return shape.conv > 0 ? at::zeros({rows, shape.conv, shape.n_embd}, options) : at::Tensor();
    };
    layers.push_back({empty(), empty(), at::zeros({rows, shape.n_head}, options.dtype(at::kInt)), {ring(), ring()}});
  }
}

void KeyValueCache::copy_from(const KeyValueCache& other) {
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const CachedLayer &to = layers[layer], &from = other.layers[layer];
    to.keys.copy_(from.keys);
    to.values.copy_(from.values);
    for (std::size_t i = 0; i < to.conv_inputs.size(); ++i) {
      if (to.conv_inputs[i].defined()) to.conv_inputs[i].copy_(from.conv_inputs[i]);
    }
  }
  lengths.copy_(other.lengths);
}

KeyValueCache KeyValueCache::narrow(std::int64_t first, std::int64_t count) const {
  if (count == rows()) return *this;
  KeyValueCache view;
  for (const CachedLayer& layer : layers) view.layers.push_back(layer.narrow(first, count));
  view.lengths = lengths.narrow(0, first, count);
  return view;
}

at::Tensor held_positions(const at::Tensor& lengths, const AttentionPattern& pattern, std::int64_t capacity) {
  const std::int64_t ring = pattern.ring(capacity);
  const at::Tensor slots = at::arange(capacity, lengths.options());
  const at::Tensor text = slots.div(ring, "floor"), place = slots.remainder(ring);
  const at::Tensor newest = (lengths.unsqueeze(1) - 1 - text).div(pattern.dilation, "floor");  // of its text
  const at::Tensor held = newest - (newest - place).remainder(ring);
  return held * pattern.dilation + text;
}

void fill(const at::Tensor& conv_inputs, const at::Tensor& x, const at::Tensor& lengths) {
  if (!conv_inputs.defined()) return;
  const std::int64_t width = conv_inputs.size(1);
  const at::Tensor held = held_positions(lengths, {.window = width}, width).clamp_min(0);
  conv_inputs.copy_(x.gather(1, held.unsqueeze(2).expand({-1, -1, x.size(2)})));
}

void fill(const CachedLayer& layer, const AttentionPattern& pattern, const Heads& heads, const at::Tensor& lengths) {
  if (pattern.is_full()) {  // nobody reads the columns after a row's end
    layer.keys.narrow(2, 0, heads.keys.size(2)).copy_(heads.keys);
    layer.values.narrow(2, 0, heads.values.size(2)).copy_(heads.values);
    return;
  }
  const at::Tensor held = held_positions(lengths, pattern, layer.keys.size(2)).clamp_min(0);
  const at::Tensor index = held.unsqueeze(1).unsqueeze(3).expand({-1, heads.keys.size(1), -1, heads.keys.size(3)});
  layer.keys.copy_(heads.keys.gather(2, index));
  layer.values.copy_(heads.values.gather(2, index));
}

}  // namespace inkling
