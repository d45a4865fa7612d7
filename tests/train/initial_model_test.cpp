// model.init_from: a run that starts from another model.
#include <nlohmann/json.hpp>

#include "tests/token_shard.h"
#include "tests/train/training_folder.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

// A run of six steps under runs/run, and settings that start from it.
class InitialModel : public TrainingFolder {
 protected:
  void SetUp() override {
    TrainingFolder::SetUp();
    const Outcome outcome = TrainingFolder::train({"--set training.max_steps=6"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    write_file(folder / "other.txt", read_file(folder / "text.txt").substr(3000) + "Line 7 of another text.\n");
    write_tune("");
  }

  void write_tune(const std::string& model, const std::string& data = "{source: other.txt, val_fraction: 0.2}") {
    write_file(folder / "tune.yaml", str("data: ", data, "\nmodel: {init_from: runs/run, dropout: 0.1", model, R"(}
optimizer: {learning_rate: 1e-4}
schedule: {name: constant, warmup_steps: 0}
training: {max_steps: 6, batch_size: 4}
evaluation: {interval: 3, batches: 2}
checkpoint: {interval: 3, keep: 9}
logging: {interval: 1}
runtime: {device: cpu, threads: 2}
)"));
  }

  Outcome tune(const std::vector<std::string>& arguments = {}) const {
    return run_command(folder.path(), "inkling-train tune.yaml " + join(arguments, " "));
  }

  static void expect_said(const Outcome& outcome, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const std::string& part : parts) EXPECT_NE(outcome.err.find(part), std::string::npos) << part << outcome.err;
  }
};

TEST_F(InitialModel, GivesItsWeightsShapeAndTokenizer) {
  expect_said(tune({"--set training.max_steps=0"}), {"starts from runs/run/checkpoints/step-000006: all 28 tensors"});
  for (const char* file : {"model.safetensors", "config.json", "inkling_tokenizer.json", "tokenizer.json"}) {
    EXPECT_TRUE(checkpoint_file("tune", "000000", file) == checkpoint_file("run", "000006", file)) << file;
  }
  const std::string config = read_file(folder / "runs/tune/config.yaml");
  for (const char* line : {"  n_embd: 32\n", "    kind: char\n", "    from: runs/run/checkpoints/step-000006\n"}) {
    EXPECT_NE(config.find(line), std::string::npos) << line << config;
  }
}

TEST_F(InitialModel, DryRunListsWhatIsCutAndAddedAndWritesNothing) {
  write_tune(", block_size: 20");
  expect_said(tune({"--dry-run"}), {"cut: 12 learned positions, from 20 on",
                                    "tokenizer: char, from runs/run/checkpoints/step-000006", "dry run"});
  write_tune(", block_size: 40");
  expect_said(tune({"--dry-run"}), {"added: 8 learned positions, from 32 on"});
  EXPECT_FALSE(fs::exists(folder / "runs/tune"));
}

TEST_F(InitialModel, PrintedSettingsAreComplete) {
  const Outcome outcome = tune({"--print-config"});
  EXPECT_NE(outcome.out.find("n_layer: 2\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("from: runs/run/checkpoints/step-000006\n"), std::string::npos) << outcome.out;
}

TEST_F(InitialModel, ResumesBitForBitAlsoWhereTheFirstModelIsGone) {
  ASSERT_EQ(tune({"--out runs/whole"}).code, 0);
  ASSERT_EQ(tune({"--out runs/parts --set training.max_steps=3"}).code, 0);
  fs::rename(folder / "runs/run", folder / "elsewhere");
  expect_said(tune({"--out runs/parts"}), {"goes on from"});
  expect_same_run("whole", "parts", "000006");
  const Outcome scored = run_command(folder.path(), "inkling-eval runs/parts --device cpu");
  EXPECT_EQ(scored.code, 0) << scored.err;
}

TEST_F(InitialModel, ARunGoesOnWithTheSettingsItHasKept) {
  ASSERT_EQ(tune({"--set training.max_steps=3"}).code, 0);
  fs::copy_file(folder / "runs/tune/config.yaml", folder / "kept.yaml");
  const Outcome outcome =
      run_command(folder.path(), "inkling-train kept.yaml --out runs/tune --set training.max_steps=6");
  expect_said(outcome, {"goes on from"});
}

TEST_F(InitialModel, WhatContradictsItIsRefused) {
  write_tune(", n_layer: 3");
  expect_refused(tune(), {"tune.yaml:2:53: model.n_layer is 3, and the weights in runs/run/checkpoints/step-000006",
                          "have 2; leave it out"});
  write_tune("", "{source: other.txt, tokenizer: {kind: byte}}");
  expect_refused(tune(), {"tune.yaml:1:45: data.tokenizer.kind is byte", "brings a tokenizer of the kind char"});
  write_tune("");
  expect_refused(tune({"--set model.init_from=runs/rum"}), {"model.init_from: runs/rum does not exist", "runs/run"});
  expect_refused(tune({"--set model.init_from=other.txt"}), {"other.txt"});
  write_file(folder / "other.txt", read_file(folder / "other.txt") + "\xce\xa9\n");
  expect_refused(tune(), {"other.txt:", "\xce\xa9"});
  EXPECT_FALSE(fs::exists(folder / "runs/tune/log.jsonl"));
}

TEST_F(InitialModel, TokensThatMeanSomethingElseToItAreRefused) {
  write_config("");
  ASSERT_EQ(TrainingFolder::train({"--out runs/bytes --set training.max_steps=0 --set data.tokenizer.kind=byte"}).code,
            0);
  write_tune("", "{source: other.txt, tokenizer: {kind: byte, from: runs/bytes/checkpoints/step-000000}}");
  expect_refused(tune(), {"data.tokenizer does not match the weights in runs/run/checkpoints/step-000006", "token 0 is",
                          " here and "});
}

TEST_F(InitialModel, WithoutATokenizerOneMustBeNamed) {
  fs::copy(folder / "runs/run/checkpoints/step-000006", folder / "bare");
  for (const char* name : {"inkling_tokenizer.json", "tokenizer.json", "tokenizer_config.json", "state.json"}) {
    fs::remove(folder / "bare" / name);
  }
  const std::string from = "--set model.init_from=bare ";
  expect_refused(tune({from}), {"bare (model.init_from) holds no tokenizer", "data.tokenizer"});
  const std::string named = "--set data.tokenizer.from=runs/run/checkpoints/step-000006";
  expect_said(tune({from, named, "--set training.max_steps=1"}), {"starts from bare"});
}

TEST_F(InitialModel, GivesItsTokenizerToReadyTokenFiles) {
  std::vector<Token> tokens(300);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i * 7 % 20);
  write_shard(folder / "train.bin", tokens);
  write_shard(folder / "val.bin", tokens);
  write_tune("", "{source: [train.bin, val.bin], vocab_size: 20}");
  ASSERT_EQ(tune({"--set training.max_steps=3"}).code, 0);
  expect_said(tune(), {"goes on from"});
  EXPECT_EQ(checkpoint_file("tune", "000006", "inkling_tokenizer.json"),
            checkpoint_file("run", "000006", "inkling_tokenizer.json"));
  // The model keeps the tokens that these files do not have.
  EXPECT_EQ(checkpoint_file("tune", "000006", "config.json"), checkpoint_file("run", "000006", "config.json"));
}

TEST_F(InitialModel, ADamagedCheckpointIsRefused) {
  const fs::path weights = folder / "runs/run/checkpoints/step-000006/model.safetensors";
  std::string bytes = read_file(weights);
  bytes[bytes.size() / 2] ^= 1;
  write_file(weights, bytes);
  expect_refused(tune(), {"model.safetensors"});
}

TEST_F(InitialModel, InklingPrepareMakesTheSameTokens) {
  for (const char* data : {"{source: other.txt}", "{source: other.txt, tokenizer: {kind: char}}"}) {
    write_tune("", data);
    const Outcome prepared = run_command(folder.path(), "inkling-prepare tune.yaml");
    ASSERT_EQ(prepared.code, 0) << prepared.err;
    const Outcome outcome = tune({"--set training.max_steps=1 --fresh"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("preparing"), std::string::npos) << outcome.err;
  }
  expect_refused(run_command(folder.path(), "inkling-prepare tune.yaml --set model.init_from=runs/rum"),
                 {"model.init_from: runs/rum does not exist", "runs/run"});
  expect_refused(run_command(folder.path(), "inkling-prepare tune.yaml --print-config"),
                 {"inkling-train --print-config"});
}

TEST_F(InitialModel, ARunGoesOnWhereTheKindIsWritten) {
  write_tune("", "{source: other.txt, tokenizer: {kind: char}}");
  ASSERT_EQ(tune({"--set training.max_steps=3"}).code, 0);
  expect_said(tune(), {"goes on from"});
}

TEST_F(InitialModel, ARunCannotBeGivenAnotherBeginning) {
  ASSERT_EQ(tune({"--set training.max_steps=3"}).code, 0);
  const std::string other = "--set model.init_from=runs/run/checkpoints/step-000006";
  expect_refused(tune({other, "--accept-changes"}), {"model.init_from: runs/run -> ", "--fresh"});
  expect_refused(tune({"--set model.n_layer=3"}), {"model.n_layer: 2 -> 3", "--fresh"});
}

TEST_F(InitialModel, ScoringWithTheSameSettingsTakesTheSameData) {
  ASSERT_EQ(tune().code, 0);
  const Outcome outcome = run_command(folder.path(), "inkling-eval runs/tune --config tune.yaml --device cpu");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("preparing"), std::string::npos) << outcome.err;
}

TEST_F(InitialModel, ATokenizerThatIsNamedIsTheOneThatIsTaken) {
  const std::string from = "--set data.tokenizer.from=";
  expect_refused(tune({from + "text.txt"}), {"data.tokenizer.from: text.txt is no folder that holds a tokenizer"});
  expect_refused(tune({from + "runs/run/checkpoints/step-000006", "--set data.tokenizer.vocab_size=300"}),
                 {"--set data.tokenizer.vocab_size=300: ", "is for a tokenizer that is learned"});
  expect_refused(tune({"--set data.tokenizer.vocab_size=300"}), {"is for a tokenizer that is learned"});
  expect_refused(tune({from + "x", "--set data.source=a.bin", "--set data.vocab_size=9"}), {"is for text"});
}

}  // namespace
}  // namespace inkling
