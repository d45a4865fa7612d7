// What a run promises of its threads: with whatever number of them it goes on, its bits are those of an uninterrupted
// one.
#include <gtest/gtest.h>

#include "tests/train/training_folder.h"

namespace inkling {
namespace {

class RunsOnWorkers : public TrainingFolder {
 protected:
  void SetUp() override {
    TrainingFolder::SetUp();
    write_config(R"(sampling: {interval: 10, max_tokens: 30, prompts: [Line, "L"]}
)");
  }

  static std::string out(const std::string& run) { return "--out runs/" + run; }
};

TEST_F(RunsOnWorkers, HaveTheSameBitsWithAnyNumberOfThreads) {
  const std::string settings =
      "--set training.micro_batch_size=1 --set optimizer.name=muon --set training.ema=0.9 --set evaluation.interval=20";
  ASSERT_EQ(train({settings, out("one"), "--set runtime.threads=1"}).code, 0);
  for (const char* threads : {"2", "3", "5"}) {
    const Outcome outcome = train({settings, out(threads), std::string("--set runtime.threads=") + threads});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("any number of them goes on with the same bits"), std::string::npos) << outcome.err;
    expect_same_run("one", threads, "000040");  // samples and evaluations are in the log
    const auto average = [&](const std::string& run) { return checkpoint_file(run, "000040", "ema.safetensors"); };
    EXPECT_TRUE(average("one") == average(threads));
  }
}

TEST_F(RunsOnWorkers, GoOnWithOtherThreadsBitForBit) {
  const std::string automatic = "--set training.micro_batch_size=auto --set data.order=epoch ";
  ASSERT_EQ(train({automatic, out("whole"), "--set runtime.threads=2"}).code, 0);
  for (const char* threads : {"1", "3"}) {
    const std::string run = out(threads);
    ASSERT_EQ(train({automatic, run, "--set runtime.threads=2 --set training.max_steps=20"}).code, 0);
    const Outcome outcome = train({automatic, run, std::string("--set runtime.threads=") + threads});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(checkpoint_file("whole", "000040", file) == checkpoint_file(threads, "000040", file)) << file;
    }
  }
}

}  // namespace
}  // namespace inkling
