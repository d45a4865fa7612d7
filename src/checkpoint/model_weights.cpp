#include "checkpoint/model_weights.h"

#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>

#include <algorithm>
#include <cmath>
#include <limits>
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
#include "checkpoint/stored_weights.h"
#include "formats/safetensors.h"

namespace inkling {

namespace {

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
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

// Whether they differ at most in what the folder's files decide: whether the head is the token table.
bool are_alike(GptShape described, const GptShape& shape) {
  described.tie_embeddings = shape.tie_embeddings;
  return described == shape;
}

void tell_of_tensors(const fs::path& folder, const StoredWeights& weights) {
  if (weights.has_other_head()) {
    log_info(str(folder.string(),
                 ": lm_head.weight is not the token table, so the model has an output head of its own, ",
                 "although config.json ties the two (tie_word_embeddings)"));
  }
  const std::vector<std::string>& old = weights.passed_over();
  if (old.empty()) return;
  log_info(str(folder.string(), ": passing over ", old.size(), old.size() == 1 ? " tensor" : " tensors",
               " that older programs stored beside the weights, masks and angles: ", old.front(),
               old.size() == 1 ? "" : ", …"));
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
void copy_weights(const StoredWeights& weights, ParameterArena& arena) {
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
  const StoredWeights weights(folder, model);
  tell_of_tensors(folder, weights);
  return weights.shape();
}

void load_weights(const fs::path& folder, const GptShape& shape, ParameterArena& arena, SavedWeights which) {
  const ModelDescription model = read_model_config(folder);
  if (!are_alike(model.shape, shape)) refuse_shape(folder);
  const StoredWeights weights(folder, model, which);
  if (weights.shape() != shape) refuse_shape(folder);
  copy_weights(weights, arena);
  arena.refresh_compute();
}

void load_initial_weights(const fs::path& folder, const GptShape& shape, ParameterArena& arena) {
  const ModelDescription model = read_model_config(folder);
  GptShape fitted = model.shape;
  fitted.block_size = shape.block_size;
  fitted.vocab_size = shape.vocab_size;
  if (!are_alike(fitted, shape) || model.shape.vocab_size > shape.vocab_size) refuse_shape(folder);
  const StoredWeights weights(folder, model);
  if (weights.shape().tie_embeddings != shape.tie_embeddings) refuse_shape(folder);
  copy_weights(weights, arena);
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
