// training.ema: the average of the weights in a run, in its checkpoints and in the programs that open them.
#include <gtest/gtest.h>

#include "tests/train/training_folder.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

class Average : public TrainingFolder {
 protected:
  fs::path checkpoint(const std::string& run, const std::string& step) const {
    return folder / ("runs/" + run + "/checkpoints/step-" + step);
  }
  std::string said_by(const std::string& command) const {
    const Outcome outcome = run_command(folder.path(), command);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  double loss_of(const std::string& arguments) const {
    return nlohmann::json::parse(said_by("inkling-eval --json " + arguments)).at("loss").get<double>();
  }
};

TEST_F(Average, ResumesBitForBitAndLeavesTheRunAsItIsWithoutOne) {
  const std::string ema = "--set training.ema=0.9 --set training.max_steps=20 --set checkpoint.interval=20";
  ASSERT_EQ(train({"--out runs/plain --set training.max_steps=20"}).code, 0);
  ASSERT_EQ(train({ema, "--out runs/whole"}).code, 0);
  ASSERT_EQ(train({ema, "--out runs/parts --set training.max_steps=10"}).code, 0);
  ASSERT_EQ(train({ema, "--out runs/parts"}).code, 0);
  expect_same_run("whole", "parts", "000020");
  EXPECT_TRUE(checkpoint_file("whole", "000020", "ema.safetensors") ==
              checkpoint_file("parts", "000020", "ema.safetensors"));
  EXPECT_FALSE(checkpoint_file("whole", "000020", "ema.safetensors") ==
               checkpoint_file("whole", "000020", "model.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint("plain", "000020") / "ema.safetensors"));
  EXPECT_TRUE(checkpoint_file("plain", "000020", "model.safetensors") ==
              checkpoint_file("whole", "000020", "model.safetensors"));
  int evaluations = 0;
  for (nlohmann::json line : log("runs/whole")) {
    EXPECT_EQ(line.contains("ema_val_loss"), line.contains("val_loss")) << line;
    evaluations += static_cast<int>(line.contains("ema_val_loss"));
  }
  EXPECT_EQ(evaluations, 2);
}

TEST_F(Average, SwitchedOnAtAResumeBeginsWithTheWeightsOfThatMoment) {
  ASSERT_EQ(train({"--set training.max_steps=10"}).code, 0);
  const std::string on = "--set training.max_steps=11 --set training.ema=0.999999";
  expect_refused(train({on}), {"training.ema: 0 -> 0.999999", "--accept-changes"});
  const Outcome outcome = train({on, "--accept-changes"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("the average of the weights begins with those of step 10"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("with averaged weights"), std::string::npos) << outcome.err;
}

TEST_F(Average, IsTheModelThatAFolderOfItsWeightsHolds) {
  ASSERT_EQ(train({"--set training.ema=0.95 --set training.max_steps=20"}).code, 0);
  const fs::path saved = checkpoint("run", "000020"), other = folder / "averaged";
  fs::copy(saved, other, fs::copy_options::recursive);
  fs::remove(other / "state.json");  // now it is a model from elsewhere
  fs::rename(other / "ema.safetensors", other / "model.safetensors");
  const std::string flags = " --checkpoint newest --weights ema runs/run";
  const std::string sample = "inkling-sample --prompt Line --max-tokens 40 --temperature 1";
  EXPECT_EQ(said_by(sample + flags), said_by(sample + " averaged"));
  EXPECT_NE(said_by(sample + flags), said_by(sample + " --checkpoint newest runs/run"));
  EXPECT_NE(loss_of(flags), loss_of("--checkpoint newest --weights plain runs/run"));
}

TEST_F(Average, ACheckpointWithoutOneIsRefusedWithWhatToDo) {
  ASSERT_EQ(train({"--set training.max_steps=10"}).code, 0);
  expect_refused(
      run_command(folder.path(), "inkling-sample --weights ema runs/run"),
      {"holds no ema.safetensors", "take the weights as trained", "such as the newest", "training.ema: 0.999"});
}

}  // namespace
}  // namespace inkling
