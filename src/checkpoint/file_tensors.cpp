#include "checkpoint/file_tensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

std::string name_of(std::string_view name, Family family) {
  return name == head_name ? std::string(name) : str(prefix_of(family), name);
}

// GPT-2's file has every parameter whole, and always biases.
std::vector<FileTensor> gpt2_tensors(GptShape shape) {
  shape.bias = Bias::all;
  std::vector<FileTensor> tensors;
  for (const ParameterSpec& spec : gpt_parameters(shape)) {
    tensors.push_back({.name = name_of(spec.name, Family::gpt2), .shape = spec.shape, .parameter = spec.name});
  }
  return tensors;
}

// Llama's file has queries, keys and values each for itself, and each with its bias behind it.
std::vector<FileTensor> llama_tensors(const GptShape& shape, Family family) {
  std::vector<FileTensor> tensors;
  for (const GptParameter& parameter : list_parameters(shape)) {
    std::ptrdiff_t others = static_cast<std::ptrdiff_t>(parameter.llama.size());  // weights that stand behind a bias
    for (const FileColumns& columns : parameter.llama) {
      std::vector<std::int64_t> sizes = parameter.spec.shape;
      sizes.back() = columns.count;
      if (parameter.transposed) std::swap(sizes.front(), sizes.back());
      --others;
      tensors.insert(tensors.end() - (parameter.transposed ? 0 : others), {.name = name_of(columns.name, family),
                                                                           .shape = std::move(sizes),
                                                                           .parameter = parameter.spec.name,
                                                                           .first = columns.first,
                                                                           .transposed = parameter.transposed});
    }
  }
  return tensors;
}

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

at::Tensor FileTensor::part_of(const at::Tensor& parameter_values) const {
  const at::Tensor part = parameter_values.narrow(-1, first, transposed ? shape.front() : shape.back());
  return transposed ? part.t() : part;
}

std::string_view prefix_of(Family family) { return family == Family::gpt2 ? "transformer." : "model."; }

std::vector<FileTensor> file_tensors(const GptShape& shape, Family family) {
  switch (family) {
    case Family::gpt2:
      return gpt2_tensors(shape);
    case Family::llama:
    case Family::qwen2:
    case Family::qwen3:
    case Family::mistral:
    case Family::inkling:
      return llama_tensors(shape, family);
  }
  throw Error::internal("an unknown family");
}

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
