// An average of the weights over the steps of training, which often predicts better than the weights themselves
// (Polyak, Juditsky 1992; with a memory that fades, Tarvainen, Valpola 2017).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/arena.h"

namespace inkling {

class WeightAverage {
 public:
  // Takes memory for the average of the arena's values, on its device. The arena must outlive it. beta: training.ema.
  WeightAverage(ParameterArena& arena, double beta);

  // Makes it a copy of the weights as they are. To be called before the first step.
  void begin();

  // average = beta * average + (1 - beta) * weights. To be called after every step; can be recorded. A step that was
  // skipped counts with the weights that it left as they were.
  void update();
  void update(const ParameterRange& part);  // of these elements alone

  // Lets weights and average change places, bit for bit, and refreshes what the math reads.
  void exchange();

  at::Tensor values() const { return values_; }  // [arena.size()] float32

 private:
  ParameterArena& arena_;
  double beta_;
  at::Tensor values_, slice_;  // room for what changes places, so that exchange() takes no memory
};

// While it lives, the model computes with the average, and the weights wait in its place.
class AveragedWeights {
 public:
  explicit AveragedWeights(WeightAverage& average) : average_(average) { average_.exchange(); }
  ~AveragedWeights() { average_.exchange(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage& average_;
};

}  // namespace inkling
