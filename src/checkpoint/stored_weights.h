// The tensors of a model's folder, found by their names and checked against its shape, before any of them is read.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/file_tensors.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "formats/safetensors.h"

namespace inkling {

// A tensor in one of the files.
struct Stored {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;

  at::Tensor read() const { return read_tensor(*file, *entry); }
  at::Tensor read_float32() const { return read().to(at::kFloat); }  // from the file's dtype
  std::string path() const { return file->path().string(); }
};

// Opens model.safetensors, or the files that an index names, or ema.safetensors. All tensors of the shape are there and
// fit, and no other is, but for buffers that older programs stored. Throws Error input naming file and tensor.
class StoredWeights {
 public:
  StoredWeights(const std::filesystem::path& folder, const ModelDescription& model,
                SavedWeights which = SavedWeights::plain);

  // As config.json describes the model, but with an output head of its own where the file holds one that is not the
  // token table, as transformers 5 has it.
  const GptShape& shape() const { return shape_; }
  bool has_other_head() const { return has_other_head_; }  // than config.json says

  const std::vector<FileTensor>& tensors() const { return tensors_; }
  const Stored& stored(const FileTensor& tensor) const { return stored_.at(tensor.name); }

  // Names of buffers that are no part of the model: masks and angles, which older programs stored beside the weights.
  const std::vector<std::string>& passed_over() const { return passed_over_; }

 private:
  void sort_entries();
  void check_names() const;
  void check_head();

  std::vector<SafetensorsFile> files_;
  GptShape shape_;
  Family family_;
  std::string_view prefix_;
  std::vector<FileTensor> tensors_;
  bool prefixed_ = false, is_tied_ = true, has_other_head_ = false;
  std::map<std::string, Stored> stored_;
  Stored head_;  // beside a tied token table, or without entry
  std::vector<std::string> passed_over_;
};

}  // namespace inkling
