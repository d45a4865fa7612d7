// A run's state on disk. A checkpoint folder is a Hugging Face model folder (GPT2LMHeadModel) with what a run needs
// besides: optimizer.safetensors, state.json, the run's config.yaml and the tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/arena.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "text/tokenizer.h"

namespace inkling {

// What state.json holds: everything the next step depends on that is not a tensor.
struct TrainingState {
  std::int64_t step = 0;                // steps done; the next one has this number
  std::optional<double> best_val_loss;  // nats per token; always finite
  std::int64_t best_step = -1;
  std::string data_hash;           // Dataset::hash of the data it was trained on
  double seconds = 0;              // training time so far
  std::int64_t skipped_steps = 0;  // steps whose gradient was not finite: no update was made
  std::int64_t skipped_in_a_row = 0;
  Resolved resolved;  // what `auto` meant
};

// Takes note of a validation loss of the step that the state is of; returns whether it is the best so far. One that is
// not finite never is.
bool note_validation_loss(TrainingState& state, double loss);

// Writes a checkpoint folder, from a CPU or a GPU: under a temporary name, fsynced, renamed. What is there under that
// name is replaced in one step. Killed at any moment it leaves either the old or the new state under `folder`; an Error
// environment (disk full …) leaves the old one, and so does Error diverged for weights that are not finite. tokenizer
// may be null (ready token files).
void save_checkpoint(const std::filesystem::path& folder, const Config& config, const GptShape& shape,
                     const ParameterArena& arena, const AdamW& optimizer, const TrainingState& state,
                     const Tokenizer* tokenizer);

// To be called before anything of a checkpoint is believed: reads every file that its state.json lists, and refuses one
// that is not as it was saved. Error input naming the first such file, Error environment for one that cannot be read.
// Warns of a checkpoint of version 1, which can be checked in part only. A model folder from elsewhere has no
// state.json, and nothing to check it by.
void check_checkpoint(const std::filesystem::path& folder);

// The shape of the model in a checkpoint or any GPT-2 folder in Hugging Face's format, with or without the
// "transformer." prefix, the mask buffers of old files and a copy of the tied head. Error input naming file and field
// or tensor for whatever is missing, left over, misshapen or cannot be computed here. Reads no tensor, so that a folder
// is refused before memory is taken for it.
GptShape read_shape(const std::filesystem::path& folder);

// Fills the arena of a model of that shape: float32, float16 and bfloat16 are converted. Checks the same; an arena that
// met an Error may be partly filled. Weights that are not finite are refused by name.
void load_weights(const std::filesystem::path& folder, const GptShape& shape, ParameterArena& arena);

// The moments and the number of updates made, bit for bit. Error input as above.
void load_optimizer(const std::filesystem::path& folder, const ParameterArena& arena, AdamW& optimizer);

// Every number as it was saved. Error input as above.
TrainingState load_state(const std::filesystem::path& folder);

// runs/x/checkpoints/step-000500: where the checkpoint of that step belongs.
std::filesystem::path checkpoint_folder(const std::filesystem::path& run, std::int64_t step);

// A checkpoint of a run folder: "newest", "best" (by validation loss), a step, or nothing: the best one if there is
// one, else the newest. `place` may also be a checkpoint or model folder itself, and then `which` must be empty. Looks
// at the files' sizes only: check_checkpoint() is for the one that is taken. Warns of damaged ones that it passes over.
// Error input saying what is there instead, Error environment for what cannot be read.
std::filesystem::path find_checkpoint(const std::filesystem::path& place, const std::string& which);

// The checkpoint a run goes on from: the newest one that check_checkpoint() accepts. None if there is no checkpoint at
// all. Warns of newer ones that are damaged, and says why; they stay where they are until the run saves that step
// again. Error input if there are checkpoints and none can be used, with each one's reason, or if a newer version of
// this program wrote the newest; Error environment if one cannot be read.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run);

// After the save of state.step: removes all checkpoints but the `keep` newest (at least one) and the best one, and what
// killed processes left behind a minute or longer ago. What cannot be removed is a warning. Damaged checkpoints stay:
// they are the person's to judge. So do those of later steps, which the run passed over when it was resumed. Where one
// cannot be read, nothing is removed, because it is not known which are the newest.
void prune_checkpoints(const std::filesystem::path& run, const TrainingState& state, std::int64_t keep);

}  // namespace inkling
