// A folder with a small text and settings that train in about a second.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"
#include "tests/train/process.h"

namespace inkling {

class TrainingFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int line = 0; line < 400; ++line)
      text += str("Line ", line * 37 % 101, " of a text that nobody learns by heart.\n");
    write_file(folder / "text.txt", text);
    write_config("");
  }

  void write_config(const std::string& more) {
    write_file(folder / "run.yaml", R"(data:
  source: text.txt
  val_fraction: 0.2
model: {n_layer: 2, n_head: 2, n_embd: 32, block_size: 32, dropout: 0.1}
optimizer: {learning_rate: 1e-3}
schedule: {warmup_steps: 5, decay_steps: 40, min_learning_rate: 1e-4}
training: {max_steps: 40, batch_size: 8, micro_batch_size: 4}
evaluation: {interval: 10, batches: 2}
checkpoint: {interval: 7}
logging: {interval: 1}
runtime: {device: cpu, threads: 2}
)" + more);
  }

  Outcome train(const std::vector<std::string>& arguments = {}) const {
    return run_command(folder.path(), "inkling-train run.yaml " + join(arguments, " "));
  }

  // The log without what depends on the clock.
  std::vector<nlohmann::json> log(const std::string& run = "runs/run") const {
    std::istringstream lines(read_file(folder / (run + "/log.jsonl")));
    std::vector<nlohmann::json> parsed;
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json entry = nlohmann::json::parse(line);
      entry.erase("seconds");
      entry.erase("tokens_per_second");
      parsed.push_back(entry);
    }
    return parsed;
  }

  std::string checkpoint_file(const std::string& run, const std::string& step, const std::string& file) const {
    return read_file(folder / ("runs/" + run + "/checkpoints/step-" + step + "/" + file));
  }

  void expect_same_run(const std::string& a, const std::string& b, const std::string& step) const {
    EXPECT_EQ(log("runs/" + a), log("runs/" + b));
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(checkpoint_file(a, step, file) == checkpoint_file(b, step, file)) << file << " differs";
    }
  }

  void expect_refused(const Outcome& outcome, const std::vector<std::string>& parts, int code = 2) const {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : parts) EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }

  TemporaryFolder folder;
};

}  // namespace inkling
