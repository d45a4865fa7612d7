#include "checkpoint/tensor_files.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {
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
