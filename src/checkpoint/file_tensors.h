// Which tensors model.safetensors holds, which part of the parameter arena each of them is, and how a tensor is read
// and written.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
#include "formats/safetensors.h"
#include "model/parameters.h"

namespace inkling {

inline constexpr std::string_view head_name = "lm_head.weight";

// A tensor of the file is the columns [first, first + width) of a parameter, or these elements of a vector.
struct FileTensor {
  std::string name;                 // "model.layers.0.self_attn.k_proj.weight"
  std::vector<std::int64_t> shape;  // in the file
  std::string parameter;            // in the arena; the model may have none (bias: false), then the file has zeros
  std::int64_t first = 0;
  bool transposed = false;  // the file has [out, in], as torch.nn.Linear does; the arena has [in, out]

  // Returns the view of the parameter's tensor that has the file's shape.
  at::Tensor part_of(const at::Tensor& parameter_values) const;
};

// Returns the prefix of every name but the head's: "transformer." or "model.". Folders made elsewhere may leave it out.
std::string_view prefix_of(Family family);

// Returns the tensors of a model of this shape in the family, in the order of the arena. A tied head is none of them.
std::vector<FileTensor> file_tensors(const GptShape& shape, Family family);

// Returns a contiguous float32 tensor on the CPU, which must outlive it, as an entry of a file.
TensorToWrite tensor_to_write(std::string name, const at::Tensor& values);

// Throws Error input naming the file and the tensor unless it has this shape and a dtype that read_tensor() knows.
void check_tensor(const SafetensorsFile& file, const TensorEntry& entry, std::span<const std::int64_t> shape);

// Returns the tensor on the CPU, in the file's own dtype: F32, F16 or BF16.
at::Tensor read_tensor(const SafetensorsFile& file, const TensorEntry& entry);

// Throws an Error input: "FILE: has no tensor X (and 3 others); REMEDY". `names` is not empty.
[[noreturn]] void refuse_missing(const std::filesystem::path& file, std::span<const std::string> names);
[[noreturn]] void refuse_unknown(const std::filesystem::path& file, std::span<const std::string> names);

}  // namespace inkling
