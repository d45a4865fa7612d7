// Tensors from and to safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "model/arena.h"

namespace inkling {

// Returns one parameter's part of `flat`, [arena.size()] float32 on the CPU, as an entry of a file. `flat` must outlive
// it.
TensorToWrite tensor_to_write(std::string name, const at::Tensor& flat, const Parameter& parameter);

// Throws Error input naming the file and the tensor unless it has this shape and a dtype that read_tensor() knows.
void check_tensor(const SafetensorsFile& file, const TensorEntry& entry, std::span<const std::int64_t> shape);

// Returns the tensor on the CPU, in the file's own dtype: F32, F16 or BF16.
at::Tensor read_tensor(const SafetensorsFile& file, const TensorEntry& entry);

// Throws an Error input: "FILE: has no tensor X (and 3 others); REMEDY". `names` is not empty.
[[noreturn]] void refuse_missing(const SafetensorsFile& file, std::span<const std::string> names);
[[noreturn]] void refuse_unknown(const SafetensorsFile& file, std::span<const std::string> names);

}  // namespace inkling
