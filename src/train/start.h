// What a run starts from: a checkpoint of its own, from which it goes on, or the model that model.init_from names,
// whose weights, shape and tokenizer it takes.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "config/resume_policy.h"
#include "text/tokenizer.h"

namespace inkling {

struct InitialModel {
  std::filesystem::path folder;  // a checkpoint or a folder from elsewhere
  GptShape shape;
  std::unique_ptr<Tokenizer> tokenizer;  // null where the folder holds none
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

// Throws Error input if the model has a tokenizer to which a token of the data means something else.
void require_same_tokens(const Tokenizer& tokenizer, const InitialModel& model);

// Says what a model of `shape` has of the initial one, and what is cut or added: a line each.
std::vector<std::string> describe_initial_model(const InitialModel& model, const GptShape& shape);

// What a run goes on from.
struct Resume {
  std::filesystem::path checkpoint;
  TrainingState state;
  std::int64_t max_steps = 0, patience = 0;  // of the settings that it was saved with
};

// Returns none for a new run; `config` is completed by the checkpoint's settings too where it began with a model.
// Throws the errors of newest_checkpoint() and check_changes().
std::optional<Resume> find_resume(const std::filesystem::path& run, Config& config, bool accept_changes);

// Compares the settings of the newest checkpoint with those asked for: lists every change on stderr, and throws Error
// input where one needs consent that is not given, or cannot apply at all: CannotGoOn. `run` is what
// the run made of `auto`.
void check_changes(const Config& before, const Config& after, const Resolved& run, bool accept_changes);

// Returns what to tell of a run that goes on after `step` steps where training.max_steps, which the end of its schedule
// follows, is another one now, so that its next step has another learning rate; "" where it has the same.
std::string describe_new_rates(const Config& before, const Config& after, std::int64_t step);

}  // namespace inkling
