#include "checkpoint/model_weights.h"

#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/choose.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/file_tensors.h"
#include "checkpoint/model_config.h"
#include "formats/json.h"
#include "formats/model_place.h"
#include "formats/safetensors.h"

namespace inkling {

namespace {

// Buffers that old versions of transformers stored next to the weights: GPT-2's causal masks, and Llama's angles.
bool is_old_buffer(std::string_view name) {
  const bool is_mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  return (name.starts_with("h.") && is_mask) || name.ends_with(".rotary_emb.inv_freq");
}

std::vector<SafetensorsFile> open_average(const fs::path& folder) {
  if (!holds_average(folder)) {
    throw Error::input(str(folder.string(),
                           ": holds no ema.safetensors, because the run kept no average of its weights when it was "
                           "saved; take the weights as trained, choose another checkpoint, such as the newest, or "
                           "train with training.ema: 0.999 or the like"));
  }
  std::vector<SafetensorsFile> files;
  files.emplace_back(folder / "ema.safetensors");
  return files;
}

// Opens model.safetensors, or the files that an index names.
std::vector<SafetensorsFile> open_weights(const fs::path& folder) {
  std::vector<SafetensorsFile> files;
  const fs::path index = folder / "model.safetensors.index.json";
  if (is_there(folder / "model.safetensors")) {
    files.emplace_back(folder / "model.safetensors");
  } else if (is_there(index)) {
    const JsonFields fields(index, model_remedy);
    std::set<std::string> names;
    for (const auto& [tensor, name] : fields.named_texts("weight_map")) names.insert(name);
    for (const std::string& name : names) {
      if (fs::path(name).filename() != name || !name.ends_with(".safetensors")) {
        fields.refuse(str("weight_map names ", quote(name), ", and must name .safetensors files beside it"));
      }
      if (!is_there(folder / name)) {
        throw Error::input(str((folder / name).string(), ": the index beside it names this file, and it is not there; ",
                               "fetch it too, or the whole model: hf download OWNER/NAME --local-dir ",
                               folder.string()));
      }
      files.emplace_back(folder / name);
    }
    if (files.empty()) fields.refuse("weight_map names no file");
  } else {
    refuse_other_forms(folder);
    throw Error::input(str(folder.string(), ": holds no model.safetensors; fetch it from where config.json came from, ",
                           "or give another model's or checkpoint's folder"));
  }
  return files;
}

// A tensor in one of the files.
struct Stored {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;

  at::Tensor read() const { return read_tensor(*file, *entry); }
  at::Tensor read_float32() const { return read().to(at::kFloat); }  // from the file's dtype
  std::string path() const { return file->path().string(); }
};

// The tensors of a folder, checked against the shape: all are there, and none is left over.
class StoredWeights {
 public:
  StoredWeights(const fs::path& folder, const ModelDescription& model, SavedWeights which = SavedWeights::plain)
      : files_(which == SavedWeights::ema ? open_average(folder) : open_weights(folder)),
        prefix_(prefix_of(model.family)),
        tensors_(file_tensors(model.shape, model.family)) {
    const auto is_first = [&](const TensorEntry& entry) { return entry.name == tensors_.front().name; };
    for (const SafetensorsFile& file : files_) {
      prefixed_ = prefixed_ || std::any_of(file.header().tensors.begin(), file.header().tensors.end(), is_first);
    }
    const auto is_head = [](const FileTensor& tensor) { return tensor.name == head_name; };
    is_tied_ = std::none_of(tensors_.begin(), tensors_.end(), is_head);
    sort_entries();
    check_names();
    for (const FileTensor& tensor : tensors_) check(stored(tensor), tensor.shape);
    if (head_.entry != nullptr) check(head_, tensors_.front().shape);
  }

  const std::vector<FileTensor>& tensors() const { return tensors_; }
  const Stored& stored(const FileTensor& tensor) const { return stored_.at(tensor.name); }
  const Stored& head() const { return head_; }  // a stored copy of the tied head, or without entry

 private:
  static void check(const Stored& stored, std::span<const std::int64_t> shape) {
    check_tensor(*stored.file, *stored.entry, shape);
  }

  static void put(Stored& place, const Stored& found) {
    if (place.entry != nullptr) {
      throw Error::input(str(found.path(), ": holds the tensor ", quote(found.entry->name), ", which ", place.path(),
                             " holds too; fetch or save the model again"));
    }
    place = found;
  }

  // Names of a file without the prefix are completed.
  void sort_entries() {
    for (const SafetensorsFile& file : files_) {
      for (const TensorEntry& entry : file.header().tensors) {
        const bool has_prefix = entry.name.starts_with(prefix_);
        const std::string name = has_prefix || prefixed_ ? entry.name : str(prefix_, entry.name);
        if (entry.name == head_name) {
          put(is_tied_ ? head_ : stored_[entry.name], {&file, &entry});
        } else if (has_prefix != prefixed_) {
          refuse_unknown(file.path(), std::vector{entry.name});
        } else if (!is_old_buffer(std::string_view(name).substr(prefix_.size()))) {
          put(stored_[name], {&file, &entry});
        }
      }
    }
  }

  void check_names() const {
    std::vector<std::string> missing, unknown;
    std::map<std::string, Stored> left = stored_;
    for (const FileTensor& tensor : tensors_) {
      const bool is_whole = prefixed_ || tensor.name == head_name;
      if (left.erase(tensor.name) == 0) missing.push_back(tensor.name.substr(is_whole ? 0 : prefix_.size()));
    }
    if (!missing.empty()) refuse_missing(files_.front().path(), missing);
    for (const auto& [name, stored] : left) unknown.push_back(stored.entry->name);
    if (!unknown.empty()) refuse_unknown(left.begin()->second.file->path(), unknown);
  }

  std::vector<SafetensorsFile> files_;
  std::string_view prefix_;
  std::vector<FileTensor> tensors_;
  bool prefixed_ = false, is_tied_ = true;
  std::map<std::string, Stored> stored_;
  Stored head_;
};

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

void check_head(const StoredWeights& weights, const fs::path& folder) {
  if (weights.head().entry == nullptr) return;
  const at::Tensor head = weights.head().read_float32();
  const at::Tensor embedding = weights.stored(weights.tensors().front()).read_float32();
  if (std::memcmp(head.const_data_ptr(), embedding.const_data_ptr(), embedding.nbytes()) == 0) return;
  throw Error::input(str(weights.head().path(),
                         ": lm_head.weight is not the token embedding, and config.json does not say "
                         "\"tie_word_embeddings\": false; check that they belong together, in ",
                         folder.string()));
}

// What the file holds for a parameter that the model has not: zeros for biases, ones for the weights of norms.
float absent_value(std::string_view parameter) { return parameter.ends_with(".bias") ? 0.0f : 1.0f; }

// A model that was trained without a parameter has these values there, or it is no longer that model.
void check_absent(const Stored& stored, std::string_view parameter) {
  const at::Tensor tensor = stored.read_float32();
  const std::span<const float> values = values_of(tensor);
  const float absent = absent_value(parameter);
  if (std::all_of(values.begin(), values.end(), [&](float value) { return value == absent; })) return;
  throw Error::input(str(stored.path(), ": tensor ", quote(stored.entry->name), " is not all ", absent,
                         ", and config.json says ", quote(absent == 0.0f ? "bias" : "norm_weights"),
                         ": false; if the model was trained on elsewhere, remove that entry from config.json"));
}

std::set<std::string> names_of(const ParameterLayout& layout) {
  std::set<std::string> names;
  for (const Parameter& parameter : layout.parameters()) names.insert(parameter.spec.name);
  return names;
}

[[noreturn]] void refuse_shape(const fs::path& folder) {
  throw Error::input(str((folder / "config.json").string(),
                         ": describes a model of another shape than the one to be "
                         "filled; start a new run, or choose the checkpoint that belongs to this one"));
}

void warn_of_unknown_keys(const fs::path& folder, const ModelDescription& model) {
  if (model.unknown_keys.empty()) return;
  log_warning(
      str((folder / "config.json").string(), ": inkling does not know ", join(model.unknown_keys, ", "),
          ", and computes the model without; if that changes what the model computes, its losses and texts are ",
          "wrong here"));
}

void check_finite(const StoredWeights& weights, const ParameterArena& arena) {
  const auto name = tensor_not_finite(arena);
  if (!name) return;
  for (const FileTensor& tensor : weights.tensors()) {
    if (tensor.parameter != *name) continue;
    const Stored& stored = weights.stored(tensor);
    if (stored.read_float32().isfinite().all().item<bool>()) continue;
    throw Error::input(
        str(stored.path(), ": tensor ", quote(stored.entry->name),
            " holds numbers that are not finite (NaN or infinity): the training that made it diverged; choose "
            "an older checkpoint or another model; to go on with the run from an older one, move this folder away"));
  }
}

bool is_table(std::string_view parameter) {
  return parameter == "wte.weight" || parameter == "wpe.weight" || parameter == head_name;
}

// Copies every tensor of the file into the arena: of a table with more or fewer rows, those that both have.
void copy_weights(const StoredWeights& weights, const fs::path& folder, ParameterArena& arena) {
  check_head(weights, folder);
  const std::set<std::string> present = names_of(arena);
  for (const FileTensor& tensor : weights.tensors()) {
    if (!present.contains(tensor.parameter)) {
      check_absent(weights.stored(tensor), tensor.parameter);
      continue;
    }
    at::Tensor to = arena.master(tensor.parameter), from = weights.stored(tensor).read();
    if (is_table(tensor.parameter)) {
      const std::int64_t rows = std::min(to.size(0), from.size(0));
      to = to.narrow(0, 0, rows), from = from.narrow(0, 0, rows);
    }
    tensor.part_of(to).copy_(from);  // from the file's dtype to float32, and to the arena's device
  }
  check_finite(weights, arena);
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

bool holds_average(const fs::path& folder) { return is_there(folder / "ema.safetensors"); }

void write_model_weights(const fs::path& path, const GptShape& shape, const ParameterLayout& layout,
                         const at::Tensor& values) {
  const at::Tensor all = values.cpu();
  const std::set<std::string> present = names_of(layout);
  std::vector<at::Tensor> on_host;  // until they are written
  std::vector<TensorToWrite> tensors;
  for (const FileTensor& tensor : file_tensors(shape, family_of(shape))) {
    on_host.push_back(present.contains(tensor.parameter)
                          ? tensor.part_of(layout.parameter(tensor.parameter).part_of(all)).contiguous()
                          : at::full(tensor.shape, absent_value(tensor.parameter)));
    tensors.push_back(tensor_to_write(tensor.name, on_host.back()));
  }
  write_safetensors(path, std::move(tensors), {{"format", "pt"}});  // transformers asks for this
}

GptShape read_shape(const fs::path& folder) {
  const ModelDescription model = read_model_config(folder);
  warn_of_unknown_keys(folder, model);
  const StoredWeights checked(folder, model);
  return model.shape;
}

void load_weights(const fs::path& folder, const GptShape& shape, ParameterArena& arena, SavedWeights which) {
  const ModelDescription model = read_model_config(folder);
  if (model.shape != shape) refuse_shape(folder);
  const StoredWeights weights(folder, model, which);
  copy_weights(weights, folder, arena);
  arena.refresh_compute();
}

void load_initial_weights(const fs::path& folder, const GptShape& shape, ParameterArena& arena) {
  const ModelDescription model = read_model_config(folder);
  GptShape fitted = model.shape;
  fitted.block_size = shape.block_size;
  fitted.vocab_size = shape.vocab_size;
  if (fitted != shape || model.shape.vocab_size > shape.vocab_size) refuse_shape(folder);
  const StoredWeights weights(folder, model);
  copy_weights(weights, folder, arena);
  const std::int64_t known = model.shape.vocab_size, added = shape.vocab_size - known;
  for (const Parameter& parameter : arena.parameters()) {
    const std::string& name = parameter.spec.name;
    if (added == 0 || !is_table(name) || name == "wpe.weight") continue;
    const at::Tensor table = arena.master(name);
    table.narrow(0, known, added).copy_(table.narrow(0, 0, known).mean({0}, true, at::kDouble));
  }
  arena.refresh_compute();
}

namespace fs = std::filesystem;

LoadedModel load_model(const fs::path& folder, const Runtime& runtime, SavedWeights which) {
  check_checkpoint(folder);
  const GptShape shape = read_shape(folder);
  const Runtime fitting = runtime_for(shape, runtime);
  LoadedModel loaded{.folder = folder, .runtime = fitting, .arena = {}, .model = {}, .tokenizer = {}};
  if (holds_tokenizer(folder)) loaded.tokenizer = load_tokenizer(folder);
  if (loaded.tokenizer && loaded.tokenizer->vocab_size() > static_cast<std::uint64_t>(shape.vocab_size)) {
    throw Error::input(str(folder.string(), ": its tokenizer has ", format_count(loaded.tokenizer->vocab_size()),
                           " tokens and its model knows only ", shape.vocab_size,
                           "; put the tokenizer of this model into the folder"));
  }
  loaded.arena = make_arena(shape, fitting, Use::inference);
  load_weights(folder, shape, *loaded.arena, which);
  loaded.arena->release_master(choose_backend(fitting).activation_dtype(fitting.dtype));
  loaded.model = make_model(shape, *loaded.arena, fitting);
  return loaded;
}

const Tokenizer& require_tokenizer(const LoadedModel& model) {
  if (model.tokenizer) return *model.tokenizer;
  throw Error::input(
      str(model.folder.string(),
          " holds no tokenizer (inkling_tokenizer.json), so text cannot be turned into "
          "its tokens: the model comes from elsewhere or was trained on ready token files. If you have "
          "the tokenizer of its data as inkling saved it, copy it into this folder; of nanoGPT's meta.pkl "
          "scripts/from-nanogpt META.pkl ",
          model.folder.string(), " makes one there"));
}

}  // namespace inkling
