// What is known of a training step when it is done.
#pragma once

namespace inkling {

struct StepResult {
  double loss = 0;  // nats per token, mean over the whole batch, before the update
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the gradient was not finite: weights and moments are as they were
};

}  // namespace inkling
