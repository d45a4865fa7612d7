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
  std::int64_t step = 0;                    // steps done; the next one has this number
  std::optional<double> best_val_loss;      // nats per token
  std::int64_t best_step = -1;
  std::string data_hash;                    // Dataset::hash of the data it was trained on
  double seconds = 0;                       // training time so far
  std::int64_t skipped_steps = 0;           // steps whose gradient was not finite: no update was made
  std::int64_t skipped_in_a_row = 0;
  RuntimeConfig resolved;                   // what `auto` meant
};

// Writes runs/x/checkpoints/step-000500: under a temporary name, fsynced, renamed. An existing folder of that name
// is replaced. tokenizer may be null (ready token files).
void save_checkpoint(const std::filesystem::path& folder, const Config& config, const GptShape& shape,
                     const ParameterArena& arena, const AdamW& optimizer, const TrainingState& state,
                     const Tokenizer* tokenizer);

// Reads the weights of any GPT-2 model folder in Hugging Face's format, with or without the "transformer." prefix and
// the mask buffers of old files. Error input naming the file and the tensor that is missing, extra or misshapen.
GptShape read_shape(const std::filesystem::path& folder);  // from config.json
void load_weights(const std::filesystem::path& folder, const GptShape& shape, ParameterArena& arena);

void load_optimizer(const std::filesystem::path& folder, const ParameterArena& arena, AdamW& optimizer);
TrainingState load_state(const std::filesystem::path& folder);

// Which checkpoint of a run: "newest", "best" or a step number.
// `place` is a run folder or a checkpoint folder (then `which` must be empty). Error input saying what is there.
std::filesystem::path find_checkpoint(const std::filesystem::path& place, const std::string& which);

struct CheckpointEntry {
  std::int64_t step;
  std::filesystem::path folder;
};
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& run);  // oldest first; whole ones only

// Removes all but the `keep` newest and the best one, and temporary folders that a crash left behind.
void prune_checkpoints(const std::filesystem::path& run, std::int64_t keep, std::int64_t best_step);

}  // namespace inkling
