// inkling-doctor as a person runs it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/strings.h"
#include "tests/program_runner.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

class DoctorProgram : public testing::Test {
 protected:
  void SetUp() override {
    folder.write("small.yaml",
                 "data: {source: none}\nmodel: {n_layer: 1, n_head: 2, n_embd: 16, block_size: 16}\n"
                 "schedule: {warmup_steps: 1}\ntraining: {max_steps: 4, batch_size: 2}\nruntime: {device: cpu}\n");
  }
  Outcome doctor(const std::string& arguments) const {
    return run_command(folder.path(), "inkling-doctor " + arguments);
  }

  TemporaryFolder folder;
};

TEST_F(DoctorProgram, SaysOnOnePageWhatThisMachineIs) {
  std::filesystem::create_symlink(INKLING_SOURCE_DIR "/configs", folder / "configs");  // for a build that is elsewhere
  const Outcome outcome = doctor("");
  EXPECT_TRUE(outcome.code == 0 || outcome.code == 3) << outcome.err;
  for (const char* part :
       {"This machine", "processor", "FLOP/s", "GB/s read", "What auto means", "fables", "ESTIMATED"}) {
    EXPECT_TRUE(contains(outcome.out, part));
  }
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(INKLING_SOURCE_DIR) != std::string::npos) continue;  // a command, whose words are not cut
    EXPECT_LE(count_characters(line), 80U) << line;
  }
}

TEST_F(DoctorProgram, MeasuresAConfigurationAndWritesNothing) {
  const Outcome outcome = doctor("small.yaml --measure --json --set training.batch_size=3");
  ASSERT_TRUE(outcome.code == 0 || outcome.code == 3) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["configs"].size(), 1U);
  const auto& config = json["configs"][0];
  EXPECT_EQ(config["name"], "small");
  EXPECT_EQ(config["batch_size"], 3);
  EXPECT_GT(config["measured"]["step_seconds"], 0.0);
  EXPECT_TRUE(contains(outcome.err, "timing small"));
  std::filesystem::remove(folder / "stderr.txt");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST_F(DoctorProgram, EndsWith3WhereTrainingCannotWorkAndSaysWhatMendsIt) {
  const Outcome outcome = run_command(folder.path(), "INKLING_INSTRUCTION_SET=avx9 inkling-doctor small.yaml");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(contains(outcome.out, "unset INKLING_INSTRUCTION_SET"));
  EXPECT_TRUE(contains(outcome.out, "Training cannot work here"));
}

TEST_F(DoctorProgram, WhatItDoesNotUnderstandIsBadInput) {
  EXPECT_EQ(doctor("missing.yaml").code, 2);
  EXPECT_EQ(doctor("--mesure").code, 2);
  EXPECT_EQ(doctor("small.yaml --set model.n_embd=17").code, 2);
  EXPECT_EQ(doctor("small.yaml --mesure").out, "");
}

}  // namespace
}  // namespace inkling
