// A model from a checkpoint folder, ready for use.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/model_weights.h"
#include "model/arena.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace inkling {

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
