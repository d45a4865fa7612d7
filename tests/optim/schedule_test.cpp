#include "optim/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace inkling {
namespace {

const OptimizerConfig optimizer = {.learning_rate = 1e-3};
const ScheduleConfig cosine = {
    .name = ScheduleName::cosine, .warmup_steps = 100, .decay_steps = 2000, .min_learning_rate = 1e-4};

double rate(std::int64_t step, const ScheduleConfig& schedule = cosine, std::int64_t max_steps = 5000) {
  return learning_rate(step, optimizer, schedule, max_steps);
}

TEST(Schedule, RisesInStraightLineFromTheFirstStepOn) {
  EXPECT_DOUBLE_EQ(rate(0), 1e-3 / 101.0);
  EXPECT_DOUBLE_EQ(rate(49), 1e-3 * 50.0 / 101.0);
  EXPECT_DOUBLE_EQ(rate(99), 1e-3 * 100.0 / 101.0);
  EXPECT_DOUBLE_EQ(rate(100), 1e-3);
}

TEST(Schedule, FallsAlongHalfACosineAndStays) {
  EXPECT_NEAR(rate(1050), (1e-3 + 1e-4) / 2.0, 1e-12);
  EXPECT_NEAR(rate(575), 1e-4 + 9e-4 * 0.5 * (1.0 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(rate(1999), 1e-4, 1e-9);
  EXPECT_DOUBLE_EQ(rate(2000), 1e-4);
  EXPECT_DOUBLE_EQ(rate(1000000), 1e-4);
}

TEST(Schedule, AutomaticDecayStepsAreTheWholeRun) {
  ScheduleConfig whole = cosine;
  whole.decay_steps.reset();
  for (const std::int64_t step : {0, 100, 1050, 1999, 2000}) EXPECT_DOUBLE_EQ(rate(step, whole, 2000), rate(step));
}

TEST(Schedule, ConstantWarmsUpAndStays) {
  ScheduleConfig constant = cosine;
  constant.name = ScheduleName::constant;
  EXPECT_DOUBLE_EQ(rate(49, constant), rate(49));
  EXPECT_DOUBLE_EQ(rate(100, constant), 1e-3);
  EXPECT_DOUBLE_EQ(rate(1000000, constant), 1e-3);
}

TEST(Schedule, WithoutWarmUpItBeginsAtThePeak) {
  ScheduleConfig at_once = cosine;
  at_once.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(rate(0, at_once), 1e-3);
}

TEST(Schedule, IsAlwaysAboveZeroAndNeverAboveThePeak) {
  EXPECT_TRUE(rc::check([] {
    const auto number = [] { return *rc::gen::inRange<std::int64_t>(0, 3000); };
    const ScheduleConfig schedule = {
        .name = *rc::gen::element(ScheduleName::cosine, ScheduleName::constant),
        .warmup_steps = number(),
        .decay_steps = *rc::gen::arbitrary<bool>() ? std::optional(number()) : std::nullopt,
        .min_learning_rate = 1e-4};
    const double value = rate(number(), schedule, number() + 1);
    RC_ASSERT(value > 0.0);
    RC_ASSERT(value <= 1e-3);
  }));
}

}  // namespace
}  // namespace inkling
