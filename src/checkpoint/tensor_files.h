// Tensors from and to safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"

namespace inkling {

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
