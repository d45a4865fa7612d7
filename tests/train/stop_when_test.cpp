// training.stop_when, as a person meets it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "tests/train/training_folder.h"

namespace inkling {
namespace {

class StopWhen : public TrainingFolder {
 protected:
  // A run that learns nothing: its first evaluation, at step 5, stays the best.
  Outcome train_in_vain(std::vector<std::string> settings) const {
    settings.insert(settings.begin(), {"optimizer.learning_rate=1e-30", "schedule.min_learning_rate=0",
                                       "evaluation.interval=5", "checkpoint.interval=100"});
    std::vector<std::string> words;
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    return train(words);
  }

  TrainingState state(const std::string& step) const {
    return load_state(folder / ("runs/run/checkpoints/step-" + step));
  }
};

TEST_F(StopWhen, PatienceEndsARunWithoutABetterValidationLoss) {
  const Outcome outcome = train_in_vain({"training.stop_when.patience=2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(
      contains(outcome.err, "step 15/40  stops early: the validation loss has not improved in 2 evaluations, since"));
  EXPECT_TRUE(contains(outcome.err, "done: best val loss"));
  const nlohmann::json event = log().back();
  EXPECT_EQ(event["step"], 15);
  EXPECT_EQ(event["event"], "stopped_early");
  EXPECT_EQ(event["best_step"], 5);
  EXPECT_EQ(event["best_val_loss"], *state("000015").best_val_loss);
  EXPECT_EQ(state("000015").evaluations_since_best, 2);
}

TEST_F(StopWhen, TheSameCommandSaysAgainThatTheRunHasStopped) {
  ASSERT_EQ(train_in_vain({"training.stop_when.patience=1"}).code, 0);
  const std::string before = read_file(folder / "runs/run/log.jsonl");
  const Outcome again = train_in_vain({"training.stop_when.patience=1"});
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(
      contains(again.err, "this run stopped early, after 10 steps: the validation loss has not improved in the last"));
  EXPECT_TRUE(contains(again.err, "Raise training.stop_when.patience or training.max_steps to go on"));
  EXPECT_EQ(read_file(folder / "runs/run/log.jsonl"), before);
  const Outcome lower = train_in_vain({"training.stop_when.patience=1", "training.max_steps=30"});
  EXPECT_TRUE(contains(lower.err, "this run stopped early")) << "max_steps was not raised";
}

TEST_F(StopWhen, MorePatienceOrMoreStepsLetTheRunGoOn) {
  ASSERT_EQ(train_in_vain({"training.stop_when.patience=2"}).code, 0);
  const Outcome patient = train_in_vain({"training.stop_when.patience=3"});
  EXPECT_EQ(patient.code, 0);
  EXPECT_TRUE(contains(patient.err, "training.stop_when.patience: 2 -> 3"));
  EXPECT_TRUE(contains(patient.err, "step 20/40  stops early"));
  const Outcome longer = train_in_vain({"training.stop_when.patience=3", "training.max_steps=60"});
  EXPECT_EQ(longer.code, 0);
  EXPECT_TRUE(contains(longer.err, "step 35/60  stops early")) << "it has all its patience again";
  const Outcome without = train_in_vain({"training.stop_when.patience=0", "training.max_steps=60"});
  EXPECT_EQ(without.code, 0);
  EXPECT_TRUE(contains(without.err, "step 60/60  evaluation"));
}

TEST_F(StopWhen, PatienceAskedForLaterBeginsThen) {
  ASSERT_EQ(train_in_vain({"checkpoint.interval=20", "checkpoint.keep=2"}).code, 0);
  std::filesystem::remove_all(folder / "runs/run/checkpoints/step-000040");  // as if it had been stopped behind step 20
  ASSERT_EQ(state("000020").evaluations_since_best, 3);
  const Outcome patient =
      train_in_vain({"checkpoint.interval=20", "checkpoint.keep=2", "training.stop_when.patience=2"});
  EXPECT_EQ(patient.code, 0);
  EXPECT_TRUE(contains(patient.err, "step 30/40  stops early")) << patient.err;
}

TEST_F(StopWhen, AnInterruptionChangesNothing) {
  const std::vector<std::string> patience = {"training.stop_when.patience=3", "checkpoint.interval=7",
                                             "checkpoint.keep=9"};
  ASSERT_EQ(train_in_vain(patience).code, 0);
  const auto whole = log();
  const TrainingState at_its_end = state("000020");
  std::filesystem::remove_all(folder / "runs/run/checkpoints/step-000020");  // as if it had been killed behind step 14
  const Outcome resumed = train_in_vain(patience);
  EXPECT_EQ(resumed.code, 0);
  EXPECT_TRUE(contains(resumed.err, "step-000014")) << "between two evaluations";
  EXPECT_EQ(log(), whole);
  EXPECT_EQ(state("000020").evaluations_since_best, at_its_end.evaluations_since_best);
  EXPECT_EQ(state("000020").train_loss_at_best, at_its_end.train_loss_at_best);
  EXPECT_EQ(state("000020").overfitting_in_a_row, at_its_end.overfitting_in_a_row);
}

}  // namespace
}  // namespace inkling
