#include "checkpoint/file_tensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

// GPT-2's file has what the arena has, under the same names. It always has biases.
std::vector<FileTensor> gpt2_tensors(GptShape shape) {
  shape.bias = true;
  std::vector<FileTensor> tensors;
  for (const ParameterSpec& spec : gpt_parameters(shape)) {
    const std::string_view prefix = spec.name == head_name ? "" : prefix_of(Family::gpt2);
    tensors.push_back({.name = str(prefix, spec.name), .shape = spec.shape, .parameter = spec.name});
  }
  return tensors;
}

// Llama's file has queries, keys and values each for itself.
class LlamaTensors {
 public:
  explicit LlamaTensors(const GptShape& shape) : shape_(shape) {
    const AttentionForm heads = shape.attention();
    whole("embed_tokens.weight", "wte.weight", {shape.vocab_size, shape.n_embd});
    if (shape.position == Position::learned) {
      whole("embed_positions.weight", "wpe.weight", {shape.block_size, shape.n_embd});
    }
    if (shape.embedding_norm) norm("embedding_norm", "ln_e");
    for (std::int64_t layer = 0; layer < shape.n_layer; ++layer) {
      const std::string to = str("layers.", layer, "."), from = str("h.", layer, ".");
      norm(to + "input_layernorm", from + "ln_1");
      conv(to + "input_conv", from + "conv_1");
      linear(to + "self_attn.q_proj", from + "attn.c_attn", 0, shape.n_embd, heads.queries());
      linear(to + "self_attn.k_proj", from + "attn.c_attn", heads.queries(), shape.n_embd, heads.keys());
      linear(to + "self_attn.v_proj", from + "attn.c_attn", heads.queries() + heads.keys(), shape.n_embd, heads.keys());
      if (shape.qk_norm) {
        whole(to + "self_attn.q_norm.weight", from + "attn.q_norm.weight", {heads.head_size});
        whole(to + "self_attn.k_norm.weight", from + "attn.k_norm.weight", {heads.head_size});
      }
      linear(to + "self_attn.o_proj", from + "attn.c_proj", 0, heads.queries(), shape.n_embd);
      norm(to + "post_attention_layernorm", from + "ln_2");
      conv(to + "post_attention_conv", from + "conv_2");
      if (is_gated(shape.activation)) linear(to + "mlp.gate_proj", from + "mlp.c_fc", 0, shape.n_embd, shape.inner());
      linear(to + "mlp.up_proj", from + "mlp.c_fc", shape.widened() - shape.inner(), shape.n_embd, shape.inner());
      linear(to + "mlp.down_proj", from + "mlp.c_proj", 0, shape.inner(), shape.n_embd);
    }
    norm("norm", "ln_f");
    if (!shape.tie_embeddings) {
      const std::string name(head_name);
      tensors_.push_back({.name = name, .shape = {shape.vocab_size, shape.n_embd}, .parameter = name});
    }
  }

  std::vector<FileTensor> take() { return std::move(tensors_); }

 private:
  void whole(const std::string& name, const std::string& parameter, std::vector<std::int64_t> sizes) {
    tensors_.push_back(
        {.name = str(prefix_of(Family::inkling), name), .shape = std::move(sizes), .parameter = parameter});
  }

  void linear(const std::string& name, const std::string& parameter, std::int64_t first, std::int64_t in,
              std::int64_t out) {
    whole(name + ".weight", parameter + ".weight", {out, in});
    tensors_.back().first = first;
    tensors_.back().transposed = true;
    if (!shape_.bias) return;
    whole(name + ".bias", parameter + ".bias", {out});
    tensors_.back().first = first;
  }

  void norm(const std::string& name, const std::string& parameter) {
    whole(name + ".weight", parameter + ".weight", {shape_.n_embd});
    if (shape_.norm_bias()) whole(name + ".bias", parameter + ".bias", {shape_.n_embd});
  }

  void conv(const std::string& name, const std::string& parameter) {
    if (shape_.conv > 0) whole(name + ".weight", parameter + ".weight", {shape_.conv, shape_.n_embd});
  }

  const GptShape& shape_;
  std::vector<FileTensor> tensors_;
};

}  // namespace

at::Tensor FileTensor::part_of(const at::Tensor& parameter_values) const {
  const at::Tensor part = parameter_values.narrow(-1, first, transposed ? shape.front() : shape.back());
  return transposed ? part.t() : part;
}

std::string_view prefix_of(Family family) { return family == Family::gpt2 ? "transformer." : "model."; }

std::vector<FileTensor> file_tensors(const GptShape& shape, Family family) {
  return family == Family::gpt2 ? gpt2_tensors(shape) : LlamaTensors(shape).take();
}

namespace {

std::optional<at::ScalarType> scalar_type(const std::string& dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "F16") return at::kHalf;
  if (dtype == "BF16") return at::kBFloat16;
  return std::nullopt;
}

template <typename Size>
std::string show_shape(std::span<const Size> shape) {
  std::vector<std::string> sizes;
  for (const Size size : shape) sizes.push_back(str(size));
  return str("[", join(sizes, ", "), "]");
}

std::string first_of(std::span<const std::string> names) {
  const std::size_t others = names.size() - 1;
  return quote(names.front()) + (others == 0 ? "" : str(" (and ", others, others == 1 ? " other)" : " others)"));
}

}  // namespace

TensorToWrite tensor_to_write(std::string name, const at::Tensor& values) {
  if (!values.is_contiguous() || values.scalar_type() != at::kFloat) throw Error::internal(str(name, " has gaps"));
  return {.name = std::move(name),
          .dtype = "F32",
          .shape = {values.sizes().begin(), values.sizes().end()},
          .bytes = std::as_bytes(std::span(values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())))};
}

void check_tensor(const SafetensorsFile& file, const TensorEntry& entry, std::span<const std::int64_t> shape) {
  const auto same = [](std::uint64_t have, std::int64_t want) { return have == static_cast<std::uint64_t>(want); };
  if (!std::equal(entry.shape.begin(), entry.shape.end(), shape.begin(), shape.end(), same)) {
    throw Error::input(str(file.path().string(), ": tensor ", quote(entry.name), " has the shape ",
                           show_shape(std::span<const std::uint64_t>(entry.shape)), ", and the model needs ",
                           show_shape(shape), "; check that the file and its config.json belong together"));
  }
  if (!scalar_type(entry.dtype)) {
    throw Error::input(str(file.path().string(), ": tensor ", quote(entry.name), " is stored as ", entry.dtype,
                           ", and only F32, F16 and BF16 can be read; save the model again in one of these"));
  }
}

at::Tensor read_tensor(const SafetensorsFile& file, const TensorEntry& entry) {
  const std::vector<std::int64_t> shape(entry.shape.begin(), entry.shape.end());
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(scalar_type(entry.dtype).value()));
  file.read(entry, {static_cast<std::byte*>(tensor.mutable_data_ptr()), entry.bytes()});
  return tensor;
}

void refuse_missing(const std::filesystem::path& file, std::span<const std::string> names) {
  throw Error::input(str(file.string(), ": has no tensor ", first_of(names),
                         ", which the model needs; check that the file and its config.json belong together"));
}

void refuse_unknown(const std::filesystem::path& file, std::span<const std::string> names) {
  throw Error::input(
      str(file.string(), ": holds the tensor ", first_of(names),
          ", which this model has no place for; check that the file and its config.json belong together"));
}

}  // namespace inkling
