// A run's state on disk. A checkpoint folder is a Hugging Face model folder (checkpoint/model_config.h) with what else
// a run needs: optimizer.safetensors, state.json, the run's config.yaml and the tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/model_config.h"
#include "config/config.h"
#include "config/resume_policy.h"
#include "model/arena.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "text/tokenizer.h"

namespace inkling {

// Evaluations in a row that show overfitting until it is said (train/evaluation.h).
inline constexpr std::int64_t overfitting_seen = 3;

// What state.json holds: everything the next step depends on that is not a tensor.
struct TrainingState {
  std::int64_t step = 0;                // steps done; the next one has this number
  std::optional<double> best_val_loss;  // nats per token; always finite
  std::int64_t best_step = -1;
  std::optional<double> train_loss_at_best;  // of the same evaluation; always finite
  std::int64_t evaluations_since_best = 0;
  std::int64_t overfitting_in_a_row = 0;  // evaluations, up to overfitting_seen
  std::string data_hash;                  // Dataset::hash of the data it was trained on
  double seconds = 0;                     // training time so far
  std::int64_t skipped_steps = 0;         // steps whose gradient was not finite: no update was made
  std::int64_t skipped_in_a_row = 0;
  bool reports_due = false;        // the evaluation and samples that belong to this step are still to be made
  Resolved resolved;               // what `auto` became
  bool had_other_dropout = false;  // not saved: it comes from an older version, which numbered dropout by micro-batches
};

// The advice in the message of a run that has diverged.
inline constexpr std::string_view diverged_advice =
    "Start over, or go on from the last checkpoint, with a lower optimizer.learning_rate (with Muon, "
    "optimizer.muon.learning_rate too), a longer schedule.warmup_steps or a smaller optimizer.grad_clip; "
    "docs/guide.md says more (When a run goes wrong)";

// An Error input of a run that cannot go on as it is: a new one can start beside it, or, where consent is all that
// lacks, this one all the same. The program says how.
class CannotGoOn : public Error {
 public:
  explicit CannotGoOn(std::string message, bool lacks_consent = false)
      : Error(ErrorKind::input, std::move(message)), lacks_consent_(lacks_consent) {}

  bool lacks_consent() const { return lacks_consent_; }

 private:
  bool lacks_consent_;
};

// Records a validation loss of the step that the state belongs to; returns whether it is the best so far, which a loss
// that is not finite never is.
bool note_validation_loss(TrainingState& state, double loss);

// Writes a checkpoint folder, from a CPU or a GPU: it is written under a temporary name, fsynced and renamed, and
// replaces an older one of its name in one step. A process killed at any moment leaves either the old or the new state
// under `folder`; an Error environment (disk full …) leaves the old one, and so does the Error diverged for weights
// that are not finite. tokenizer may be null (ready token files). average: that of the weights, [arena.size()], or
// undefined where training keeps none. kept: of the folder that the run started from.
void save_checkpoint(const std::filesystem::path& folder, const Config& config, const GptShape& shape,
                     const ParameterArena& arena, const OptimizerStates& optimizer, const TrainingState& state,
                     const Tokenizer* tokenizer, const at::Tensor& average = {}, const KeptConfig& kept = {});

// Replaces the state in a checkpoint that save_checkpoint() has written of the same step, in one step, and leaves its
// other files as they are. Throws what load_state() and write_file() throw.
void save_state(const std::filesystem::path& folder, const TrainingState& state);

// Must be called before anything in a checkpoint is used: it reads every file that its state.json lists, and refuses
// one that is not as it was saved. Throws Error input naming the first such file, and Error environment for one that
// cannot be read. Warns of a checkpoint of version 1, which can only be checked in part. A model folder from elsewhere
// has no state.json, so there is nothing to check it by.
void check_checkpoint(const std::filesystem::path& folder);

// Returns every number as it was saved. Throws Error input naming file and field.
TrainingState load_state(const std::filesystem::path& folder);

// runs/x/checkpoints/step-000500: the folder of the checkpoint of that step.
std::filesystem::path checkpoint_folder(const std::filesystem::path& run, std::int64_t step);

// Finds a checkpoint of a run folder. `which` is "newest", "best" (by validation loss), a step, or empty for the best
// one if there is one, else the newest. `place` may also be a checkpoint or model folder itself, and then `which` must
// be empty; a folder models--OWNER--NAME of the hub's cache means its snapshot. Only the sizes of files are looked at:
// call check_checkpoint() for the one that is used. Warns of damaged ones that it passes over. Throws Error input
// saying what is there instead, and Error environment for what cannot be read.
std::filesystem::path find_checkpoint(const std::filesystem::path& place, const std::string& which);

// The checkpoint that a run goes on from: the newest one that check_checkpoint() accepts; none if there is no
// checkpoint at all. Warns of newer ones that are damaged, and says why; they stay where they are until the run saves
// that step again. Throws Error input if there are checkpoints and none can be used, with the reason for each, or if a
// newer version of this program wrote the newest, and Error environment if one cannot be read.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run);

// To be called after the save of state.step. Removes all checkpoints but the `keep` newest (at least one) and the best
// one, and what killed processes left behind a minute or longer ago. Warns of what cannot be removed. Damaged
// checkpoints stay, because the person has to judge them. So do those of later steps, which the run passed over when it
// was resumed. If one cannot be read, nothing is removed, because it is not known which are the newest.
void prune_checkpoints(const std::filesystem::path& run, const TrainingState& state, std::int64_t keep);

}  // namespace inkling
