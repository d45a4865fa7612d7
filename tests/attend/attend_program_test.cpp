// inkling-attend as a person meets it: what goes to stdout, messages, exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "tests/generate/loaded_model.h"
#include "tests/program_runner.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// A checkpoint of random weights; null: without a tokenizer.
void write_attended(const fs::path& folder, const Tokenizer* tokenizer) {
  GptShape shape = test::modern_shape;
  if (tokenizer != nullptr) shape.vocab_size = static_cast<std::int64_t>(tokenizer->vocab_size());
  const test::SmallModel model = test::make_lively_model(shape);
  const Optimizer optimizer(*model.arena, {}, model.model->backend());
  save_checkpoint(folder, parse_config("data: {source: text.txt}", "test", {}), shape, *model.arena, optimizer, {},
                  tokenizer);
}

// Models are written once: every test only reads them.
class AttendProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    files = new TemporaryFolder;
    write_attended(*files / "chars", make_char_tokenizer(true).get());
    write_attended(*files / "bytes", make_byte_tokenizer(false).get());
    write_attended(*files / "tokens", nullptr);
  }
  static void TearDownTestSuite() { delete files; }

  // On one thread: on a busy machine threads of so small a model wait for each other.
  static Outcome run(const std::string& arguments, const std::string& before = "") {
    return run_command(files->path(), before + "inkling-attend " + arguments + " --threads 1");
  }

  static std::vector<nlohmann::json> lines(const std::string& text) {
    std::vector<nlohmann::json> parsed;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) parsed.push_back(nlohmann::json::parse(line));
    return parsed;
  }

  static void expect_refused(const std::string& arguments, const std::vector<std::string>& parts) {
    expect_refusal(run(arguments), parts);
  }

  static TemporaryFolder* files;
};

TemporaryFolder* AttendProgram::files = nullptr;

TEST_F(AttendProgram, JsonIsALineForEachPromptInTheirOrder) {
  write_file(*files / "prompt.txt", "from a file\n");
  const Outcome outcome = run("chars --prompt once --prompt - --prompt-file prompt.txt --json", "echo upon | ");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto objects = lines(outcome.out);
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[0].at("prompt"), "once");
  EXPECT_EQ(objects[1].at("prompt"), "upon");
  EXPECT_EQ(objects[2].at("prompt"), "from a file");
  EXPECT_EQ(objects[2].at("tokens").size(), 12u);  // behind the separator
  EXPECT_EQ(objects[2].at("layers")[1].at("heads")[3].at("weights").size(), 12u);
}

TEST_F(AttendProgram, APromptIsAttendedToAloneWhateverElseIsAsked) {
  const Outcome both = run("chars --prompt once --prompt upon --json");
  const Outcome first = run("chars --prompt once --json"), second = run("chars --prompt upon --json");
  EXPECT_EQ(both.out, first.out + second.out);
}

TEST_F(AttendProgram, OneHeadIsPrintedInFullAndAgreesWithAll) {
  const auto all = lines(run("chars --prompt once --json").out).at(0);
  const auto one = lines(run("chars --prompt once --json --head 1.2").out).at(0);
  EXPECT_EQ(one.at("head").at("layer"), 1);
  EXPECT_EQ(one.at("head").at("head"), 2);
  EXPECT_EQ(one.at("head").at("weights"), all.at("layers")[1].at("heads")[2].at("weights"));
  EXPECT_EQ(one.at("head").at("queries").size(), 5u);
  EXPECT_EQ(one.at("next"), all.at("next"));
}

TEST_F(AttendProgram, JsonBearsAPromptThatIsNoText) {
  const auto objects = lines(run("bytes --prompt \"$(printf 'a\\377\"')\" --json").out);
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].at("prompt"), "a\xef\xbf\xbd\"");
  EXPECT_EQ(objects[0].at("tokens")[1].at("text"), "\\xff");
}

TEST_F(AttendProgram, APageOrAPictureGoesToStandardOutputOrWhereThePersonSays) {
  const Outcome page = run("chars --prompt once"), picture = run("chars --prompt once --head 1.2 --svg");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_EQ(page.err, "");
  EXPECT_TRUE(page.out.starts_with("<!doctype html>")) << page.out.substr(0, 100);
  EXPECT_EQ(picture.err, "");
  EXPECT_TRUE(picture.out.starts_with("<svg ")) << picture.out.substr(0, 100);
  const Outcome written = run("chars --prompt once --out page.html");
  EXPECT_EQ(written.out, "");
  EXPECT_EQ(written.err, "wrote page.html: open it in a browser\n");
  EXPECT_EQ(read_file(*files / "page.html"), page.out);
  EXPECT_EQ(run("chars --prompt once --head 1.2 --svg --out head.svg").err, "wrote head.svg\n");
  EXPECT_EQ(read_file(*files / "head.svg"), picture.out);
  EXPECT_EQ(run("chars --prompt once --out -").out, page.out);
}

TEST_F(AttendProgram, WhatIsNoFileOfItsOwnIsWrittenToAndStays) {
  const std::string page = run("chars --prompt once").out;
  write_file(*files / "target.html", "");
  fs::create_symlink("target.html", *files / "link.html");
  EXPECT_EQ(run("chars --prompt once --out link.html").code, 0);
  EXPECT_TRUE(fs::is_symlink(*files / "link.html"));
  EXPECT_EQ(read_file(*files / "target.html"), page);
  const Outcome piped = run_command(
      files->path(), "mkfifo pipe && { cat pipe & inkling-attend chars --prompt once --threads 1 --out pipe; wait; }");
  EXPECT_EQ(piped.out, page);
  EXPECT_TRUE(fs::is_fifo(*files / "pipe"));
}

TEST_F(AttendProgram, AHeadThatWasAskedForIsTheOneOnShow) {
  EXPECT_NE(run("chars --prompt once --head 0.0").out, run("chars --prompt once --head 1.3").out);
}

TEST_F(AttendProgram, EndsQuietlyWhereItsReaderHasGone) {
  std::string prompts;  // that give more than a pipe holds
  for (int i = 0; i < 40; ++i) prompts += " --prompt 'once upon a time'";
  const Outcome outcome = run_command(
      files->path(), "{ inkling-attend chars --threads 1 --json" + prompts + "; echo $? > code; } | head -c 20");
  EXPECT_EQ(read_file(*files / "code"), str(128 + SIGPIPE, "\n"));
  EXPECT_EQ(outcome.out, R"({"model":"chars","pr)");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(AttendProgram, MistakesGetPlaceAndRemedy) {
  expect_refused("chars --json", {"standard input: the prompt is empty"});  // standard input is empty
  expect_refused("chars --json --prompt once --prompt 'a Q'", {"--prompt: ", "Q"});
  write_file(*files / "long.txt", std::string(30, 'a'));
  expect_refused("chars --json --prompt-file long.txt",
                 {"long.txt: the prompt has 31 tokens", "at most 20", "shorter"});
  expect_refused("chars --json --prompt-file nowhere.txt", {"nowhere.txt"});
  expect_refused("chars --json --prompt a --head 2.0",
                 {"--head: 2.0 is no head of the model, which has 2 layers of 4 heads"});
  expect_refused("chars --json --prompt a --head 1", {"--head: \"1\" is no head", "0.0 to 1.3"});
  expect_refused("tokens --json --prompt a", {"holds no tokenizer"});
  expect_refused("nowhere --prompt a", {"nowhere"});
  expect_refused("chars --prompt a --prompt b", {"shows one text", "--json, which takes several"});
  expect_refused("chars --prompt a --svg", {"--svg draws one head: add --head L.H"});
  expect_refused("chars --prompt a --svg --json --head 0.0", {"--svg and --json exclude each other"});
  expect_refused("chars --prompt a --json --out x", {"--json goes to standard output"});
  expect_refused("chars --checkpoint best --prompt a", {"best"});
  expect_refused("chars a --json", {"did you mean --prompt \"a\"?"});
  expect_refused("chars --prompt a --jsn", {"unknown flag --jsn: did you mean --json?"});
  expect_refused("chars --prompt a --device tpu", {"--device is \"tpu\""});
  expect_refused("chars --prompt a --dtype bfloat16", {"unknown flag --dtype"});
}

TEST_F(AttendProgram, WhatCannotBeWrittenIsTheMachinesFault) {
  for (const char* place : {".", "nowhere/page.html", "/dev/full"}) {
    const Outcome outcome = run(str("chars --prompt a --out ", place));
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, place));
  }
}

}  // namespace
}  // namespace inkling
