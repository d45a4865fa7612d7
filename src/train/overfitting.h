// When a model begins to learn its text by heart.
#pragma once

#include "checkpoint/checkpoint.h"

namespace inkling {

// Records an evaluation in which the validation loss was `val_loss`, after note_validation_loss(). Returns true once,
// when overfitting is seen: three evaluations in a row whose validation loss was more than 0.5 % above its best, while
// the training loss was below what it was at that best. A chance dip of the weights lowers both losses, so that it is
// no best from which training falls further; only what is learnt of the training text alone parts them. It can be seen
// again after a new best validation loss.
bool note_overfitting(TrainingState& state, double train_loss, double val_loss);

}  // namespace inkling
