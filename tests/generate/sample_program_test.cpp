// inkling-sample as a person meets it: what goes to stdout, messages, exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "tests/generate/loaded_model.h"
#include "tests/program_runner.h"
#include "tests/temporary_folder.h"
#include "tests/train/process.h"

namespace inkling {
namespace {

GptShape shape_for(const Tokenizer* tokenizer) {
  GptShape shape = test::small_shape;
  if (tokenizer != nullptr) shape.vocab_size = static_cast<std::int64_t>(tokenizer->vocab_size());
  return shape;
}

// A checkpoint of random weights, or of weights so large that no answer is a number; null: without a tokenizer.
void write_checkpoint(const fs::path& folder, const Tokenizer* tokenizer, std::int64_t step = 1, bool broken = false) {
  const GptShape shape = shape_for(tokenizer);
  const test::SmallModel model = test::make_lively_model(shape, {.seed = static_cast<std::uint64_t>(step)});
  if (broken) model.arena->values().fill_(1e38);
  Optimizer optimizer(*model.arena, {}, model.model->backend());
  optimizer.set_steps(step);
  const Config config = parse_config("data: {source: text.txt}", "test", {});
  create_folders(folder.parent_path());
  TrainingState state;
  state.step = step;
  save_checkpoint(folder, config, shape, *model.arena, optimizer, state, tokenizer);
}

// Checkpoints are written once: every test only reads them.
class SampleProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    files = new TemporaryFolder;
    write_checkpoint(*files / "chars", make_char_tokenizer(false).get());
    write_checkpoint(*files / "stories", make_char_tokenizer(true).get());
    write_checkpoint(*files / "bytes", make_byte_tokenizer(false).get());
    write_checkpoint(*files / "tokens", nullptr);
    write_checkpoint(*files / "broken", make_char_tokenizer(false).get(), 1, true);
    create_folders(*files / "run/checkpoints");
    write_checkpoint(*files / "run/checkpoints/step-000001", make_char_tokenizer(false).get(), 1);
    write_checkpoint(*files / "run/checkpoints/step-000002", make_char_tokenizer(false).get(), 2);
  }
  static void TearDownTestSuite() { delete files; }

  // On one thread, unless the test says otherwise: on a busy machine threads of so small a model wait for each other.
  static Outcome run(const std::string& arguments) {
    const bool says_threads = arguments.find("--threads") != std::string::npos;
    return run_command(files->path(), "inkling-sample " + arguments + (says_threads ? "" : " --threads 1"));
  }

  static Outcome shell(const std::string& line) { return run_command(files->path(), line); }

  static std::vector<nlohmann::json> lines(const std::string& text) {
    std::vector<nlohmann::json> parsed;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      parsed.push_back(nlohmann::json::parse(text.substr(at, end - at)));
      at = end + 1;
    }
    return parsed;
  }

  static void expect_refused(const std::string& arguments, const std::vector<std::string>& parts, int code = 2) {
    expect_refusal(run(arguments), parts, code);
  }

  static TemporaryFolder* files;
};

TemporaryFolder* SampleProgram::files = nullptr;

TEST_F(SampleProgram, CheckpointThatIsNotAsItWasSavedIsRefused) {
  write_checkpoint(*files / "flipped", make_char_tokenizer(false).get());
  const fs::path model = *files / "flipped/model.safetensors";
  std::string bytes = read_file(model);
  bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
  write_file(model, bytes);
  expect_refused("flipped --max-tokens 5", {"flipped/model.safetensors: its bytes are not those that were saved"});
}

TEST_F(SampleProgram, WhatTheFolderSaysOfSamplingIsBlamedOnTheFolderAndAFlagOverridesIt) {
  fs::copy(*files / "chars", *files / "elsewhere");
  fs::remove(*files / "elsewhere/state.json");
  const auto says = [&](const std::string& json) { write_file(*files / "elsewhere/generation_config.json", json); };
  const std::string flags = "elsewhere --prompt 'a b' --max-tokens 20 ";
  says(R"({"do_sample": true, "temperature": -1, "top_k": 3})");
  expect_refused(flags,
                 {"elsewhere/generation_config.json: temperature is -1, and must be 0 or above; take the field out"});
  const std::string by_flags = run("chars --prompt 'a b' --max-tokens 20 --temperature 1 --top-k 3").out;
  EXPECT_EQ(run(flags + "--temperature 1").out, by_flags);
  says(R"({"do_sample": true, "temperature": 1, "top_k": 3.0, "suppress_tokens": [], "num_beams": null})");
  EXPECT_EQ(run(flags).out, by_flags);
  says(R"({"do_sample": true, "temperature": 1, "top_k": -1})");
  EXPECT_EQ(run(flags).out, run("chars --prompt 'a b' --max-tokens 20 --temperature 1").out);
  says(R"({"num_beams": 4})");
  expect_refused(flags + "--temperature 1", {"generation_config.json: num_beams is 4, and must be 1"});
}

TEST_F(SampleProgram, ANameOnTheHubIsRefusedWithTheCommandThatFetchesIt) {
  expect_refused("openai-community/gpt2", {"hf download openai-community/gpt2"});
  expect_refused("gpt2", {"hf download openai-community/gpt2"});
}

TEST_F(SampleProgram, PrintsPromptAndTextAndNothingElse) {
  const Outcome outcome = run("chars --prompt 'a b' --max-tokens 20");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("a b")) << outcome.out;
  EXPECT_EQ(outcome.out.back(), '\n');
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(find_invalid_utf8(outcome.out), std::nullopt);
}

TEST_F(SampleProgram, SpecialMakesNamesInAPromptTheTokens) {
  const Outcome text = run("stories --prompt 'a<|endoftext|>' --max-tokens 5");
  EXPECT_EQ(text.code, 2);
  EXPECT_TRUE(contains(text.err, "--prompt: <|endoftext|> is ordinary text here; --special makes it")) << text.err;
  const Outcome special = run("stories --prompt 'a<|endoftext|>' --max-tokens 5 --special");
  EXPECT_EQ(special.code, 0) << special.err;
  EXPECT_EQ(special.err, "");
  const Outcome bytes = run("bytes --prompt 'a<|endoftext|>' --max-tokens 5");
  EXPECT_EQ(bytes.err, "") << "a vocabulary without such a token";
}

TEST_F(SampleProgram, TheSameCommandPrintsTheSameTextAndTheCacheChangesNothing) {
  const std::string command = "chars --prompt 'a b' --max-tokens 60 --temperature 0";
  const Outcome outcome = run(command);
  EXPECT_EQ(run(command).out, outcome.out);
  EXPECT_EQ(run(command + " --no-cache").out, outcome.out);
}

TEST_F(SampleProgram, SeveralSamplesComeInTheirOrderWithALineBetweenThem) {
  const Outcome outcome = run("chars --prompt once --prompt upon --count 2 --max-tokens 5");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Outcome first = run("chars --prompt once --max-tokens 5");
  const std::string separator = "---------------\n";
  EXPECT_TRUE(outcome.out.starts_with(first.out + separator + "once")) << outcome.out;
  std::size_t separators = 0;
  for (std::size_t at = 0; (at = outcome.out.find(separator, at)) != std::string::npos; ++at) ++separators;
  EXPECT_EQ(separators, 3u);
  EXPECT_LT(outcome.out.find("once"), outcome.out.find("upon"));
}

TEST_F(SampleProgram, JsonIsOneObjectALine) {
  const auto objects = lines(run("stories --prompt once --prompt '' --count 2 --max-tokens 50 --seed 7 --json").out);
  ASSERT_EQ(objects.size(), 4u);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(objects[i].at("prompt"), i < 2 ? "once" : "");
    EXPECT_EQ(objects[i].at("sample"), i % 2);
    EXPECT_EQ(objects[i].at("seed"), 7);
    const std::string finish = objects[i].at("finish");
    EXPECT_TRUE(finish == "length" || finish == "end") << finish;
    EXPECT_LE(objects[i].at("tokens"), 50);
    EXPECT_TRUE(objects[i].at("text").is_string());
  }
}

TEST_F(SampleProgram, JsonBearsAPromptThatIsNoText) {
  const auto objects = lines(run("bytes --prompt \"$(printf 'a\\377')\" --max-tokens 30 --json").out);
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].at("prompt"), "a\xEF\xBF\xBD");
}

TEST_F(SampleProgram, ReadsThePromptFromStandardInput) {
  EXPECT_TRUE(shell("printf 'so it was\\n' | inkling-sample chars --max-tokens 3").out.starts_with("so it was"));
  EXPECT_FALSE(shell("printf 'so it was\\n' | inkling-sample chars --max-tokens 3").out.starts_with("so it was\n"));
  EXPECT_TRUE(shell("printf 'so' | inkling-sample chars --prompt - --max-tokens 3").out.starts_with("so"));
}

TEST_F(SampleProgram, ReadsThePromptFromAFile) {
  write_file(*files / "prompt.txt", "line one\nline two\n");
  const Outcome outcome = run("chars --prompt-file prompt.txt --max-tokens 3");
  EXPECT_TRUE(outcome.out.starts_with("line one\nline two")) << outcome.out << outcome.err;
  expect_refused("chars --prompt-file missing.txt", {"missing.txt"});
}

TEST_F(SampleProgram, StopsBeforeAStopString) {
  const auto whole = lines(run("chars --prompt so --max-tokens 80 --json").out);
  const std::string text = whole.at(0).at("text");
  std::size_t cut = 30;
  while ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) ++cut;
  std::string stop = text.substr(cut, 1);
  while (find_invalid_utf8(stop)) stop = text.substr(cut, stop.size() + 1);
  const std::string quoted = stop == "'" ? "\"'\"" : "'" + stop + "'";
  const auto stopped = lines(run("chars --prompt so --max-tokens 80 --json --stop 'never' --stop " + quoted).out);
  EXPECT_EQ(stopped.at(0).at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped.at(0).at("finish"), "stop");
}

TEST_F(SampleProgram, ChoosesACheckpointOfARun) {
  const std::string newest = run("run --checkpoint newest --prompt so --max-tokens 40").out;
  EXPECT_EQ(run("run --checkpoint 2 --prompt so --max-tokens 40").out, newest);
  EXPECT_EQ(run("run --checkpoint step-000002 --prompt so --max-tokens 40").out, newest);
  EXPECT_EQ(run("run/checkpoints/step-000002 --prompt so --max-tokens 40").out, newest);
  EXPECT_NE(run("run --checkpoint 1 --prompt so --max-tokens 40").out, newest);
  expect_refused("run --checkpoint 7", {"7", "1, 2"});
  expect_refused("run --checkpoint first", {"first"});
}

TEST_F(SampleProgram, AReaderThatHasSeenEnoughIsNoError) {
  const Outcome outcome =
      shell("{ inkling-sample chars --prompt so --max-tokens 100000000; echo \"exit $?\" >&2; } | head -c 20");
  EXPECT_EQ(outcome.out.size(), 20u);
  EXPECT_EQ(outcome.err, "exit 0\n");
}

TEST_F(SampleProgram, AFullDiskIsAnError) {
  const Outcome outcome = shell("inkling-sample chars --prompt so --max-tokens 5 > /dev/full");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("standard output"), std::string::npos) << outcome.err;
}

TEST_F(SampleProgram, AnInterruptionEndsTheTextWithoutAnError) {
  const Process process("inkling-sample", {"chars", "--prompt", "so", "--max-tokens", "100000000", "--threads", "1"},
                        files->path());
  ASSERT_TRUE(process.has_printed("so"));
  process.send(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(outcome.out.starts_with("so"));
  EXPECT_EQ(outcome.out.back(), '\n');
}

TEST_F(SampleProgram, AnInterruptionThatTheParentIgnoresEndsNothing) {
  ::signal(SIGINT, SIG_IGN);
  const Process process("inkling-sample", {"chars", "--prompt", "so", "--max-tokens", "3000", "--threads", "1"},
                        files->path());
  ::signal(SIGINT, SIG_DFL);
  ASSERT_TRUE(process.has_printed("so"));
  process.send(SIGINT);
  EXPECT_EQ(process.wait().code, 0);
}

TEST_F(SampleProgram, BadFlagsAreRefusedWithTheirNames) {
  expect_refused("chars --temperature -1", {"--temperature: temperature is -1 and must be 0"});
  expect_refused("chars --temperature warm", {"--temperature is \"warm\", which is not a number\n"});
  expect_refused("chars --temperature nan", {"--temperature"});
  expect_refused("chars --top-p 0", {"--top-p"});
  expect_refused("chars --top-k -3", {"--top-k", "-3"});
  expect_refused("chars --top-k 2.5", {"--top-k", "2.5"});
  expect_refused("chars --min-p 2", {"--min-p"});
  expect_refused("chars --repetition-penalty 0", {"--repetition-penalty"});
  expect_refused("chars --count 0", {"--count", "from 1"});
  expect_refused("chars --max-tokens -5", {"--max-tokens", "-5"});
  expect_refused("chars --seed 010", {"--seed", "010"});
  expect_refused("chars --stop ''", {"--stop", "empty"});
  expect_refused("chars --promt so", {"--promt", "--prompt"});
  expect_refused("chars 'so it'", {"unexpected argument \"so it\": did you mean --prompt \"so it\"? "});
  expect_refused("", {"RUN_OR_CHECKPOINT"});
}

TEST_F(SampleProgram, BadRuntimeFlagsAreRefused) {
  expect_refused("chars --device tpu", {"--device=tpu: --device is \"tpu\""});
  expect_refused("chars --threads -1", {"--threads=-1: --threads is -1"});
  expect_refused("chars --dtype float16", {"--dtype is \"float16\""});
  expect_refused("chars --kernels mine", {"--kernels is \"mine\""});
}

TEST_F(SampleProgram, RunsInBfloat16) {
  const std::string flags =
      "chars --device cpu --dtype bfloat16 --prompt so --max-tokens 30 --temperature 0 --kernels ";
  const Outcome fused = run(flags + "fused"), without_cache = run(flags + "fused --no-cache"),
                reference = run(flags + "reference");
  for (const Outcome& outcome : {fused, without_cache, reference}) EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(fused.out, without_cache.out);
}

TEST_F(SampleProgram, PromptCharactersOutsideTheVocabularyAreNamed) {
  expect_refused("chars --prompt 'a Q, a Ω'", {"--prompt", "Q", "Ω"});
  write_file(*files / "bad-prompt.txt", "a Q");
  expect_refused("chars --prompt-file bad-prompt.txt", {"bad-prompt.txt", "Q"});
  expect_refused("chars < bad-prompt.txt", {"standard input", "Q"});
  expect_refused("chars --prompt \"$(printf 'a\\377')\"", {"--prompt", "UTF-8"});
}

TEST_F(SampleProgram, AModelWithoutATokenizerIsRefused) {
  expect_refused("tokens --prompt so", {"tokens", "tokenizer.json"});
}

TEST_F(SampleProgram, AFolderThatIsNoModelIsRefused) {
  create_folders(*files / "empty");
  expect_refused("empty", {"empty", "config.json"});
  expect_refused("nowhere", {"nowhere"});
  expect_refused(".", {"error: . is neither a run's folder", "; the runs in it: ./run; the models in it: ./"});
  create_folders(*files / "untrained/checkpoints");
  expect_refused("untrained",
                 {"untrained has no checkpoint yet that can be used; train it first: inkling-train CONFIG\n"});
}

TEST_F(SampleProgram, AModelWhoseAnswersAreNoNumbersEndsItWithCode4) {
  for (const char* more : {"", " --temperature 0 --json", " --dtype bfloat16", " --no-cache", " --kernels reference"}) {
    const Outcome outcome = run(str("broken --prompt ab", more));
    EXPECT_EQ(outcome.code, 4) << more << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "the model's answer is not a number")) << more;
  }
}

TEST_F(SampleProgram, HelpNamesTheOrderOfTheSteps) {
  Outcome outcome = run("--help");
  EXPECT_EQ(outcome.code, 0);
  std::ranges::replace(outcome.out, '\n', ' ');
  EXPECT_NE(outcome.out.find("repetition penalty, temperature, top-k, top-p, min-p"), std::string::npos);
}

}  // namespace
}  // namespace inkling
