// An average of the weights over the steps of training, which often predicts better than the weights themselves
// (Polyak, Juditsky 1992; with a memory that fades, Tarvainen, Valpola 2017).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "model/arena.h"

namespace inkling {

class WeightAverage {
 public:
  // Takes memory for the average of the arena's values, on its device. The arena must outlive it. beta: training.ema.
  // owned: the elements whose average it keeps; none: all.
  WeightAverage(ParameterArena& arena, double beta, std::optional<ParameterRanges> owned = {});

  // Makes it a copy of the weights as they are. To be called before the first step.
  void begin();

  // average = beta * average + (1 - beta) * weights. To be called after every step; can be recorded. A step that was
  // skipped counts with the weights that it left as they were.
  void update();
  void update(const ParameterRange& part);  // of these elements alone, of one range that it keeps

  // Lets weights and average change places, bit for bit, and refreshes what the math reads. Of weights whose average
  // other ranks keep, these tell.
  void exchange();

  at::Tensor values() const { return values_; }  // float32, flat, of what it keeps: [arena.size()] where that is all

 private:
  ParameterArena& arena_;
  double beta_;
  ParameterRanges owned_;
  at::Tensor values_, slice_;  // room for what changes places, so that exchange() takes no memory
};

}  // namespace inkling
