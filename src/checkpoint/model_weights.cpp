#include "checkpoint/model_weights.h"

#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"
#include "checkpoint/tensor_files.h"
#include "formats/safetensors.h"

namespace inkling {
namespace {

constexpr std::string_view head_name = "lm_head.weight";

// Hugging Face's GPT-2 always has biases.
std::vector<ParameterSpec> file_parameters(GptShape shape) {
  shape.bias = true;
  return gpt_parameters(shape);
}

// The causal masks that old versions of transformers stored next to the weights.
bool is_mask_buffer(const std::string& name) {
  return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

SafetensorsFile open_weights(const fs::path& folder) {
  const fs::path path = folder / "model.safetensors";
  if (is_there(path)) return SafetensorsFile(path);
  const std::string resave =
      "open it in Python with transformers and save it again: "
      "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER, ";
  if (is_there(folder / "model.safetensors.index.json")) {
    throw Error::input(str(folder.string(),
                           ": the model is split into several files, and only one model.safetensors can "
                           "be read; ",
                           resave, "max_shard_size=\"1000GB\")"));
  }
  if (is_there(folder / "pytorch_model.bin")) {
    throw Error::input(str(folder.string(),
                           ": holds pytorch_model.bin and no model.safetensors. Such a file is a Python "
                           "pickle, which can run any program when it is opened, so it is not read; if you trust it, ",
                           resave, "safe_serialization=True)"));
  }
  throw Error::input(str(folder.string(), ": holds no model.safetensors; give a model's or a checkpoint's folder"));
}

// The tensors of a file under the arena's names, checked against the shape: all are there, and none is left over.
struct WeightsFile {
  SafetensorsFile file;
  bool prefixed = false;
  std::map<std::string, const TensorEntry*> entries;
  const TensorEntry* head = nullptr;  // a stored output head

  WeightsFile(const fs::path& folder, const GptShape& shape) : file(open_weights(folder)) {
    prefixed = file.find(str(weights_prefix, "wte.weight")) != nullptr;
    sort_entries();
    const std::vector<ParameterSpec> specs = file_parameters(shape);
    check_names(specs);
    for (const ParameterSpec& spec : specs) check_tensor(file, *entries.at(spec.name), spec.shape);
    if (head != nullptr) check_tensor(file, *head, specs.front().shape);
  }

 private:
  void sort_entries() {
    std::vector<std::string> unknown;
    for (const TensorEntry& entry : file.header().tensors) {
      const bool named_like_the_others = entry.name.starts_with(weights_prefix) == prefixed;
      const std::string name =
          prefixed && named_like_the_others ? entry.name.substr(weights_prefix.size()) : entry.name;
      if (entry.name == head_name)
        head = &entry;
      else if (!named_like_the_others)
        unknown.push_back(entry.name);
      else if (!is_mask_buffer(name))
        entries[name] = &entry;
    }
    if (!unknown.empty()) refuse_unknown(file, unknown);
  }

  void check_names(const std::vector<ParameterSpec>& specs) const {
    std::vector<std::string> missing, unknown;
    std::map<std::string, const TensorEntry*> left = entries;
    for (const ParameterSpec& spec : specs) {
      if (left.erase(spec.name) == 0) missing.push_back(str(prefixed ? weights_prefix : "", spec.name));
    }
    if (!missing.empty()) refuse_missing(file, missing);
    for (const auto& [name, entry] : left) unknown.push_back(entry->name);
    if (!unknown.empty()) refuse_unknown(file, unknown);
  }
};

at::Tensor read_float32(const SafetensorsFile& file, const TensorEntry& entry) {
  return read_tensor(file, entry).to(at::kFloat);  // from the file's dtype
}

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

void check_head(const WeightsFile& weights, const fs::path& folder) {
  if (weights.head == nullptr) return;
  const at::Tensor head = read_float32(weights.file, *weights.head);
  const at::Tensor embedding = read_float32(weights.file, *weights.entries.at("wte.weight"));
  if (std::memcmp(head.const_data_ptr(), embedding.const_data_ptr(), embedding.nbytes()) == 0) return;
  throw Error::input(str(weights.file.path().string(),
                         ": lm_head.weight is not the token embedding: an output head of "
                         "its own (untied) cannot be computed here; choose a model other than ",
                         folder.string()));
}

// A model that was trained without biases has zeros there, or it is no longer that model.
void check_absent_bias(const WeightsFile& weights, const std::string& name) {
  const TensorEntry& entry = *weights.entries.at(name);
  const at::Tensor bias = read_float32(weights.file, entry);
  const std::span<const float> values = values_of(bias);
  if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0.0f; })) return;
  throw Error::input(
      str(weights.file.path().string(), ": tensor ", quote(entry.name),
          " is not zero, and config.json says "
          "\"inkling\": {\"bias\": false}; if the model was trained on elsewhere, remove that entry from "
          "config.json"));
}

}  // namespace

std::optional<std::string> tensor_not_finite(const ParameterArena& arena) {
  const at::Tensor largest = at::linalg_vector_norm(arena.values(), std::numeric_limits<double>::infinity());
  if (std::isfinite(largest.item<float>())) return std::nullopt;
  for (const Parameter& parameter : arena.parameters()) {
    const at::Tensor values = arena.master(parameter.spec.name).cpu();
    const std::span<const float> numbers = values_of(values);
    const bool finite = std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
    if (!finite) return parameter.spec.name;
  }
  return std::nullopt;
}

void write_model_weights(const fs::path& path, const GptShape& shape, const ParameterArena& arena) {
  const at::Tensor values = arena.values().cpu();
  const std::vector<float> zeros(static_cast<std::size_t>(4 * shape.n_embd));  // as long as the longest bias
  std::map<std::string_view, const Parameter*> present;
  for (const Parameter& parameter : arena.parameters()) present[parameter.spec.name] = &parameter;

  std::vector<TensorToWrite> tensors;
  for (const ParameterSpec& spec : file_parameters(shape)) {
    const std::string name = str(weights_prefix, spec.name);
    if (const auto found = present.find(spec.name); found != present.end()) {
      tensors.push_back(tensor_to_write(name, values, *found->second));
    } else {
      const auto count = static_cast<std::size_t>(spec.shape.front());
      const std::span<const float> bias(zeros.data(), count);
      tensors.push_back({.name = name, .dtype = "F32", .shape = {count}, .bytes = std::as_bytes(bias)});
    }
  }
  write_safetensors(path, std::move(tensors), {{"format", "pt"}});  // transformers asks for this
}

GptShape read_shape(const fs::path& folder) {
  const GptShape shape = read_model_config(folder);
  const WeightsFile checked(folder, shape);
  return shape;
}

void load_weights(const fs::path& folder, const GptShape& shape, ParameterArena& arena) {
  if (read_model_config(folder) != shape) {
    throw Error::input(str((folder / "config.json").string(),
                           ": describes a model of another shape than the one to be "
                           "filled; start a new run, or choose the checkpoint that belongs to this one"));
  }
  const WeightsFile weights(folder, shape);
  check_head(weights, folder);
  if (!shape.bias) {
    const std::vector<ParameterSpec> specs = file_parameters(shape);
    for (const ParameterSpec& spec : specs) {
      if (spec.name.ends_with(".bias")) check_absent_bias(weights, spec.name);
    }
  }
  for (const Parameter& parameter : arena.parameters()) {
    // copy_: from the file's dtype to float32, and to the arena's device.
    arena.master(parameter.spec.name).copy_(read_tensor(weights.file, *weights.entries.at(parameter.spec.name)));
  }
  if (const auto name = tensor_not_finite(arena)) {
    throw Error::input(
        str(weights.file.path().string(), ": tensor ", quote(weights.entries.at(*name)->name),
            " holds numbers that are not finite (NaN or infinity): the training that made it diverged; choose "
            "an older checkpoint or another model; to go on with the run from an older one, move this folder away"));
  }
  arena.refresh_compute();
}

}  // namespace inkling
