#include "optim/weight_average.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "tests/oracle/rounding.h"
#include "tests/oracle/tensors.h"

namespace inkling::test {
namespace {

constexpr double beta = 0.75;

ParameterArena averaged_arena(at::ScalarType dtype) {
  ParameterArena arena({{"table", {31, 8}, ParameterGroup::embedding}, {"vector", {13}, ParameterGroup::vector}},
                       at::kCPU, dtype, Gradients::none);
  arena.values().copy_(oracle::normal(1, {arena.size()}));
  arena.refresh_compute();
  return arena;
}

TEST(WeightAverage, BeginsWithTheWeightsAndFollowsItsDefinition) {
  constexpr int steps = 20;
  ParameterArena arena = averaged_arena(at::kFloat);
  WeightAverage average(arena, beta);
  average.begin();
  EXPECT_TRUE(oracle::identical(average.values(), arena.values()));
  at::Tensor expected = arena.values().to(at::kDouble);
  for (int step = 0; step < steps; ++step) {
    arena.values().copy_(oracle::normal(2 + static_cast<std::uint64_t>(step), {arena.size()}));
    average.update();
    expected = beta * expected + (1.0 - beta) * arena.values().to(at::kDouble);
  }
  // Three roundings a step, of which later steps take away a quarter each: those of four steps are left.
  EXPECT_LT(oracle::error(average.values(), expected), oracle::rounding_error(3 * 4));
}

TEST(WeightAverage, OfWeightsThatStayIsThoseWeights) {
  ParameterArena arena = averaged_arena(at::kFloat);
  WeightAverage average(arena, beta);
  average.begin();
  for (int step = 0; step < 5; ++step) average.update();
  EXPECT_TRUE(oracle::identical(average.values(), arena.values()));
}

TEST(WeightAverage, TakesThePlaceOfTheWeightsAndGivesItBackBitForBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    ParameterArena arena = averaged_arena(dtype);
    WeightAverage average(arena, beta);
    average.begin();
    arena.values().copy_(oracle::normal(2, {arena.size()}));
    arena.refresh_compute();
    average.update();
    const at::Tensor weights = arena.values().clone(), kept = average.values().clone();
    const at::Tensor computes = arena.compute_values().clone();
    average.exchange();
    EXPECT_TRUE(oracle::identical(arena.values(), kept));
    EXPECT_TRUE(oracle::identical(arena.compute_values(), kept.to(dtype)));
    average.exchange();
    EXPECT_TRUE(oracle::identical(arena.values(), weights));
    EXPECT_TRUE(oracle::identical(arena.compute_values(), computes));
    EXPECT_TRUE(oracle::identical(average.values(), kept));
  }
}

}  // namespace
}  // namespace inkling::test
