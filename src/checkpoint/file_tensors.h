// Which tensors model.safetensors holds, and which part of the parameter arena each of them is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
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

}  // namespace inkling
