// inkling-eval as a person meets it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
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

  // A checkpoint of random weights for data that is prepared in the folder, or of weights so large that no answer is a
  // number.
  void write_model(const std::string& name, const std::string& source, bool broken = false) {
    const std::string yaml = "data:\n  source: " + (folder / source).string() +
                             "\n  dir: " + (folder / (name + "-data")).string() +
                             "\n  stories: 200\nmodel: {n_layer: 2, n_head: 3, n_embd: 30, block_size: 20}\n";
    const Config config = parse_config(yaml, "test", {});
    const Dataset dataset = prepare_dataset(config.data, {});
    GptShape shape = test::small_shape;
    shape.vocab_size = static_cast<std::int64_t>(dataset.vocab_size);
    const test::SmallModel model = test::make_small_model(shape);
    if (broken) model.arena->values().fill_(1e38);
    const Optimizer optimizer(*model.arena, {}, model.model->backend());
    TrainingState state;
    state.data_hash = dataset.hash;
    save_checkpoint(folder / name, config, shape, *model.arena, optimizer, state, dataset.tokenizer.get());
  }

  Outcome run(const std::string& arguments) const { return run_command(folder.path(), "inkling-eval " + arguments); }

  void expect_refused(const std::string& arguments, const std::string& part) const {
    expect_refusal(run(arguments), {part});
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

TEST_F(EvalProgram, WhatOnlySamplingReadsDoesNotStopAnEvaluation) {
  const std::string loss = run("chars --text text.txt").out;
  fs::remove(folder / "chars/state.json");
  for (const char* json : {"{\"temperature\": \"hot\", \"num_beams\": 4, \"eos_token_id\": \"</s>\"}", "no JSON", ""}) {
    write_file(folder / "chars/generation_config.json", json);
    const Outcome outcome = run("chars --text text.txt");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, loss);
  }
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
  expect_refused("chars", "or name another at data.source");
}

TEST_F(EvalProgram, ScoresAnyText) {
  write_file(folder / "a.txt", "A line of text.\nA number more.\n");
  write_file(folder / "b.jsonl", "{\"body\": \"A text.\"}\n\n{\"body\": \"A line, no text.\"}\n");
  const std::string arguments = "chars --text a.txt --text b.jsonl --text - --set data.jsonl_field=body";
  const auto run_on = [&](const std::string& more) {
    return run_command(folder.path(), "printf 'text\\n' | inkling-eval " + arguments + more);
  };
  const Outcome page = run_on("");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_TRUE(contains(page.out, "scored         55 tokens, 55 bytes, in 4 documents\n"));
  EXPECT_TRUE(contains(run_on(" --each").out, "b.jsonl:3  loss "));

  std::istringstream lines(run_on(" --each --json").out);
  std::vector<nlohmann::json> parsed;
  for (std::string line; std::getline(lines, line);) parsed.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(parsed.size(), 5u);
  const std::vector<std::pair<std::string, int>> places = {
      {"a.txt", 1}, {"b.jsonl", 1}, {"b.jsonl", 3}, {"standard input", 1}};
  double nats = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(parsed[i].at("file"), places[i].first);
    EXPECT_EQ(parsed[i].at("line"), places[i].second);
    nats += parsed[i].at("loss").get<double>() * parsed[i].at("tokens").get<double>();
  }
  EXPECT_NEAR(parsed[4].at("loss"), nats / 55, 1e-12 * nats);
  EXPECT_EQ(parsed[4].at("documents"), 4);
  EXPECT_GT(parsed[4].at("standard_error"), 0);
}

TEST_F(EvalProgram, ASeparatorEndsTheDocumentsOfATextAndOtherwiseItsNameIsSaid) {
  write_file(folder / "a.txt", "A line of text.<|endoftext|>\nA number more.");
  const Outcome apart = run("chars --text a.txt --each --set 'data.separator=<|endoftext|>'");
  EXPECT_EQ(apart.code, 0) << apart.err;
  EXPECT_TRUE(contains(apart.out, "in 2 documents\n"));
  const Outcome piped =
      run_command(folder.path(), "inkling-eval chars --text - --set 'data.separator=<|endoftext|>' < a.txt");
  EXPECT_TRUE(contains(piped.out, "in 2 documents\n")) << piped.err;
  expect_refused("chars --text a.txt", "a.txt:1: ");
  write_file(folder / "b.txt", "A line of text.</s>");
  write_file(folder / "marked.txt", read_file(folder / "text.txt") + "</s>\n");
  write_model("marked", "marked.txt");
  const Outcome marked = run("marked --text b.txt");
  EXPECT_TRUE(contains(marked.err, "names of special tokens, </s> 1 time, the first at b.txt:1")) << marked.err;
}

TEST_F(EvalProgram, AnswersQuestions) {
  write_file(folder / "q.jsonl",
             "{\"context\": \"A line of \", \"endings\": [\"text\", \"number 1\"], \"label\": 0}\n"
             "{\"context\": \"A line of\", \"endings\": [\" text\", \" number 1\", \" 1\"], \"label\": 1}\n");
  const Outcome page = run("chars --choices q.jsonl");
  EXPECT_EQ(page.code, 0) << page.err;
  for (const char* part : {"accuracy ", "per token ", "per character ", "scored         2 examples\n"}) {
    EXPECT_TRUE(contains(page.out, part));
  }
  EXPECT_TRUE(contains(run("chars --choices q.jsonl --each").out, "q.jsonl:2  label 1  chosen "));

  std::istringstream lines(run("chars --choices q.jsonl --each --json").out);
  std::vector<nlohmann::json> parsed;
  for (std::string line; std::getline(lines, line);) parsed.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(parsed.size(), 3u);
  EXPECT_EQ(parsed[0].at("tokens"), nlohmann::json({5, 9}));
  EXPECT_EQ(parsed[1].at("characters"), nlohmann::json({5, 9, 2}));
  EXPECT_NEAR(parsed[0].at("log_likelihoods")[0], parsed[1].at("log_likelihoods")[0], 1e-4);  // the same text
  const std::array<const char*, 3> rules = {"accuracy", "accuracy_per_token", "accuracy_per_character"};
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    const int right = (parsed[0].at("chosen")[rule] == 0 ? 1 : 0) + (parsed[1].at("chosen")[rule] == 1 ? 1 : 0);
    EXPECT_EQ(parsed[2].at(std::string(rules[rule]) + "_right"), right);
    EXPECT_EQ(parsed[2].at(rules[rule]), right / 2.0);
  }
}

TEST_F(EvalProgram, OneBadLineDoesNotStopTheOtherHundred) {
  std::string lines;
  for (int i = 1; i <= 101; ++i) {
    lines += i == 57 ? "{\"context\": \"A line of \", \"endings\": [\"text\"]}\n"
                     : "{\"context\": \"A line of \", \"endings\": [\"text\", \"number\"], \"label\": 0}\n";
  }
  write_file(folder / "q.jsonl", lines);
  const Outcome page = run("chars --choices q.jsonl");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_TRUE(contains(page.err, "warning: passed over: q.jsonl:57: endings has 1 and must have 2 to 1000"));
  EXPECT_TRUE(contains(page.out, "scored         100 examples; 1 of 101 lines passed over\n"));
  const auto totals = nlohmann::json::parse(run("chars --choices q.jsonl --json").out);
  EXPECT_EQ(totals.at("examples"), 100);
  EXPECT_EQ(totals.at("passed_over"), 1);
  expect_refused("chars --choices q.jsonl --strict", "error: q.jsonl:57: endings has 1");
  write_file(folder / "bad.jsonl", std::string(24, '\n') + "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n");
  expect_refused("chars --choices bad.jsonl", "passed over: 2 more lines of bad.jsonl\n");
  expect_refused("chars --choices bad.jsonl", "error: bad.jsonl: all of its 12 lines were passed over");
}

TEST_F(EvalProgram, AModelWhoseAnswersAreNoNumbersIsNotJudged) {
  write_model("broken", "text.txt", true);
  write_file(folder / "q.jsonl", "{\"context\": \"A line of \", \"endings\": [\"text\", \"number\"], \"label\": 0}\n");
  const std::vector<std::pair<std::string, std::string>> runs = {
      {"", "the validation split"},
      {" --stride 5", "the validation split"},
      {" --dtype bfloat16 --json", "the validation split"},
      {" --text text.txt", "text.txt:1"},
      {" --text - --each --json < text.txt", "standard input:1"},
      {" --choices q.jsonl", "q.jsonl:1"},
      {" --choices q.jsonl --each --json", "q.jsonl:1"}};
  for (const auto& [arguments, place] : runs) {
    const Outcome outcome = run("broken" + arguments);
    EXPECT_EQ(outcome.code, 4) << arguments << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(contains(outcome.err, "the model's answer to " + place + " is not a number")) << arguments;
  }
}

TEST_F(EvalProgram, EndingsThatTouchTheirContextAreSaid) {
  write_file(folder / "q.jsonl", "{\"context\": \"A line\", \"endings\": [\"of\", \"text\"], \"label\": 0}\n");
  const Outcome outcome = run("chars --choices q.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "q.jsonl:1: nothing stands between the context and its endings"));
}

TEST_F(EvalProgram, ATextThatCannotBeEncodedIsRefusedByFileAndLine) {
  write_file(folder / "odd.txt", "A line.\nA l\xc3\xb6ne.\n");
  write_file(folder / "odd.jsonl", "{\"text\": \"A line.\"}\n{\"text\": 7}\n");
  expect_refused("chars --text odd.txt", "odd.txt:2: ");
  expect_refused("chars --text odd.jsonl", "odd.jsonl:2: field \"text\" is a number");
  expect_refused("chars --text - < odd.txt", "standard input:2: ");
  expect_refused("chars --text nowhere.txt", "nowhere.txt");
  fs::create_symlink("nowhere.txt", folder / "link.txt");
  expect_refused("chars --text link.txt", "link.txt is a link to nowhere.txt, which does not exist");
  write_file(folder / "empty.txt", "");
  expect_refused("chars --text empty.txt", "empty.txt: there is no text of which a token can be scored");
  write_file(folder / "shard.bin", "tokens");
  expect_refused("chars --text shard.bin", "holds tokens, not text");
  expect_refused("chars --text tiny.grammar", "tiny.grammar is a grammar, not text");
  for (const char* name : {"ckpt.pt", "a.tar.gz", "a.tgz", "a.tzst", "model.safetensors"}) {
    write_file(folder / name, "A line of text.\n");  // the name alone says that it is none
  }
  expect_refused("chars --text ckpt.pt", "ckpt.pt is a Python pickle");
  for (const char* name : {"a.tar.gz", "a.tgz", "a.tzst"}) {
    expect_refused(str("chars --text ", name), str(name, " is an archive of files: unpack it"));
  }
  expect_refused("chars --text model.safetensors", "model.safetensors is a file of a model's weights");
  write_file(folder / "page.txt", "<html>\nA line of text.\n");
  expect_refused("chars --text page.txt", "page.txt is an HTML page: pandoc");
  expect_refused("chars --text - < page.txt", "is an HTML page: pandoc");
  expect_refused("chars --text chars", "chars is a folder: name the files in it");
  ASSERT_EQ(run_command(folder.path(), "mkfifo pipe").code, 0);
  expect_refused("chars --text pipe", "pipe is a pipe or a device: feed it to the standard input, which is called -");
  fs::remove(folder / "chars/inkling_tokenizer.json");
  expect_refused("chars --text text.txt", "tokenizer");
}

TEST_F(EvalProgram, AModelWithoutSettingsScoresTextAllTheSame) {
  fs::remove(folder / "chars/config.yaml");
  fs::remove(folder / "chars/state.json");
  const Outcome outcome = run("chars --text text.txt --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out).at("documents"), 1);
}

TEST_F(EvalProgram, AStrideGivesMoreContext) {
  const auto tokens = [&](const std::string& more) { return nlohmann::json::parse(run("chars --json" + more).out); };
  EXPECT_EQ(tokens(" --stride 5").at("tokens"), tokens("").at("tokens"));
  EXPECT_NE(tokens(" --stride 5").at("loss"), tokens("").at("loss"));
  EXPECT_EQ(tokens(" --stride 20").at("loss"), tokens("").at("loss"));
  expect_refused("chars --stride 21",
                 "--stride: the stride is 21 and must be from 1 to 20, which is the model's block_size");
  expect_refused("chars --stride 0 --text text.txt", "--stride: the stride is 0 and must be from 1 to 20");
}

TEST_F(EvalProgram, BadFlagsAreRefused) {
  expect_refused("chars --each", "--each goes with --text");
  expect_refused("chars --strict --text text.txt", "--strict goes with --choices");
  expect_refused("chars --text text.txt --choices q.jsonl", "--text and --choices exclude each other");
  expect_refused("chars --stride 2 --choices q.jsonl", "--stride does not go with --choices");
  expect_refused("chars --choices nowhere.jsonl", "nowhere.jsonl");
  expect_refused("chars --set data.sorce=x", "data.sorce");
  expect_refused("chars --set data.source x", "--set data.source: there is no \"=\"");
  expect_refused("chars --device tpu", "--device is \"tpu\"");
  expect_refused("chars --checkpoint best", "best");
  expect_refused("nowhere", "nowhere");
}

}  // namespace
}  // namespace inkling
