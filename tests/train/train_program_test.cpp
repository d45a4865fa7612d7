// inkling-train as a person meets it: exit codes, messages, the run folder.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu_backend.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/optimizer_file.h"
#include "optim/optimizer.h"
#include "tests/compressed.h"
#include "tests/train/training_folder.h"
#include "train/run_folder.h"
#include "train/start.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;
using TrainProgram = TrainingFolder;

// Documents of several lengths.
std::string lines_of_json() {
  std::string lines;
  for (int i = 0; i < 90; ++i) {
    lines += str("{\"text\": \"", i, " ", std::string(static_cast<std::size_t>(i % 7) * 9, 'a'), "\"}\n");
  }
  return lines;
}

TEST_F(TrainProgram, WritesLogConfigAndCheckpointsAndKeepsNewestAndBest) {
  const Outcome outcome = train();
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const char* part : {"parameters", "training holds about", "writes to runs/run", "step 40/40  loss ", "tokens/s",
                           "evaluation: train loss", "done: best val loss"}) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << "\n" << outcome.err;
  }
  const auto lines = log();
  EXPECT_EQ(lines.size(), 44u);  // 40 steps and 4 evaluations
  EXPECT_TRUE(lines.front().contains("grad_norm") && lines.front().contains("learning_rate"));
  EXPECT_LT(lines[42]["loss"].get<double>(), lines[0]["loss"].get<double>());
  EXPECT_NE(read_file(folder / "runs/run/config.yaml").find("n_embd: 32"), std::string::npos);
  for (const char* file : {"config.json", "model.safetensors", "optimizer.safetensors", "state.json", "config.yaml",
                           "inkling_tokenizer.json"}) {
    EXPECT_TRUE(fs::exists(folder / "runs/run/checkpoints/step-000040" / file)) << file;
  }
  EXPECT_LE(std::distance(fs::directory_iterator(folder / "runs/run/checkpoints"), fs::directory_iterator()), 2);
}

TEST_F(TrainProgram, DocumentsAreKeptApartOrPackedWhereTheirSeparatorIsKnown) {
  const std::string few = "--set training.max_steps=5 --set evaluation.interval=5 --set schedule.decay_steps=5";
  for (const std::string documents : {"mask", "align"}) {
    const std::string asked = "--set data.documents=" + documents;
    for (const std::string dry : {"", " --dry-run"}) {
      expect_refused(train({few, asked + dry}),
                     {"data.documents is " + documents, "single text", "use data.documents: join", ".jsonl"});
    }
  }
  write_file(folder / "text.jsonl", str("{\"text\": \"", std::string(2000, 'a'), "\"}\n"));
  expect_refused(train({few, "--set data.source=text.jsonl --set data.documents=mask"}),
                 {"data.documents is mask", "the training split is one document", "Use data.documents: join"});
  write_file(folder / "text.jsonl", lines_of_json());
  std::vector<double> losses;
  for (const std::string documents : {"join", "mask", "align"}) {
    const Outcome outcome =
        train({few, "--set data.source=text.jsonl --out runs/" + documents + " --set data.documents=" + documents});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find(" documents into ") != std::string::npos, documents == "align") << outcome.err;
    losses.push_back(log("runs/" + documents).back()["val_loss"].get<double>());
  }
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_NE(losses[1], losses[2]);
}

// So an evaluation that reads all windows comes to what inkling-eval does.
TEST_F(TrainProgram, PackedDocumentsOfTheValidationSplitAreEvaluatedEachByItself) {
  write_file(folder / "text.jsonl", lines_of_json());
  const Outcome outcome = train({"--set data.source=text.jsonl --set data.documents=align --set training.max_steps=5",
                                 "--set evaluation.batches=1000 --set schedule.decay_steps=5"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Outcome evaluated = run_command(folder.path(), "inkling-eval runs/run --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(log().back()["val_loss"].get<double>(), nlohmann::json::parse(evaluated.out)["loss"].get<double>(), 1e-5);
}

TEST_F(TrainProgram, FinishedRunSaysSo) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  const std::string before = read_file(folder / "runs/run/log.jsonl");
  const Outcome again = train({"--set", "training.max_steps=6"});
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("this run is finished: 6 steps"), std::string::npos) << again.err;
  EXPECT_EQ(before, read_file(folder / "runs/run/log.jsonl"));
}

TEST_F(TrainProgram, ChangedSettingsAreListedAndSomeNeedConsent) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  expect_refused(train({"--set", "training.max_steps=8", "--set", "optimizer.learning_rate=5e-4"}),
                 {"optimizer.learning_rate: 0.001 -> 5e-04", "--accept-changes", "--fresh"});
  expect_refused(train({"--set", "model.n_layer=3"}), {"model.n_layer: 2 -> 3", "--fresh"});
  expect_refused(train({"--set", "model.n_layer=3", "--accept-changes"}), {"model.n_layer: 2 -> 3", "--fresh"});
  const Outcome accepted =
      train({"--set", "training.max_steps=8", "--set", "optimizer.learning_rate=5e-4", "--accept-changes"});
  EXPECT_EQ(accepted.code, 0) << accepted.err;
  EXPECT_NE(accepted.err.find("training.max_steps: 6 -> 8"), std::string::npos) << accepted.err;
  const Outcome free = train({"--set", "training.max_steps=9", "--set", "optimizer.learning_rate=5e-4", "--set",
                              "logging.interval=2", "--set", "evaluation.interval=4"});
  EXPECT_EQ(free.code, 0) << free.err;
}

TEST_F(TrainProgram, WritingWhatAutoCameToIsNoChange) {
  ASSERT_EQ(train({"--set schedule.decay_steps=auto --set training.micro_batch_size=auto --set training.max_steps=6 "
                   "--set runtime.threads=auto"})
                .code,
            0);
  const auto state = nlohmann::json::parse(checkpoint_file("run", "000006", "state.json"));
  const std::string written =
      str("--set training.max_steps=8 --set schedule.decay_steps=6 --set training.micro_batch_size=",
          state["micro_batch_size"].get<int>(), " --set runtime.split=", state["runtime"]["split"].get<std::string>(),
          " --set runtime.threads=", state["runtime"]["threads"].get<int>(),
          " --set runtime.kernels=fused --set runtime.dtype=float32 --set model.n_inner=128 --set model.head_size=16 ",
          "--set model.n_kv_head=2 --set optimizer.embedding_learning_rate=1e-3");
  const Outcome same = train({written});
  EXPECT_EQ(same.code, 0) << same.err;
  const std::string change = "changed since the checkpoint: ";
  EXPECT_TRUE(contains(same.err, change + "training.max_steps: 6 -> 8\n"));
  EXPECT_EQ(same.err.find(change), same.err.rfind(change)) << same.err;
  expect_refused(train({written, "--set training.max_steps=9 --set schedule.decay_steps=7"}),
                 {change + "schedule.decay_steps: 6 -> 7", "--accept-changes"});
  expect_refused(train({"--set training.max_steps=9 --set model.n_inner=96"}), {"model.n_inner", "--fresh"});
  const Outcome back =
      train({"--set training.max_steps=8 --set runtime.threads=auto --set training.micro_batch_size=auto "
             "--set schedule.decay_steps=6"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(back.err.find(change), std::string::npos) << back.err;
}

// The schedule is stretched where its end follows training.max_steps.
TEST_F(TrainProgram, MoreStepsTellTheNewRateAndTheSettingThatKeepsTheOldOne) {
  ASSERT_EQ(train({"--set training.max_steps=10 --set schedule.decay_steps=auto"}).code, 0);
  const std::string more = "--set training.max_steps=12 ";
  const Outcome stretched = train({more, "--set schedule.decay_steps=auto --dry-run"});
  EXPECT_EQ(stretched.code, 0) << stretched.err;
  Config config;
  config.optimizer.learning_rate = 1e-3;
  config.schedule = {.warmup_steps = 5, .min_learning_rate = 1e-4};
  const double rate = learning_rate(10, config.optimizer, config.schedule, 12);
  EXPECT_TRUE(
      contains(stretched.err, str("step 11 has the learning rate ", format_shortest(std::round(rate * 1e8) / 1e8),
                                  ", and would have had 1e-04: ")));
  EXPECT_TRUE(contains(stretched.err, "schedule.decay_steps: 10 keeps the old one"));
  const Outcome kept = train({more, "--set schedule.decay_steps=10"});
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_EQ(kept.err.find("has the learning rate"), std::string::npos) << kept.err;
  for (const nlohmann::json& line : log()) {
    if (line.contains("learning_rate") && line["step"] > 10) {
      EXPECT_EQ(line["learning_rate"], 1e-4);
    }
  }
}

TEST(NewRates, AreToldOfEveryScheduleThatFalls) {
  Config before, after;
  before.training.max_steps = 2000;
  after.training.max_steps = 4000;
  const auto told = [&](ScheduleName name, std::int64_t step) {
    before.schedule.name = after.schedule.name = name;
    return describe_new_rates(before, after, step);
  };
  for (const ScheduleName name : {ScheduleName::cosine, ScheduleName::linear, ScheduleName::wsd}) {
    EXPECT_TRUE(contains(told(name, 2000), "step 2,001 has the learning rate "));
    EXPECT_TRUE(contains(told(name, 2000), "and would have had 6e-05"));
    EXPECT_TRUE(contains(told(name, 2000), "schedule.decay_steps: 2000 keeps"));
  }
  EXPECT_EQ(told(ScheduleName::constant, 2000), "");
  EXPECT_EQ(told(ScheduleName::wsd, 1000), "") << "it has not begun to fall";
  EXPECT_NE(told(ScheduleName::cosine, 1000), "");
  EXPECT_EQ(told(ScheduleName::cosine, 50), "") << "it still rises";
  before.schedule.decay_steps = after.schedule.decay_steps = 2000;
  EXPECT_EQ(told(ScheduleName::cosine, 2000), "");
}

// A million checkpoints of 6 million parameters and their moments are 75 TB.
TEST_F(TrainProgram, WhatDoesNotFitOnTheDiskIsSaidBeforeTrainingWithBothNumbers) {
  const std::string more =
      "--set checkpoint.keep=1000000 --set checkpoint.interval=1000 "
      "--set training.max_steps=1000000000 --set model.n_embd=512 ";
  expect_refused(train({more, "--dry-run"}),
                 {"dry run: nothing was written; not enough room: checkpoints and log take about ", " TiB",
                  " are free on the disk of " + folder.path().string(), "a smaller checkpoint.keep helps",
                  "choose a run folder and a data.dir on another disk"},
                 3);
  EXPECT_FALSE(fs::exists(folder / "runs"));
  const Process begun("inkling-train",
                      {"run.yaml", "--set", "checkpoint.keep=1000000", "--set", "training.max_steps=1000000000",
                       "--set", "model.n_embd=512"},
                      folder.path());
  EXPECT_TRUE(begun.has_said("step 1/1000000000"));
  begun.send(SIGKILL);
  EXPECT_TRUE(contains(begun.wait().err, "warning: not enough room: checkpoints and log take about "));
  const Outcome fits = train({"--dry-run"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_TRUE(contains(fits.err, " are free\n"));
}

TEST_F(TrainProgram, InAnotherDtypeKernelsAreChosenAnew) {
  ASSERT_EQ(train({"--set training.max_steps=6"}).code, 0);
  const Outcome rounded = train({"--set training.max_steps=8 --set runtime.dtype=bfloat16 --accept-changes"});
  EXPECT_EQ(rounded.code, 0) << rounded.err;
  EXPECT_NE(rounded.err.find("in bfloat16, reference kernels"), std::string::npos) << rounded.err;
}

TEST_F(TrainProgram, OtherDataIsRefused) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  std::string text = read_file(folder / "text.txt");
  text[3000] = text[3000] == 'a' ? 'b' : 'a';
  const std::string old_text = read_file(folder / "text.txt");
  write_file(folder / "text.txt", text);
  const std::vector<std::string> message{"is not what the run in runs/run was trained on", "--fresh"};
  expect_refused(train({"--set", "training.max_steps=8"}), message);
  expect_refused(train({"--set", "training.max_steps=8", "--dry-run"}), message);
  write_file(folder / "text.txt", old_text);
  const Outcome back = train({"--set", "training.max_steps=8"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(back.err.find("preparing"), std::string::npos) << "the old token files are gone: " << back.err;
}

TEST_F(TrainProgram, AnotherTokenizerOrSourceIsRefusedWhateverIsAccepted) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  fs::copy_file(folder / "text.txt", folder / "other.txt");
  const std::vector<std::pair<std::string, std::string>> changes{
      {"data.tokenizer.kind=byte", "data.tokenizer.kind: char -> byte"},
      {"data.tokenizer.vocab_size=300", "data.tokenizer.vocab_size: 4096 -> 300"},
      {"data.source=other.txt", "data.source: [text.txt] -> [other.txt]"}};
  for (const auto& [setting, change] : changes) {
    const Outcome outcome = train({"--set", "training.max_steps=8", "--set", setting, "--accept-changes"});
    expect_refused(outcome, {change, "another model or other data", "--fresh"});
    EXPECT_EQ(outcome.err.find("preparing"), std::string::npos) << outcome.err;
  }
}

TEST_F(TrainProgram, FreshStartsBesideAndDeletesNothing) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  const std::string before = checkpoint_file("run", "000006", "model.safetensors");
  const Outcome fresh = train({"--set", "training.max_steps=6", "--set", "training.seed=3", "--fresh"});
  ASSERT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_NE(fresh.err.find("writes to runs/run-2"), std::string::npos) << fresh.err;
  EXPECT_TRUE(before == checkpoint_file("run", "000006", "model.safetensors"));
  EXPECT_FALSE(before == checkpoint_file("run-2", "000006", "model.safetensors"));
}

TEST_F(TrainProgram, FreshTakesAFolderInWhichNothingWasTrained) {
  expect_refused(train({"--set", "model.block_size=30000"}), {"text.txt"});
  ASSERT_TRUE(fs::exists(folder / "runs/run/.lock"));
  for (const char* name : {"runs/run", "runs/run-2"}) {
    const Outcome fresh = train({"--set", "training.max_steps=6", "--fresh"});
    ASSERT_EQ(fresh.code, 0) << fresh.err;
    EXPECT_NE(fresh.err.find(str("writes to ", name, ": ")), std::string::npos) << fresh.err;
  }
}

TEST_F(TrainProgram, DryRunSaysThatCountsWaitForTheTokenizer) {
  const Outcome outcome = train({"--dry-run", "--set", "data.tokenizer.kind=sentencepiece"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(
      outcome.err.find("vocabulary 4096 as asked for; the number of tokens is known once the tokenizer is trained\n"),
      std::string::npos)
      << outcome.err;
}

TEST_F(TrainProgram, SaysWithWhatRatesItTrains) {
  EXPECT_NE(train({"--dry-run --set optimizer.learning_rate=0.005"}).err.find("optimizer: adamw, 0.005\n"),
            std::string::npos);
  const std::string muon = "--set optimizer.name=muon --set optimizer.learning_rate=0.005 ";
  const Outcome outcome = train({"--dry-run", muon, "--set optimizer.embedding_learning_rate=0.01",
                                 "--set optimizer.vector_learning_rate=0.02 --set model.norm=rmsnorm",
                                 "--set model.norm_weights=false --set model.bias=false"});
  EXPECT_NE(outcome.err.find("optimizer: muon, 0.02 for hidden matrices; adamw, 0.005, for embeddings 0.01\n"),
            std::string::npos)
      << outcome.err;
}

TEST_F(TrainProgram, DryRunWritesNothing) {
  const Outcome outcome = train({"--dry-run"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"parameters", "training holds about", "writes to runs/run", "nothing was written"}) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder / "runs"));
  EXPECT_FALSE(fs::exists(folder / "data"));
}

TEST_F(TrainProgram, PrintConfigRoundTrips) {
  const Outcome first = train({"--print-config", "--set", "model.n_layer=5"});
  ASSERT_EQ(first.code, 0) << first.err;
  write_file(folder / "run.yaml", first.out);
  EXPECT_EQ(train({"--print-config"}).out, first.out);
  EXPECT_NE(first.out.find("n_layer: 5"), std::string::npos);
}

TEST_F(TrainProgram, BadInputIsRefusedWithPlaceAndRemedy) {
  expect_refused(train({"--set", "model.n_layers=3"}), {"--set model.n_layers=3", "n_layer"});
  expect_refused(train({"--out"}), {"--out"});
  expect_refused(train({"--frehs"}), {"unknown flag --frehs", "--fresh"});
  expect_refused(run_command(folder.path(), "inkling-train nowhere.yaml"), {"nowhere.yaml"});
  expect_refused(run_command(folder.path(), "inkling-train ."), {"folder"});
  expect_refused(run_command(folder.path(), "inkling-train text.txt"),
                 {"text.txt:1:1: ", "CONFIG is a YAML file", "data.source"});
  expect_refused(train({"--set", "model.n_embd", "32"}), {"--set model.n_embd: there is no \"=\"", "--set KEY=VALUE"});
  expect_refused(train({"--out", "text.txt"}), {"text.txt is a file"});
  expect_refused(train({"--set", "runtime.kernels=fused", "--set", "runtime.dtype=bfloat16"}), {"runtime.kernels"});
  expect_refused(train({"--set", "model.block_size=30000"}), {"text.txt"});
  write_file(folder / "text.txt", "\xff not UTF-8\n");
  expect_refused(train(), {"text.txt:1: not UTF-8"});
  EXPECT_FALSE(fs::exists(folder / "runs/run/log.jsonl"));
}

TEST_F(TrainProgram, BadValidationTextIsRefusedWithItsFileAndLine) {
  const std::vector<std::string> flags{"--set", "data.validation_source=v.txt"};
  expect_refused(train(flags), {"data.validation_source: v.txt does not exist"});
  write_file(folder / "v.txt", "");
  expect_refused(train(flags), {"v.txt:1: the file is empty"});
  write_file(folder / "v.txt", "short\ntext\n");
  expect_refused(train(flags), {"v.txt:2: the text for validation ends after 11 tokens, and one window takes 33"});
  write_file(folder / "v.txt", "fine\nbad \xff\n");
  expect_refused(train(flags), {"v.txt:2: not UTF-8 at byte 4"});
}

TEST_F(TrainProgram, VocabulariesThatSentencepieceCannotLearnAreRefusedWithOneThatItCan) {
  const auto with_size = [&](const std::string& size) {
    return train({"--set", "data.tokenizer.kind=sentencepiece", "--set", "data.tokenizer.vocab_size=" + size});
  };
  expect_refused(with_size("30000"), {"vocab_size: 30000 is more than this text has pieces for; write "});
  expect_refused(with_size("259"), {"vocab_size: 259 is too small", "; write "});
}

TEST_F(TrainProgram, TheSpaceSignOfSentencepieceIsWarnedAboutWithACountAndTrainedOn) {
  write_file(folder / "text.txt", "a\u2581b \u2581\n" + read_file(folder / "text.txt") + "the end\u2581\n");
  const Outcome outcome = train({"--set", "data.tokenizer.kind=sentencepiece", "--set", "data.tokenizer.vocab_size=290",
                                 "--set", "training.max_steps=6"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("the text holds U+2581 (\u2581) 3 times"), std::string::npos) << outcome.err;
}

TEST_F(TrainProgram, TokenFilesWithoutAHeaderTrainAsTheTextTheyWereMadeOf) {
  ASSERT_EQ(train({"--out runs/text --set training.max_steps=6 --set data.dir=prepared"}).code, 0);
  for (const std::string split : {"train", "validation"}) {
    write_file(folder / (split + ".bin"), read_file(folder / ("prepared/" + split + "-000000.bin")).substr(1024));
  }
  const auto vocab_size = nlohmann::json::parse(read_file(folder / "prepared/dataset.json")).at("vocab_size").dump();
  const Outcome outcome = train({"--out runs/tokens --set training.max_steps=6 --set data.source=train.bin",
                                 "--set data.validation_source=validation.bin --set data.headerless=true",
                                 "--set data.vocab_size=" + vocab_size});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run("text", "tokens", "000006");
  const auto loss_of = [&](const std::string& run) {
    return nlohmann::json::parse(run_command(folder.path(), "inkling-eval runs/" + run + " --json").out).at("loss");
  };
  EXPECT_EQ(loss_of("tokens"), loss_of("text"));
}

TEST_F(TrainProgram, ACompressedTextTrainsAsTheTextInIt) {
  write_file(folder / "text.txt.zst", zstd_of(read_file(folder / "text.txt")));
  ASSERT_EQ(train({"--out runs/plain --set training.max_steps=6"}).code, 0);
  const Outcome outcome = train({"--out runs/packed --set training.max_steps=6 --set data.source=text.txt.zst"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run("plain", "packed", "000006");
}

TEST_F(TrainProgram, AProfileNamesTheOperationsOfTenSteps) {
  const Outcome outcome =
      train({"--profile profile.json", "--set training.max_steps=20 --set evaluation.interval=100"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("profile: 10 steps are in profile.json"), std::string::npos) << outcome.err;
  std::map<std::string, int> counts;
  const nlohmann::json profile = nlohmann::json::parse(read_file(folder / "profile.json"));
  for (const auto& event : profile.at("traceEvents")) ++counts[event.value("name", "")];
  EXPECT_EQ(counts["adamw"], 10);
  EXPECT_EQ(counts["attention"], 10 * 2 * 2);  // micro-batches and layers
  EXPECT_EQ(counts["linear"], 10 * 2 * 2 * 2);
  EXPECT_EQ(counts["mlp"], 10 * 2 * 2);
  expect_refused(train({"--fresh --profile nowhere/profile.json"}), {"nowhere"}, 3);
}

TEST_F(TrainProgram, MissingGpuIsSaidInOneSentence) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a GPU";
  expect_refused(train({"--set", "runtime.device=cuda"}), {"the device cuda is asked for", "cpu or auto"}, 3);
  EXPECT_FALSE(fs::exists(folder / "data")) << "a text was prepared for nothing";
}

TEST_F(TrainProgram, SecondTrainerInTheSameFolderIsRefused) {
  const Process first("inkling-train", {"run.yaml", "--set", "training.max_steps=100000"}, folder.path());
  ASSERT_TRUE(first.has_said("step 2/"));
  const fs::path elsewhere = folder / "elsewhere";  // so that the two do not share the files that hold their output
  fs::create_directories(elsewhere);
  const Outcome second =
      run_command(elsewhere, "inkling-train ../run.yaml --set data.source=../text.txt --out ../runs/run");
  first.send(SIGTERM);
  const Outcome stopped = first.wait();
  EXPECT_EQ(stopped.code, 75);
  EXPECT_NE(stopped.err.find("finishing the step and saving; Ctrl-C again ends at once\n"), std::string::npos)
      << stopped.err;
  expect_refused(second,
                 {str("another process is training in ../runs/run (process ", first.id(), " on "), " since 20"});
}

// Two signals reach a process that does nothing between them: it stands still while they are sent. Both handlers are
// then about to run, and either may come first.
TEST_F(TrainProgram, SecondSignalEndsAtOnce) {
  const Process process("inkling-train", {"run.yaml", "--set", "training.max_steps=100000000"}, folder.path());
  ASSERT_TRUE(process.has_said("step 1/"));
  for (const int signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) process.send(signal);
  const Outcome outcome = process.wait();
  EXPECT_TRUE(outcome.code == 128 + SIGINT || outcome.code == 128 + SIGTERM) << outcome.code;
  EXPECT_NE(outcome.err.find("Ctrl-C again ends at once"), std::string::npos) << "the first was not handled";
  EXPECT_EQ(outcome.err.find("stopped by a signal"), std::string::npos) << "the step was finished";
}

// Moments that throw the weights as far as float32 goes in one step: what a learning rate far too high does in many.
void spoil_moments(const fs::path& checkpoint) {
  const GptShape shape = read_shape(checkpoint);
  ParameterArena arena(gpt_parameters(shape), at::kCPU, at::kFloat, Gradients::in_float32);
  Optimizer optimizer(arena, {}, cpu_backend());
  load_weights(checkpoint, shape, arena);
  load_optimizer(checkpoint, arena, optimizer);
  for (const OptimizerState& state : optimizer.states()) {
    if (state.name == "moment1") state.value.fill_(1e38);
  }
  const Config config = load_config(checkpoint / "config.yaml", {});
  save_checkpoint(checkpoint, config, shape, arena, optimizer, load_state(checkpoint),
                  load_tokenizer(checkpoint).get());
}

TEST_F(TrainProgram, DivergedTrainingEndsWithCode4AndKeepsCheckpoints) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  const auto checkpoints = folder / "runs/run/checkpoints";
  spoil_moments(checkpoints / "step-000006");
  const std::string before = checkpoint_file("run", "000006", "model.safetensors");
  const Outcome outcome = train({"--set", "checkpoint.interval=100", "--set", "evaluation.interval=100"});
  expect_refused(outcome, {"not finite in 20 steps in a row", "optimizer.learning_rate"}, 4);
  EXPECT_EQ(checkpoint_file("run", "000006", "model.safetensors"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints), {}), 1);
}

TEST_F(TrainProgram, WeightsThatAreNotFiniteAreNotSaved) {
  ASSERT_EQ(train({"--set", "training.max_steps=6"}).code, 0);
  const auto checkpoints = folder / "runs/run/checkpoints";
  spoil_moments(checkpoints / "step-000006");
  const Outcome outcome = train({"--set", "training.max_steps=8"});
  expect_refused(outcome, {"diverged", "tensor \"", "not finite", "step 7", "nothing was saved", "learning_rate"}, 4);
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints), {}), 1);
}

}  // namespace
}  // namespace inkling
