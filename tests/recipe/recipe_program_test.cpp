// inkling-recipe and inkling-train --minutes as a person runs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/strings.h"
#include "config/config.h"
#include "tests/program_runner.h"
#include "tests/temporary_folder.h"
#include "tests/train/process.h"
#include "train/run_folder.h"

namespace inkling {
namespace {

// A text of about so many bytes, in which there is something to learn.
std::string tale(std::size_t bytes) {
  const std::vector<std::string> who{"fox", "bear", "mouse", "child"}, what{"ran home", "ate a lemon", "fell asleep"};
  std::string text;
  for (std::size_t i = 0; text.size() < bytes; ++i) {
    text += str("Day ", i, ": the ", who[i * i % 4], " ", what[i * 7 % 3], " and the ", who[i % 3], " saw it.\n");
  }
  return text;
}

class RecipeProgram : public testing::Test {
 protected:
  Outcome run(const std::string& command) const { return run_command(folder.path(), command); }

  TemporaryFolder folder;
};

TEST_F(RecipeProgram, WritesAConfigurationThatADryRunAccepts) {
  folder.write("tale.txt", tale(60'000));
  const Outcome outcome = run("inkling-recipe tale.txt --minutes 0.2 --memory 0.5 --explain --device cpu");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("# inkling-recipe tale.txt --minutes 0.2 --memory 0.5 --device cpu\n"));
  EXPECT_TRUE(contains(outcome.out, "bits per byte"));
  EXPECT_TRUE(contains(outcome.err, "measured"));
  folder.write("tale.yaml", outcome.out);
  const Config config = load_config(folder / "tale.yaml", {});
  EXPECT_EQ(config.runtime.memory_limit_gib, 0.5);
  EXPECT_EQ(config.optimizer.name, OptimizerName::muon);
  const Outcome dry_run = run("inkling-train tale.yaml --dry-run");
  EXPECT_EQ(dry_run.code, 0) << dry_run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
}

TEST_F(RecipeProgram, TrainsFromItAndTheSameCommandGoesOn) {
  folder.write("tale.txt", tale(20'000));
  const Process process("inkling-train",
                        {"tale.txt", "--minutes", "0.1", "--tokenizer", "byte", "--context", "32", "--device", "cpu"},
                        folder.path());
  ASSERT_TRUE(process.has_said("  loss"));
  process.send(SIGINT);
  const Outcome first = process.wait();
  ASSERT_EQ(first.code, 75) << first.err;
  const std::string recipe = read_file(folder / "runs/tale/recipe.yaml");
  const Config config = parse_config(recipe, "recipe.yaml", {});
  EXPECT_EQ(config.model.block_size, 32);
  const std::string command = "inkling-train tale.txt --minutes 0.1 --tokenizer byte --context 32 --device cpu";
  const Outcome again = run(command + " --set logging.interval=7");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_FALSE(contains(again.err, "measures")) << "the recipe is there already";
  EXPECT_TRUE(contains(again.err, str("step ", config.training.max_steps, "/", config.training.max_steps)));
  EXPECT_EQ(read_file(folder / "runs/tale/recipe.yaml"), recipe);
  expect_refusal(run("inkling-train tale.txt --minutes 7"),
                 {"runs/tale", "\"" + command + " --out runs/tale\" goes on", "--fresh"});
  folder.write("runs/other/log.jsonl", "{}\n");
  folder.write("other.txt", tale(20'000));
  expect_refusal(run("inkling-train other.txt --minutes 7"), {"runs/other", "without a recipe", "--out"});
}

TEST_F(RecipeProgram, RefusesWhatItCannotDoWithPlaceAndRemedy) {
  folder.write("short.txt", "Too short to learn from.");
  expect_refusal(run("inkling-recipe short.txt --minutes 1"), {"short.txt", "24 bytes", "2,000"});
  expect_refusal(run("inkling-recipe shrt.txt --minutes 1"), {"shrt.txt", "short.txt"});
  expect_refusal(run("inkling-recipe short.txt"), {"--minutes"});
  expect_refusal(run("inkling-recipe short.txt --minutes 0"), {"--minutes"});
  for (const std::string minutes : {"ten", "nan", "-1", "1e300"}) {
    expect_refusal(run("inkling-recipe short.txt --minutes=" + minutes), {"--minutes", "number above 0"});
  }
  expect_refusal(run("inkling-recipe short.txt --minutes 1 --memory nan"), {"--memory", "number above 0"});
  folder.write("stray.txt", tale(20'000) + "\xe9\n" + tale(20'000));
  expect_refusal(run("inkling-recipe stray.txt --minutes 1 --tokenizer char"),
                 {"stray.txt:", "iconv", "--tokenizer byte"});
  folder.write("letters/first.txt", tale(20'000));
  expect_refusal(run("inkling-train 'letters/*.txt' --minutes 1"), {"letters/*.txt", "--out"});
  folder.write("tale.txt", tale(20'000));
  expect_refusal(run("inkling-recipe tale.txt --minutes 1 --tokenizer words"), {"--tokenizer", "words"});
  expect_refusal(run("inkling-recipe tale.txt --minutes 1 --device gpu"), {"--device", "gpu"});
  folder.write("odd.yaml", "data: {source: tale.txt}\n");
  expect_refusal(run("inkling-train odd.yaml --minutes 1"), {"odd.yaml", "configuration", "without --minutes"});
  expect_refusal(run("inkling-train tale.txt"), {"tale.txt", "--minutes"});
  expect_refusal(run("inkling-train odd.yaml --context 64"), {"--context", "--minutes"});
  expect_refusal(run("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "
                     "inkling-train tale.txt --minutes 1"),
                 {"--minutes", "inkling-recipe"});
}

TEST_F(RecipeProgram, ReadsTheTextBySettingsThatAreGiven) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += str("{\"body\": \"Day ", i, ": the fox ate a lemon.\"}\n");
  folder.write("tales.jsonl", lines);
  const std::string command = "inkling-recipe tales.jsonl --minutes 0.1 --tokenizer byte --context 32 --device cpu";
  expect_refusal(run(command), {"\"body\"", "data.jsonl_field"});
  expect_refusal(run(command + " --set data.jsonl_feld=body"), {"data.jsonl_feld", "data.jsonl_field"});
  const Outcome typo = run(command + " --set data.jsonl_field=body --set model.n_layr=1");
  expect_refusal(typo, {"model.n_layr", "model.n_layer"});
  EXPECT_FALSE(contains(typo.err, "tail")) << "nothing was measured yet";
  expect_refusal(run(command + " --set data.tokenizer.vocab_size=300"), {"data.tokenizer.vocab_size", "--tokenizer"});
  const Outcome outcome = run(command + " --set data.jsonl_field=body --set model.n_layer=1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("# " + command + " --set data.jsonl_field=body --set model.n_layer=1\n"))
      << outcome.out;
  folder.write("tales.yaml", outcome.out);
  const Config config = load_config(folder / "tales.yaml", {});
  EXPECT_EQ(config.data.jsonl_field, "body");
  EXPECT_EQ(config.model.n_layer, 1);
}

// As where a run begins while the recipe of another for the same folder is measured.
TEST_F(RecipeProgram, LeavesTheRecipeOfARunThatAnotherProcessTrains) {
  folder.write("tale.txt", tale(20'000));
  const RunFolder held(folder / "runs/tale", false);
  folder.write("runs/tale/recipe.yaml", "# of the other\n");
  expect_refusal(run("inkling-train tale.txt --minutes 0.1 --tokenizer byte --context 32 --device cpu"),
                 {"another process is training"});
  EXPECT_EQ(read_file(folder / "runs/tale/recipe.yaml"), "# of the other\n");
}

TEST_F(RecipeProgram, GoesOnFromAModel) {
  folder.write("tale.txt", tale(20'000));
  ASSERT_EQ(run("inkling-train tale.txt --minutes 0.1 --tokenizer char --context 32 --device cpu --out first").code, 0);
  const std::string command = "inkling-train tale.txt --minutes 0.1 --like first --device cpu --out second";
  const Outcome second = run(command);
  ASSERT_EQ(second.code, 0) << second.err;
  const Config recipe = load_config(folder / "second/recipe.yaml", {});
  EXPECT_EQ(recipe.model.init_from, "first");
  EXPECT_TRUE(contains(second.err, "starts from first")) << second.err;
  EXPECT_EQ(run(command).code, 0);
  expect_refusal(run("inkling-recipe tale.txt --minutes 1 --like frist"), {"frist", "first"});
  expect_refusal(run("inkling-recipe tale.txt --minutes 1 --like first --tokenizer byte"), {"--like", "--tokenizer"});
  folder.write("foreign.txt", tale(20'000) + "\u00e9\u00e8\u00ea");
  expect_refusal(run("inkling-recipe foreign.txt --minutes 1 --like first"), {"foreign.txt"});
}

// One way of writing after the other that is no plain prose: a recipe that a dry run takes, or a clear no.
TEST_F(RecipeProgram, TakesAnyTextOrSaysWhyNot) {
  folder.write(
      "line.txt", std::string(3, 'x') + [] {
        std::string line = tale(30'000);
        std::replace(line.begin(), line.end(), '\n', ' ');
        return line;
      }());
  folder.write("same.txt", std::string(30'000, 'a'));
  folder.write("tiny.txt", tale(3'000));
  folder.write("latin1.txt", tale(10'000) + "caf\xe9 " + tale(10'000));
  std::string languages;
  for (const char* const phrase :
       {"the fox ran home. ", "лиса побежала домой. ", "狐狸跑回家。", "きつねは家に帰った。",
        "여우가 집으로 달려갔다. ", "η αλεπού έτρεξε σπίτι. ", "الثعلب ركض إلى البيت. ", "लोमड़ी घर भागी। ",
        "השועל רץ הביתה. ", "der Fuchs lief heim. "}) {
    for (int i = 0; i < 100; ++i) languages += phrase;
  }
  folder.write("languages.txt", languages);
  for (const std::string name : {"line", "same", "tiny", "latin1", "languages"}) {
    const Outcome outcome = run("inkling-recipe " + name + ".txt --minutes 0.3 --device cpu");
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    folder.write(name + ".yaml", outcome.out);
    const Outcome dry_run = run("inkling-train " + name + ".yaml --dry-run");
    EXPECT_EQ(dry_run.code, 0) << name << dry_run.err;
  }
  folder.write("nothing.txt", "");
  expect_refusal(run("inkling-recipe nothing.txt --minutes 1"), {"nothing.txt"});
  folder.write("picture.png", "\x89PNG\r\n\x1a\n" + std::string(5'000, '\0'));
  expect_refusal(run("inkling-recipe picture.png --minutes 1"), {"picture.png"});
}

// What is asked for changes what is measured, and steps are counted by that.
TEST_F(RecipeProgram, CountsTheStepsOfTheSettingsThatAreGiven) {
  folder.write("tale.txt", tale(20'000));
  const auto recipe = [&](const std::string& settings) {
    const Outcome outcome =
        run("inkling-recipe tale.txt --minutes 0.2 --tokenizer byte --context 32 --device cpu" + settings);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string usual = recipe(""), larger = recipe(" --set training.batch_size=1000 --set model.n_layer=8");
  EXPECT_TRUE(contains(usual, "# expected of its tail: ")) << usual;
  EXPECT_TRUE(contains(larger, "# what to expect with training.batch_size=1000 is not known")) << larger;
  EXPECT_LT(parse_config(larger, "", {}).training.max_steps, parse_config(usual, "", {}).training.max_steps / 4);
  const std::string few = recipe(" --set training.max_steps=30");
  EXPECT_TRUE(contains(few, "\n# 30 steps of ")) << few;
  const Config config = parse_config(few, "", {});
  EXPECT_EQ(config.training.max_steps, 30);
  EXPECT_EQ(config.evaluation.interval, 6);
  expect_refusal(run("inkling-recipe tale.txt --minutes 0.2 --tokenizer byte --context 32 --set model.n_head=7"),
                 {"n_head", "n_embd"});
}

TEST_F(RecipeProgram, CtrlCWhileItMeasuresLeavesNothing) {
  folder.write("tale.txt", tale(60'000));
  folder.write("temporary/place", "");
  ::setenv("TMPDIR", (folder / "temporary").c_str(), 1);
  const Process process("inkling-train", {"tale.txt", "--minutes", "1", "--device", "cpu"}, folder.path());
  ::unsetenv("TMPDIR");
  ASSERT_TRUE(process.has_said("measures this machine"));
  process.send(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 128 + SIGINT) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  EXPECT_FALSE(std::filesystem::exists(folder / "data"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "temporary"), {}), 1);
}

}  // namespace
}  // namespace inkling
