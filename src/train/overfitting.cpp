#include "train/overfitting.h"

#include <cmath>

namespace inkling {
namespace {

constexpr double margin = 1.005;

}  // namespace

bool note_overfitting(TrainingState& state, double train_loss, double val_loss) {
  if (state.best_step == state.step) {  // this evaluation's
    state.train_loss_at_best = std::isfinite(train_loss) ? std::optional(train_loss) : std::nullopt;
    state.overfitting_in_a_row = 0;
    return false;
  }
  if (state.overfitting_in_a_row == overfitting_seen || !state.best_val_loss || !state.train_loss_at_best) return false;
  const bool part = val_loss > margin * *state.best_val_loss && train_loss < *state.train_loss_at_best;
  state.overfitting_in_a_row = part ? state.overfitting_in_a_row + 1 : 0;
  return state.overfitting_in_a_row == overfitting_seen;
}

}  // namespace inkling
