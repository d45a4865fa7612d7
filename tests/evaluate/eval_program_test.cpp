// inkling-eval as a person meets it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "data/dataset.h"
#include "tests/model/small_model.h"
#include "tests/program_runner.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

class EvalProgram : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "A line of text, number " + std::to_string(i) + ".\n";
    write_file(folder / "text.txt", text);
    write_file(folder / "tiny.grammar", "story:\n  * A {animal} ran.\n\nanimal:\n  * hen\n  * fox\n  * owl\n");
    write_model("chars", "text.txt");
    write_model("fables", "tiny.grammar");
  }

  // A checkpoint of random weights for data that is prepared in the folder.
  void write_model(const std::string& name, const std::string& source) {
    const std::string yaml = "data:\n  source: " + (folder / source).string() +
                             "\n  dir: " + (folder / (name + "-data")).string() +
                             "\n  stories: 200\nmodel: {n_layer: 2, n_head: 3, n_embd: 30, block_size: 20}\n";
    const Config config = parse_config(yaml, "test", {});
    const Dataset dataset = prepare_dataset(config.data, {});
    GptShape shape = test::small_shape;
    shape.vocab_size = static_cast<std::int64_t>(dataset.vocab_size);
    const test::SmallModel model = test::make_small_model(shape);
    const Optimizer optimizer(*model.arena, {}, model.model->backend());
    TrainingState state;
    state.data_hash = dataset.hash;
    save_checkpoint(folder / name, config, shape, *model.arena, optimizer, state, dataset.tokenizer.get());
  }

  Outcome run(const std::string& arguments) const { return run_command(folder.path(), "inkling-eval " + arguments); }

  void expect_refused(const std::string& arguments, const std::string& part) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }

  TemporaryFolder folder;
};

TEST_F(EvalProgram, ScoresTheValidationSplit) {
  const Outcome outcome = run("chars");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"loss ", "perplexity ", "bits per byte ", " windows\n"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(outcome.out.find("best possible"), std::string::npos);
}

TEST_F(EvalProgram, JsonSaysWhatThePageSays) {
  const Dataset dataset = open_dataset(folder / "chars-data");
  const auto result = nlohmann::json::parse(run("chars --json").out);
  EXPECT_EQ(result.at("tokens"), dataset.validation.tokens - 1);
  const double loss = result.at("loss");
  EXPECT_NEAR(loss, std::log(static_cast<double>(dataset.vocab_size)), 0.1);
  EXPECT_NEAR(result.at("perplexity"), std::exp(loss), 1e-9);
  EXPECT_NEAR(result.at("bits_per_byte"), loss / std::log(2.0), 0.01);  // one byte a character
  EXPECT_GT(result.at("standard_error"), 0);
  EXPECT_FALSE(result.contains("best_possible"));
}

TEST_F(EvalProgram, FablesAreComparedWithTheBestPossibleLoss) {
  const Outcome outcome = run("fables");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("best possible"), std::string::npos) << outcome.out;
  const auto result = nlohmann::json::parse(run("fables --json").out);
  EXPECT_GT(result.at("excess_ratio"), 1.0);
  EXPECT_GT(result.at("loss"), result.at("best_possible"));
}

TEST_F(EvalProgram, AModelWithoutSettingsNeedsThem) {
  fs::create_directory(folder / "foreign");
  fs::copy(folder / "chars", folder / "foreign", fs::copy_options::recursive);
  fs::remove(folder / "foreign/config.yaml");
  expect_refused("foreign --config chars/config.yaml", "config.yaml: the file is missing");
  fs::remove(folder / "foreign/state.json");
  expect_refused("foreign", "--config");
  const Outcome outcome = run("foreign --config chars/config.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(EvalProgram, DataOfAnotherVocabularyIsRefused) {
  expect_refused("chars --config fables/config.yaml", "tokenizer");
}

TEST_F(EvalProgram, DataThatHasChangedIsSaid) {
  std::string text = read_file(folder / "text.txt");
  write_file(folder / "text.txt", text + text);
  const Outcome outcome = run("chars");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("not what the model was trained on"), std::string::npos) << outcome.err;
}

TEST_F(EvalProgram, MissingDataIsRefused) {
  fs::remove(folder / "text.txt");
  expect_refused("chars", "text.txt");
  expect_refused("chars", "or give --set data.source=PATH");
}

TEST_F(EvalProgram, BadFlagsAreRefused) {
  expect_refused("chars --set data.sorce=x", "data.sorce");
  expect_refused("chars --set data.source x", "--set data.source: there is no \"=\"");
  expect_refused("chars --device tpu", "--device is \"tpu\"");
  expect_refused("chars --checkpoint best", "best");
  expect_refused("nowhere", "nowhere");
}

}  // namespace
}  // namespace inkling
