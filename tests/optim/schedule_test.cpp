#include "optim/optimizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace inkling {
namespace {

const OptimizerConfig optimizer = {.learning_rate = 1e-3};
const ScheduleConfig cosine = {
    .name = ScheduleName::cosine, .warmup_steps = 100, .decay_steps = 2000, .min_learning_rate = 1e-4};

constexpr ScheduleName falling[] = {ScheduleName::cosine, ScheduleName::linear, ScheduleName::wsd};

ScheduleConfig named(ScheduleName name) {
  ScheduleConfig schedule = cosine;
  schedule.name = name;
  return schedule;
}

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

TEST(Schedule, FallsAlongALineAndStays) {
  const ScheduleConfig linear = named(ScheduleName::linear);
  EXPECT_DOUBLE_EQ(rate(100, linear), 1e-3);
  EXPECT_NEAR(rate(1050, linear), (1e-3 + 1e-4) / 2.0, 1e-12);
  EXPECT_NEAR(rate(575, linear), 1e-4 + 0.75 * 9e-4, 1e-12);
  EXPECT_DOUBLE_EQ(rate(2000, linear), 1e-4);
  EXPECT_DOUBLE_EQ(rate(1000000, linear), 1e-4);
}

TEST(Schedule, WarmsUpStaysAndDecaysOverItsLastFifth) {
  const ScheduleConfig wsd = named(ScheduleName::wsd);
  EXPECT_DOUBLE_EQ(rate(49, wsd), rate(49));
  for (const std::int64_t step : {100, 1000, 1600}) EXPECT_DOUBLE_EQ(rate(step, wsd), 1e-3);
  EXPECT_NEAR(rate(1800, wsd), (1e-3 + 1e-4) / 2.0, 1e-12);
  EXPECT_DOUBLE_EQ(rate(2000, wsd), 1e-4);
  EXPECT_DOUBLE_EQ(rate(1000000, wsd), 1e-4);
}

TEST(Schedule, DecayNeverBeginsBeforeTheEndOfTheWarmUp) {
  ScheduleConfig wsd = named(ScheduleName::wsd);
  wsd.decay_fraction = 1.0;
  for (const std::int64_t step : {99, 100, 575, 1050, 2000}) {
    EXPECT_DOUBLE_EQ(rate(step, wsd), rate(step, named(ScheduleName::linear)));
  }
}

TEST(Schedule, AutomaticDecayStepsAreTheWholeRun) {
  for (const ScheduleName name : falling) {
    ScheduleConfig whole = named(name);
    whole.decay_steps.reset();
    for (const std::int64_t step : {0, 100, 1050, 1999, 2000}) {
      EXPECT_DOUBLE_EQ(rate(step, whole, 2000), rate(step, named(name)));
    }
  }
}

TEST(Schedule, ConstantWarmsUpAndStays) {
  const ScheduleConfig constant = named(ScheduleName::constant);
  EXPECT_DOUBLE_EQ(rate(49, constant), rate(49));
  EXPECT_DOUBLE_EQ(rate(100, constant), 1e-3);
  EXPECT_DOUBLE_EQ(rate(1000000, constant), 1e-3);
}

TEST(Schedule, WithoutWarmUpItBeginsAtThePeak) {
  ScheduleConfig at_once = cosine;
  at_once.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(rate(0, at_once), 1e-3);
}

ScheduleConfig any_schedule() {
  const auto number = [] { return *rc::gen::inRange<std::int64_t>(0, 3000); };
  return {
      .name = *rc::gen::element(ScheduleName::cosine, ScheduleName::linear, ScheduleName::wsd, ScheduleName::constant),
      .warmup_steps = number(),
      .decay_steps = *rc::gen::arbitrary<bool>() ? std::optional(number()) : std::nullopt,
      .decay_fraction = 0.01 * static_cast<double>(*rc::gen::inRange<std::int64_t>(1, 101)),
      .min_learning_rate = 1e-4};
}

TEST(Schedule, IsAlwaysAboveZeroAndNeverAboveThePeak) {
  EXPECT_TRUE(rc::check([] {
    const std::int64_t step = *rc::gen::inRange<std::int64_t>(0, 3000);
    const double value = rate(step, any_schedule(), step + 1);
    RC_ASSERT(value > 0.0);
    RC_ASSERT(value <= 1e-3);
  }));
}

TEST(Schedule, NeverRisesAfterTheWarmUp) {
  EXPECT_TRUE(rc::check([] {
    const ScheduleConfig schedule = any_schedule();
    const std::int64_t step = schedule.warmup_steps + *rc::gen::inRange<std::int64_t>(0, 3000);
    RC_ASSERT(rate(step + 1, schedule) <= rate(step, schedule));
  }));
}

}  // namespace
}  // namespace inkling
