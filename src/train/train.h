// The training run: data, model, loop, evaluations, checkpoints, resume.
#pragma once

#include "config/config.h"
#include "train/run_folder.h"

namespace inkling {

inline constexpr int exit_stopped = 75;  // EX_TEMPFAIL: saved, run again to go on

// Trains as `config` says, from the run folder's newest checkpoint if there is one. Returns 0 when max_steps are done
// (now or before), exit_stopped after a stop signal (base/stop_signals.h) or training.max_hours. Throws the errors of
// plan_run(), Stopped where its data was being made, OutOfMemory, and Error diverged.
int train(const Config& config, const TrainOptions& options);

}  // namespace inkling
