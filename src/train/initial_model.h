// What a run starts from that model.init_from names: weights, and with them the shape and the tokenizer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "text/tokenizer.h"

namespace inkling {

struct InitialModel {
  std::filesystem::path folder;  // a checkpoint or a folder from elsewhere
  GptShape shape;
};

// Finds and checks the folder that model.init_from names; none for auto. Throws the errors of find_checkpoint(),
// check_checkpoint() and read_shape().
std::optional<InitialModel> find_initial_model(const ModelConfig& config);

// Completes the settings: what the person left out of the shape and of data.tokenizer becomes what the model has.
// Throws the errors of inherit_shape(), and Error input for a tokenizer that is not the model's.
Config inherit_model(Config config, const InitialModel& model);

// Does both.
Config complete_settings(const Config& asked);

// The same for a run that goes on, whose first model may be gone by now. `before`: the settings of its checkpoint.
Config inherit_settings(Config config, const Config& before);

// Throws Error input if the model has a tokenizer of its own to which a token of the data means something else.
void require_same_tokens(const Tokenizer& tokenizer, const InitialModel& model);

// Says what a model of `shape` has of the initial one, and what is cut or added: a line each.
std::vector<std::string> describe_initial_model(const InitialModel& model, const GptShape& shape);

}  // namespace inkling
