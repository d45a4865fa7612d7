// model.safetensors of a Hugging Face model folder, and ema.safetensors beside it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "model/arena.h"
#include "model/model.h"
#include "model/parameters.h"
#include "text/tokenizer.h"

namespace inkling {

// Which weights of a checkpoint: those that training goes on from, or their average (training.ema).
enum class SavedWeights { plain, ema };

// Whether a checkpoint has an average of its weights.
bool holds_average(const std::filesystem::path& folder);

// Writes the tensors of the model's family in float32. What the family has but the model lacks is written as zeros
// (biases) or ones (weights of norms). A tied output head is not written, because it is the token embedding. values:
// [layout.size()].
void write_model_weights(const std::filesystem::path& path, const GptShape& shape, const ParameterLayout& layout,
                         const at::Tensor& values);

// Returns the shape of the model in a checkpoint or any folder of a known family in Hugging Face's format: in one file
// or several with an index, with or without the prefix of the names, and with what older programs stored beside the
// weights. A tied head that is stored all the same and differs from the token table is the model's, which is then not
// tied; the log says so. Throws Error input naming file and field or tensor for whatever is missing, left over, of the
// wrong shape or cannot be computed here, and warns of keys of config.json that it does not know. It reads no tensor
// but such a head, part by part, so that a folder is refused before memory is taken for it.
GptShape read_shape(const std::filesystem::path& folder);

// Fills the arena of a model of that shape: float32, float16 and bfloat16 are converted. It checks the same as
// read_shape(); after an Error the arena may be partly filled. Weights that are not finite are refused by name, and so
// is a folder without an average where that is asked for.
void load_weights(const std::filesystem::path& folder, const GptShape& shape, ParameterArena& arena,
                  SavedWeights which = SavedWeights::plain);

// Fills the arena of a new model from a folder whose model differs in nothing but the vocabulary and the block.
// Positions beyond the block are left out, and those that the folder lacks stay as the arena has them. A token that the
// folder lacks begins as the mean of all it has: one near zero would be the likeliest of all, as GPT-2's logits are far
// below zero (Hewitt 2021). Errors as load_weights().
void load_initial_weights(const std::filesystem::path& folder, const GptShape& shape, ParameterArena& arena);

// Returns the name of a tensor that holds infinity or NaN; none if all are finite. It takes one pass over the arena, on
// its device.
std::optional<std::string> tensor_not_finite(const ParameterArena& arena);

// A model that is ready for use.
struct LoadedModel {
  std::filesystem::path folder;
  Runtime runtime;
  std::unique_ptr<ParameterArena> arena;  // without gradients
  std::unique_ptr<Model> model;           // views into the arena
  std::unique_ptr<Tokenizer> tokenizer;   // null where the folder holds none
};

// Opens a checkpoint or any folder of a family that it knows in Hugging Face's format. Throws Error input if the folder
// is neither, if it is damaged, if its tokenizer has more tokens than the model, or if it has no such weights.
LoadedModel load_model(const std::filesystem::path& folder, const Runtime& runtime,
                       SavedWeights which = SavedWeights::plain);

// Returns the tokenizer of a model. Throws Error input, saying what to do, if there is none.
const Tokenizer& require_tokenizer(const LoadedModel& model);

}  // namespace inkling
