// Samples that are drawn while a model trains.
#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/token_shard.h"
#include "tests/train/training_folder.h"

namespace inkling {
namespace {

class TrainSamples : public TrainingFolder {
 protected:
  std::vector<nlohmann::json> samples() const {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : log()) {
      if (line.contains("sample")) found.push_back(line);
    }
    return found;
  }
};

TEST_F(TrainSamples, AreWhatInklingSampleWritesFromTheCheckpointOfThatStep) {
  const std::string flags = "--max-tokens 25 --temperature 0.7 --top-k 9 --top-p 0.9 --seed 5";
  write_config(
      R"(sampling: {interval: 7, prompts: ["Line ", "", "a\n"], max_tokens: 25, temperature: 0.7, top_k: 9, top_p: 0.9, seed: 5}
)");
  const Outcome trained = train({"--set", "checkpoint.keep=100"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(contains(trained.err, "step 14/40  sample: Line "));
  const auto drawn = samples();
  ASSERT_EQ(drawn.size(), 3u * 6u);  // at 7, 14, 21, 28, 35 and at the end
  for (const nlohmann::json& line : drawn) {
    if (line["step"] != 14 && line["step"] != 40) continue;
    const std::string prompt = line["sample"]["prompt"];
    folder.write("prompt.txt", prompt + "\n");  // inkling-sample takes one new line off
    const Outcome outcome =
        run_command(folder.path(), str("inkling-sample runs/run --checkpoint ", line["step"].dump(),
                                       " --json --device cpu --threads 2 --prompt-file prompt.txt ", flags));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["text"], line["sample"]["text"]) << line;
    EXPECT_EQ(line["sample"]["seed"], 5);
  }
}

TEST_F(TrainSamples, ChangeNoBitOfTheTraining) {
  for (const char* kernels : {"fused", "reference"}) {
    const std::string with = str("with-", kernels), without = str("without-", kernels);
    const std::string setting = str("runtime.kernels=", kernels);
    ASSERT_EQ(train({"--out", "runs/" + without, "--set", setting}).code, 0);
    const Outcome outcome =
        train({"--out", "runs/" + with, "--set", setting, "--set", "sampling.interval=3", "--set",
               "sampling.max_tokens=50", "--set", "logging.tensorboard=true", "--set", "logging.histograms=4"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(checkpoint_file(with, "000040", file) == checkpoint_file(without, "000040", file)) << kernels << file;
    }
  }
}

TEST_F(TrainSamples, OfAPromptThatCannotBeEncodedAreRefusedBeforeTraining) {
  for (const char* dry : {"", "--dry-run"}) {
    expect_refused(train({dry, "--set", "sampling.interval=5", "--set", "sampling.prompts=Zebra"}),
                   {"sampling.prompts, \"Zebra\": ", "\"Z\""});
  }
  EXPECT_EQ(train({"--set", "sampling.prompts=Zebra", "--dry-run"}).code, 0) << "no sample is asked for";
}

TEST_F(TrainSamples, NeedATokenizer) {
  write_shard(folder / "train.bin", std::vector<Token>(500, 7));
  write_shard(folder / "val.bin", std::vector<Token>(500, 7));
  const std::vector<std::string> settings = {
      "--set", "data.source=[train.bin]", "--set", "data.validation_source=[val.bin]",
      "--set", "data.vocab_size=50",      "--set", "sampling.interval=5"};
  expect_refused(train(settings), {"sampling.interval is 5, and ready token files have no tokenizer"});
}

TEST_F(TrainSamples, EndAtASignal) {
  // A sample of a million tokens takes minutes, and nothing else ends it: one text has no end of a document.
  const Process process("inkling-train",
                        {"run.yaml", "--set", "sampling.interval=7", "--set", "sampling.max_tokens=1000000"},
                        folder.path());
  ASSERT_TRUE(process.has_said("step 7/40  loss"));
  process.send(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "stopped by a signal after step 7 and saved"));
  EXPECT_TRUE(samples().empty()) << "what was cut off is no sample";
}

}  // namespace
}  // namespace inkling
