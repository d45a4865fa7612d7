// What a run goes on from when its checkpoints are not as they were saved.
#include <gtest/gtest.h>

#include <functional>

#include "tests/train/training_folder.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

class ResumeChoice : public TrainingFolder {
 protected:
  fs::path run() const { return folder / "runs/run"; }
  fs::path step(const std::string& number) const { return run() / "checkpoints" / ("step-" + number); }

  static void flip(const fs::path& path, std::size_t position) {
    std::string bytes = read_file(path);
    bytes[position] = static_cast<char>(bytes[position] ^ 1);
    write_file(path, bytes);
  }

  static void replace(const fs::path& path, const std::string& from, const std::string& to) {
    std::string text = read_file(path);
    ASSERT_NE(text.find(from), std::string::npos) << text;
    write_file(path, text.replace(text.find(from), from.size(), to));
  }

  // As 927dc24 and what came before it wrote them.
  static void make_version_1(const fs::path& checkpoint) {
    std::string text = read_file(checkpoint / "state.json");
    text = text.substr(0, text.find("\"files\""));
    write_file(checkpoint / "state.json",
               text + R"("files": ["config.json","config.yaml","model.safetensors","optimizer.safetensors",)"
                      R"("inkling_tokenizer.json"]
}
)");
    replace(checkpoint / "state.json", "\"version\": 2", "\"version\": 1");
  }
};

TEST_F(ResumeChoice, RunWhoseCheckpointCannotBeUsedIsRefusedAndLeftAsItIs) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  const fs::path newest = step("000006");
  fs::copy(newest, folder / "whole", fs::copy_options::recursive);
  const std::string log_before = read_file(run() / "log.jsonl");
  const std::string config_before = read_file(run() / "config.yaml");
  const auto expect_left_alone = [&](const std::function<void()>& damage, const std::vector<std::string>& parts,
                                     int code) {
    damage();
    for (const char* more : {"", "--dry-run"}) {
      expect_refused(train({"--set", "training.max_steps=5", "--set", "evaluation.interval=3", more}), parts, code);
      EXPECT_EQ(read_file(run() / "log.jsonl"), log_before);
      EXPECT_EQ(read_file(run() / "config.yaml"), config_before);
      EXPECT_EQ(std::distance(fs::directory_iterator(run() / "checkpoints"), {}), 1);
    }
    fs::remove_all(newest);
    fs::copy(folder / "whole", newest, fs::copy_options::recursive);
  };
  const std::vector<std::string> what_to_do = {"none can be used", "--fresh", "older checkpoint"};
  const auto with = [&](const std::string& part) {
    std::vector<std::string> parts = what_to_do;
    parts.push_back(part);
    return parts;
  };
  expect_left_alone([&] { write_file(newest / "config.yaml", ""); }, with("step-000006/config.yaml"), 2);
  expect_left_alone([&] { fs::remove(newest / "state.json"); }, with("step-000006/state.json"), 2);
  expect_left_alone([&] { flip(newest / "model.safetensors", 50000); }, with("step-000006/model.safetensors"), 2);
  expect_left_alone(
      [&] {
        make_version_1(newest);
        replace(newest / "state.json", "\"version\": 1", "\"version\": 3");
      },
      {"a newer inkling wrote it (version 3", "update inkling", "--fresh"}, 2);
  expect_left_alone(
      [&] {
        make_version_1(newest);
        replace(newest / "state.json", "\"threads\": 2", "\"threads\": 2000000000");
      },
      with("runtime.threads is 2000000000, and must be a whole number from 1 to 4096"), 2);
  expect_left_alone(
      [&] {
        fs::remove(newest / "state.json");
        fs::create_symlink("/proc/self/mem", newest / "state.json");  // opens, and its first byte reads as EIO
      },
      {"step-000006/state.json: Input/output error"}, 3);
  const Outcome whole = train({"--set", "training.max_steps=7"});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.err.find("goes on from runs/run/checkpoints/step-000006\n"), std::string::npos) << whole.err;
}

TEST_F(ResumeChoice, Version1WithWeightsThatAreNotFiniteIsRefusedAndTheRunLeftAsItIs) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  const std::string log_before = read_file(run() / "log.jsonl");
  const std::string config_before = read_file(run() / "config.yaml");
  make_version_1(step("000006"));
  std::string bytes = read_file(step("000006") / "model.safetensors");
  for (std::size_t i = bytes.size() - 4000; i < bytes.size(); ++i) bytes[i] = '\xff';  // NaN
  write_file(step("000006") / "model.safetensors", bytes);
  expect_refused(train({"--set", "evaluation.interval=3"}), {"model.safetensors: tensor \"transformer.", "not finite"});
  EXPECT_EQ(read_file(run() / "log.jsonl"), log_before);
  EXPECT_EQ(read_file(run() / "config.yaml"), config_before);
}

TEST_F(ResumeChoice, DamagedCheckpointIsPassedOverAndTheRunEndsTheSame) {
  const std::vector<std::string> keep{"--set", "checkpoint.keep=2", "--set", "training.max_steps=21"};
  ASSERT_EQ(train(keep).code, 0);
  const std::string log_before = read_file(run() / "log.jsonl");
  const std::string model_before = checkpoint_file("run", "000021", "model.safetensors");
  flip(step("000021") / "optimizer.safetensors", 70000);
  const Outcome outcome = train(keep);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"skipping a damaged checkpoint: runs/run/checkpoints/step-000021/optimizer.safetensors: its "
                           "bytes are not those that were saved",
                           "goes on from runs/run/checkpoints/step-000020\n"}) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(checkpoint_file("run", "000021", "model.safetensors"), model_before);
  const Outcome again = train(keep);
  EXPECT_NE(again.err.find("this run is finished: 21 steps"), std::string::npos) << again.err;
  EXPECT_EQ(again.err.find("damaged"), std::string::npos) << again.err;
}

TEST_F(ResumeChoice, RunOfVersion1GoesOnWithAWarningAndEndsTheSame) {
  ASSERT_EQ(train({"--out", "runs/whole", "--set", "training.max_steps=13"}).code, 0);
  ASSERT_EQ(train({"--set", "training.max_steps=7"}).code, 0);
  make_version_1(step("000007"));
  const Outcome outcome = train({"--set", "training.max_steps=13"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("step-000007/state.json: it is of version 1, which knows no hashes"), std::string::npos)
      << outcome.err;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(checkpoint_file("whole", "000013", file) == checkpoint_file("run", "000013", file)) << file;
  }
  EXPECT_NE(checkpoint_file("run", "000013", "state.json").find("\"version\": 2"), std::string::npos);
}

TEST_F(ResumeChoice, RunWithOldWordsGoesOnWithoutAChangeAndIsToldOnce) {
  ASSERT_EQ(train({"--out", "runs/whole", "--set", "training.max_steps=13", "--set", "runtime.kernels=reference"}).code,
            0);
  ASSERT_EQ(train({"--set", "training.max_steps=7", "--set", "runtime.kernels=reference"}).code, 0);
  make_version_1(step("000007"));  // which has no hashes, so that words can be replaced
  replace(step("000007") / "state.json", "\"reference\"", "\"aten\"");
  replace(step("000007") / "config.yaml", "kernels: reference", "kernels: aten");
  replace(step("000007") / "config.yaml", "memory_limit_gib: auto", "memory_limit_gib: 0");
  const Outcome outcome = train({"--set", "training.max_steps=13", "--set", "runtime.kernels=aten"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string note = "runtime.kernels: aten is called reference now";
  EXPECT_NE(outcome.err.find(note), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find(note), outcome.err.rfind(note)) << outcome.err;
  EXPECT_EQ(outcome.err.find("changed since the checkpoint: runtime"), std::string::npos) << outcome.err;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(checkpoint_file("whole", "000013", file) == checkpoint_file("run", "000013", file)) << file;
  }
  EXPECT_NE(checkpoint_file("run", "000013", "state.json").find("\"kernels\": \"reference\""), std::string::npos);
}

TEST_F(ResumeChoice, FlippedByteIsRefusedByInklingEval) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  flip(step("000006") / "model.safetensors", 50000);
  for (const char* place : {"runs/run", "runs/run/checkpoints/step-000006"}) {
    const Outcome outcome = run_command(folder.path(), str("inkling-eval ", place));
    expect_refused(outcome, {"step-000006/model.safetensors: its bytes are not those that were saved"});
  }
}

TEST_F(ResumeChoice, LastLineOfALogIsWholeOrGone) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  std::string text = read_file(run() / "log.jsonl");
  text.pop_back();  // the line's end did not reach the disk
  write_file(run() / "log.jsonl", text);
  ASSERT_EQ(train({"--set", "training.max_steps=7"}).code, 0);
  EXPECT_EQ(log().back()["step"], 7);
}

}  // namespace
}  // namespace inkling
