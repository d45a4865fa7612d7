// A run that was stopped and went on equals one that was not, bit for bit.
#include <gtest/gtest.h>

#include "tests/train/training_folder.h"

namespace inkling {
namespace {

using ResumeSlow = TrainingFolder;

TEST_F(ResumeSlow, ResumedRunMatchesUninterruptedRunBitForBit) {
  ASSERT_EQ(train({"--out", "runs/whole"}).code, 0);
  ASSERT_EQ(train({"--out", "runs/parts", "--set", "training.max_steps=13"}).code, 0);
  ASSERT_EQ(train({"--out", "runs/parts", "--set", "training.max_steps=27"}).code, 0);
  const Outcome last = train({"--out", "runs/parts"});
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_NE(last.err.find("goes on from runs/parts/checkpoints/step-000027"), std::string::npos) << last.err;

  // A run that ends evaluates at its end; the uninterrupted one did not stop at 13 and 27.
  std::vector<nlohmann::json> parts;
  for (const nlohmann::json& line : log("runs/parts")) {
    if (!line.contains("val_loss") || line["step"].get<int>() % 10 == 0) parts.push_back(line);
  }
  EXPECT_EQ(log("runs/whole"), parts);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(checkpoint_file("whole", "000040", file) == checkpoint_file("parts", "000040", file)) << file;
  }
}

// Muon, a falling rate, an average, packed documents, and every newer switch of the model. The run is made in thirty
// parts of one step.
TEST_F(ResumeSlow, RunStoppedAtEveryStepMatchesUninterruptedRunBitForBitWithAllOfItOn) {
  const std::string all =
      "--set optimizer.name=muon --set optimizer.vector_learning_rate=2e-3 --set optimizer.head_learning_rate=3e-3 "
      "--set schedule.name=wsd --set schedule.decay_fraction=0.5 --set schedule.decay_steps=30 "
      "--set schedule.warmup_steps=1 --set training.ema=0.9 --set model.activation=swiglu --set model.norm=rmsnorm "
      "--set model.norm_weights=false --set model.qk_norm=true --set model.position=rope "
      "--set model.tie_embeddings=false --set model.initialization=zero_output --set model.embedding_norm=true "
      "--set model.conv=4 --set model.dropout=0.1 --set evaluation.interval=30 --set data.source=[text.txt,more.txt] "
      "--set data.documents=align";
  write_file(folder / "more.txt", "Another document.\nIt is short.\n");
  const auto train_to = [&](int steps, const std::string& out) {
    return train({all, str("--set training.max_steps=", steps), "--out", out}).code;
  };
  ASSERT_EQ(train_to(30, "runs/whole"), 0);
  for (int steps = 1; steps <= 30; ++steps) ASSERT_EQ(train_to(steps, "runs/parts"), 0) << steps;
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "ema.safetensors"}) {
    EXPECT_TRUE(checkpoint_file("whole", "000030", file) == checkpoint_file("parts", "000030", file)) << file;
  }
}

TEST_F(ResumeSlow, RunStoppedBySignalsMatchesUninterruptedRunBitForBit) {
  ASSERT_EQ(train({"--out", "runs/whole"}).code, 0);
  int stops = 0;
  Outcome outcome;
  for (int tries = 0; tries < 20; ++tries) {
    const Process process("inkling-train", {"run.yaml", "--out", "runs/parts"}, folder.path());
    const std::string next_stop = str("step ", 9 * (tries + 1), "/40");
    if (tries < 4 && process.has_said(next_stop)) process.send(tries % 2 == 0 ? SIGINT : SIGTERM);
    outcome = process.wait();
    if (outcome.code != 75) break;
    ++stops;
    EXPECT_NE(outcome.err.find("run the same command again to go on"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GE(stops, 1);
  expect_same_run("whole", "parts", "000040");
}

TEST_F(ResumeSlow, RunKilledAtOnceMatchesUninterruptedRunBitForBit) {
  ASSERT_EQ(train({"--out", "runs/whole"}).code, 0);
  {
    const Process process("inkling-train", {"run.yaml", "--out", "runs/parts"}, folder.path());
    ASSERT_TRUE(process.has_said("step 17/40"));  // the newest checkpoint is of step 14: three logged steps are redone
    process.send(SIGKILL);
    process.wait();
  }
  const Outcome outcome = train({"--out", "runs/parts"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("goes on from"), std::string::npos) << outcome.err;
  expect_same_run("whole", "parts", "000040");
}

TEST_F(ResumeSlow, SameSettingsGiveTheSameBitsAndAnotherSeedDoesNot) {
  ASSERT_EQ(train({"--out", "runs/a"}).code, 0);
  ASSERT_EQ(train({"--out", "runs/b"}).code, 0);
  ASSERT_EQ(train({"--out", "runs/c", "--set", "training.seed=2"}).code, 0);
  expect_same_run("a", "b", "000040");
  EXPECT_FALSE(log("runs/a") == log("runs/c"));
}

TEST_F(ResumeSlow, EvaluationDoesNotDisturbTraining) {
  ASSERT_EQ(train({"--out", "runs/a"}).code, 0);
  ASSERT_EQ(train({"--out", "runs/b", "--set", "evaluation.interval=3"}).code, 0);
  EXPECT_TRUE(checkpoint_file("a", "000040", "model.safetensors") ==
              checkpoint_file("b", "000040", "model.safetensors"));
}

}  // namespace
}  // namespace inkling
