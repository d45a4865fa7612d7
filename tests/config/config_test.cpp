// What good input gives: values, --set, printing, comparing, the reference, the shipped configs.
#include "config/config.h"
#include "config/resume_policy.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "config/fields.h"
#include "tests/config/config_testing.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

Config parse(const std::string& yaml, const std::vector<std::string>& flags = {}) {
  return parse_config(yaml, "run.yaml", flags);
}

TEST(Config, AnEmptyNameIsNoSetting) {
  EXPECT_TRUE(contains(input_error([] { parse("data: {source: a.txt}", {"=b.txt"}); }), "there is no setting \"\""));
  EXPECT_TRUE(contains(input_error([] { parse("data: {source: a.txt}\n\"\": b.txt"); }), "there is no setting \"\""));
}

// The working folder is another one for as long as this lives.
class StandingIn {
 public:
  explicit StandingIn(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  ~StandingIn() { fs::current_path(before_); }
  StandingIn(const StandingIn&) = delete;
  StandingIn& operator=(const StandingIn&) = delete;

 private:
  fs::path before_;
};

TEST(Config, FindsASourceFromTheFolderAroundTheConfigWhereTheWorkingFolderLacksIt) {
  const TemporaryFolder installed, here;
  const std::string config =
      installed.write("configs/a.yaml", "data: {source: [data/a.txt, b.txt], validation_source: c.txt}");
  const std::string a = installed.write("data/a.txt", "a"), b = installed.write("configs/b.txt", "b");
  const StandingIn standing(here.path());
  using Paths = std::vector<std::string>;
  EXPECT_EQ(load_config(config, {}).data.source, (Paths{a, b}));
  EXPECT_EQ(load_config(config, {}).data.validation_source, Paths{"c.txt"});  // is nowhere, which reading it will say
  here.write("data/a.txt", "another");
  EXPECT_EQ(load_config(config, {}).data.source, (Paths{"data/a.txt", b}));
  const std::vector<std::string> typed{"data.source=b.txt"};
  EXPECT_EQ(load_config(config, typed).data.source, Paths{"b.txt"});
  const StandingIn inside(installed / "configs");
  EXPECT_EQ(load_config("a.yaml", {}).data.source, (Paths{a, "b.txt"}));
}

TEST(Config, HoldsWhatTheFileSaysAndDefaultsElsewhere) {
  const Config config = parse(
      "data:\n  source: my.txt\n  tokenizer:\n    kind: \"byte\"\n  val_fraction: .25\n"
      "model:\n  n_layer: 3\n  bias: false\noptimizer: {learning_rate: 1e-3, weight_decay: 0, grad_clip: 5.}\n"
      "training: {seed: 9223372036854775807}\nruntime: {device: cuda:1}\n");
  EXPECT_EQ(config.data.source, std::vector<std::string>{"my.txt"});
  EXPECT_EQ(config.data.tokenizer.kind, TokenizerKind::byte);
  EXPECT_EQ(config.data.val_fraction, 0.25);
  EXPECT_EQ(config.model.n_layer, 3);
  EXPECT_EQ(config.model.bias, Bias::none);
  EXPECT_EQ(config.optimizer.learning_rate, 0.001);
  EXPECT_EQ(config.optimizer.weight_decay, 0);
  EXPECT_EQ(config.optimizer.grad_clip, 5);
  EXPECT_EQ(config.training.seed, 9223372036854775807u);
  EXPECT_EQ(config.runtime.device, (DeviceChoice{.cuda = true, .index = 1}));
  EXPECT_EQ(config.model.n_head, ModelConfig{}.n_head);
}

TEST(Config, TakesOneSourceOrSeveral) {
  const std::vector<std::string> two{"a b.txt", "c"};
  EXPECT_EQ(parse("data: {source: [a b.txt, 'c']}").data.source, two);
  EXPECT_EQ(parse("data:\n  source:\n    - a b.txt\n    - c\n").data.source, two);
  EXPECT_EQ(parse("data:\n  source:\n  - a b.txt\n  - c\n").data.source, two);
  EXPECT_EQ(parse("data: {source: a b.txt}").data.source, std::vector<std::string>{"a b.txt"});
}

TEST(Flags, OverrideTheFileInOrder) {
  const Config config = parse("data: {source: a}\nmodel: {n_layer: 3}\n",
                              {"model.n_layer=4", "model.n_layer=5", "data.tokenizer.kind=byte", "model.bias=false",
                               "data.source=[x y.txt, \"z\"]", "data.dir=a: #b=c", "optimizer.learning_rate=2e-3"});
  EXPECT_EQ(config.model.n_layer, 5);
  EXPECT_EQ(config.data.tokenizer.kind, TokenizerKind::byte);
  EXPECT_EQ(config.model.bias, Bias::none);
  EXPECT_EQ(config.data.source, (std::vector<std::string>{"x y.txt", "z"}));
  EXPECT_EQ(config.data.dir, "a: #b=c");
  EXPECT_EQ(config.optimizer.learning_rate, 0.002);
}

TEST(Flags, CanSupplyTheSource) {
  EXPECT_EQ(parse("model: {n_layer: 2}", {"data.source=b.txt"}).data.source, std::vector<std::string>{"b.txt"});
}

TEST(Fit, SourceIsRequired) {
  const std::string what = "data.source is missing; write the text to train on, such as source: my.txt, in data:";
  EXPECT_EQ(message_of("model: {n_layer: 2}"), "run.yaml: " + what);
  EXPECT_EQ(message_of("data: {source: []}"), "run.yaml:1:16: " + what);
}

TEST(Fit, HeadsOfTheirOwnSizeNeedNotDivideChannels) {
  const Config config = parse("data: {source: a}\nmodel: {n_head: 6, n_embd: 100, head_size: 10}\n");
  EXPECT_EQ(config.model.attention().queries(), 60);
}

TEST(Fit, HeadsShareKeysEvenly) {
  EXPECT_EQ(
      message_of("data: {source: a}\nmodel:\n  n_head: 6\n  n_kv_head: 4\n"),
      "run.yaml:4:14: model.n_head 6 is not divisible by model.n_kv_head 4, so that query heads cannot share keys "
      "and values evenly; write an n_kv_head that divides it, or auto");
  EXPECT_EQ(
      message_of("data: {source: a}\n", {"model.n_kv_head=7"}),
      "--set model.n_kv_head=7: model.n_head 6 (the default) is not divisible by model.n_kv_head 7, so that query "
      "heads cannot share keys and values evenly; write an n_kv_head that divides it, or auto");
}

TEST(Fit, RotaryPositionsTurnPairs) {
  EXPECT_EQ(
      message_of("data: {source: a}\nmodel:\n  n_head: 2\n  n_embd: 6\n  position: rope\n"),
      "run.yaml:5:13: model.position: rope turns pairs of channels, and a head has 3 of them, an odd number; write "
      "an even head_size, or an n_embd that is an even multiple of n_head");
  EXPECT_EQ(message_of("data: {source: a}\nmodel:\n  position: rope\n", {"model.head_size=7"}),
            "--set model.head_size=7: model.position: rope turns pairs of channels, and a head has 7 of them, an odd "
            "number; write an even head_size");
}

TEST(Fit, NormsWithoutWeightsAreRmsNorms) {
  const std::string what =
      "model.norm_weights: false is for RMSNorms, and this model has none; write norm: rmsnorm or qk_norm: true, or "
      "leave it out";
  EXPECT_EQ(message_of("data: {source: a}\nmodel: {norm_weights: false}\n"), "run.yaml:2:23: " + what);
  EXPECT_FALSE(parse("data: {source: a}\nmodel: {norm_weights: false, norm: rmsnorm}\n").model.norm_weights);
  EXPECT_FALSE(parse("data: {source: a}\nmodel: {norm_weights: false, qk_norm: true}\n").model.norm_weights);
}

TEST(Fit, WhatIsForAHeadOfItsOwnNeedsOne) {
  EXPECT_EQ(message_of("data: {source: a}\n", {"model.initialization=zero_output"}),
            "--set model.initialization=zero_output: model.initialization: zero_output sets the output head to zero, "
            "and here that is the table of tokens; write tie_embeddings: false, or initialization: gpt2");
  EXPECT_EQ(message_of("data: {source: a}\noptimizer: {head_learning_rate: 1e-3}\n"),
            "run.yaml:2:33: optimizer.head_learning_rate is for an output head of its own, and here the head is the "
            "table of tokens (embedding_learning_rate); write model.tie_embeddings: false, or leave out "
            "head_learning_rate");
  const Config config = parse(
      "data: {source: a}\nmodel: {tie_embeddings: false, initialization: zero_output}\n"
      "optimizer: {head_learning_rate: 1e-3, embedding_learning_rate: auto}\n");
  EXPECT_EQ(config.model.initialization, Initialization::zero_output);
  EXPECT_EQ(config.optimizer.head_learning_rate, 1e-3);
  EXPECT_EQ(config.optimizer.embedding_learning_rate, std::nullopt);
}

TEST(Fit, AConvolutionSeesAFewPositions) {
  EXPECT_EQ(parse("data: {source: a}\nmodel: {conv: 4}\n").model.conv, 4);
  EXPECT_TRUE(contains(message_of("data: {source: a}\nmodel: {conv: 33}\n"), "run.yaml:2:15: model.conv is 33"));
}

TEST(Bias, IsATruthValueOrQkv) {
  for (const auto& [word, bias] : {std::pair("true", Bias::all), {"false", Bias::none}, {"qkv", Bias::qkv}}) {
    const Config config = parse(str("data: {source: a}\nmodel: {bias: ", word, "}\n"));
    EXPECT_EQ(config.model.bias, bias);
    EXPECT_TRUE(contains(print_config(config), str("\n  bias: ", word, "\n")));
    EXPECT_EQ(parse("data: {source: a}", {str("model.bias=", word)}).model.bias, bias);
  }
}

RopeScaling scaling_of(const std::string& written) {
  return parse("data: {source: a}\nmodel:\n  rope_scaling: " + written + "\n").model.rope_scaling;
}

TEST(RopeScaling, IsReadAndPrintedAsWordsAndNumbers) {
  EXPECT_EQ(scaling_of("none"), RopeScaling{});
  EXPECT_EQ(scaling_of("linear 2.5"), (RopeScaling{.kind = ScalingKind::linear, .factor = 2.5}));
  const RopeScaling llama3 = {.kind = ScalingKind::llama3, .factor = 32, .low = 1, .high = 4.5, .original = 8192};
  EXPECT_EQ(scaling_of("  llama3  32 1 4.5 8192 "), llama3);
  EXPECT_EQ(scaling_of("\"llama3 32 1 4.5 8192\""), llama3);
  for (const char* text : {"none", "linear 2.5", "llama3 32 1 4.5 8192"}) {
    EXPECT_EQ(rope_scaling_text(scaling_of(text)), text);
    EXPECT_EQ(read_rope_scaling(text).value, scaling_of(text));
  }
}

TEST(RopeScaling, ThatIsNoneSaysWhy) {
  const std::string form = "; write none, linear FACTOR, or llama3 FACTOR LOW HIGH ORIGINAL";
  const auto refused = [&](const std::string& written) {
    return message_of("data: {source: a}\nmodel:\n  rope_scaling: " + written + "\n");
  };
  const auto because = [&](const std::string& written, const std::string& problem) {
    return "run.yaml:3:17: model.rope_scaling is \"" + written + "\", which " + problem + form;
  };
  for (const auto& [written, problem] : std::vector<std::pair<std::string, std::string>>{
           {"yarn 4", "is no such scaling"},
           {"linaer 2", "begins with \"linaer\"; did you mean linear?"},
           {"linear", "has 0 numbers, and linear takes 1"},
           {"llama3 8 1 4", "has 3 numbers, and llama3 takes 4"},
           {"linear 0.5", "has a FACTOR of 0.5, and it takes a number from 1 to 1e+06"},
           {"linear two", "has a FACTOR that is not a number"},
           {"llama3 8 0 4 8192", "has a LOW of 0, and it takes a number from 1e-06 to 1e+06"},
           {"llama3 8 4 4 8192", "has a HIGH that is not above LOW"},
           {"llama3 8 1 4 0", "has an ORIGINAL of 0, and it takes a whole number from 1 to 1048576"},
           {"llama3 8 1 4 1.5", "has an ORIGINAL that is not a whole number"}}) {
    EXPECT_EQ(refused(written), because(written, problem));
  }
  EXPECT_EQ(refused("[linear 2]"), "run.yaml:3:17: model.rope_scaling is a list, but takes one value" + form);
}

TEST(RopeScaling, MattersToAModelWhoseQueriesTurn) {
  GptShape plain, scaled;
  scaled.rope_scaling = {.kind = ScalingKind::linear, .factor = 2};
  EXPECT_EQ(plain, scaled);
  plain.position = scaled.position = Position::rope;
  EXPECT_NE(plain, scaled);
}

std::vector<AttentionPattern> patterns_of(const std::string& written) {
  return parse("data: {source: a}\nmodel:\n  attention: " + written + "\n").model.patterns;
}

TEST(Attention, IsOnePatternOrAListThatRepeats) {
  using Patterns = std::vector<AttentionPattern>;
  EXPECT_EQ(patterns_of("full"), Patterns{});
  EXPECT_EQ(patterns_of("local 128"), (Patterns{{128, 1}}));
  EXPECT_EQ(patterns_of("  dilated  64   4 "), (Patterns{{64, 4}}));
  EXPECT_EQ(patterns_of("\"local 5\""), (Patterns{{5, 1}}));
  EXPECT_EQ(patterns_of("[full, local 128, dilated 64 4]"), (Patterns{{}, {128, 1}, {64, 4}}));
  EXPECT_EQ(patterns_of("\n    - local 3\n    - full"), (Patterns{{3, 1}, {}}));
  EXPECT_EQ(parse("data: {source: a}", {"model.attention=[full, local 128]"}).model.patterns, (Patterns{{}, {128, 1}}));
  EXPECT_EQ(parse("data: {source: a}", {"model.attention=local 9"}).model.patterns, (Patterns{{9, 1}}));
}

TEST(Attention, IsTheSameHoweverLongTheListIsWritten) {
  EXPECT_EQ(patterns_of("[full, full]"), patterns_of("full"));
  EXPECT_EQ(patterns_of("[local 3, local 3, local 3]"), patterns_of("local 3"));
  EXPECT_EQ(patterns_of("[full, local 3, full, local 3]"), patterns_of("[full, local 3]"));
  EXPECT_EQ(patterns_of("[full, local 3, full]").size(), 3u);
  GptShape two = {.n_layer = 2}, list = two;
  two.patterns = {{}, {3, 1}};
  list.patterns = {{}, {3, 1}, {}};
  EXPECT_EQ(two, list);
  two.n_layer = list.n_layer = 3;
  EXPECT_EQ(two, list);
  two.n_layer = list.n_layer = 4;
  EXPECT_NE(two, list);
}

TEST(Attention, ThatIsNoPatternIsRefused) {
  const std::string form = "; write full, local W, dilated W R, or a list [a, b]";
  const auto refused = [](const std::string& written) {
    return message_of("data: {source: a}\nmodel:\n  attention: " + written + "\n");
  };
  EXPECT_EQ(
      refused("local 0"),
      "run.yaml:3:14: model.attention is \"local 0\", which has a window of 0, and it takes a whole number from 1 "
      "to 1048576" +
          form);
  EXPECT_EQ(refused("dilated 3 0"),
            "run.yaml:3:14: model.attention is \"dilated 3 0\", which has a distance of 0, and it takes a whole number "
            "from 1 to 1048576" +
                form);
  EXPECT_EQ(refused("[full, locl 3]"),
            "run.yaml:3:21: model.attention is \"locl 3\", which begins with \"locl\"; did you mean local?" + form);
  EXPECT_EQ(refused("local"),
            "run.yaml:3:14: model.attention is \"local\", which has 0 numbers, and local takes 1" + form);
  EXPECT_EQ(refused("local 3.5"),
            "run.yaml:3:14: model.attention is \"local 3.5\", which has a window that is not a whole number" + form);
  EXPECT_EQ(refused("[]"), "run.yaml:3:14: model.attention is an empty list" + form);
  EXPECT_EQ(refused(""), "run.yaml:3:3: model.attention has no value" + form);
  EXPECT_EQ(refused("{local: 3}"), "run.yaml:3:14: model.attention is a section" + form);
}

TEST(Fit, ASettingIsWrittenUnderOneOfItsNames) {
  EXPECT_EQ(
      message_of("data: {source: a}\nmodel:\n  gelu: exact\n  activation: swiglu\n"),
      "run.yaml:4:15: model.activation and what is written at run.yaml:3:9 are both model.activation; remove one of "
      "them");
  EXPECT_EQ(parse("data: {source: a}\nmodel: {gelu: exact}\n", {"model.activation=swiglu"}).model.activation,
            Activation::swiglu);
}

TEST(Fit, BoundsOfLogitsLeaveThemApart) {
  EXPECT_EQ(
      message_of("data: {source: a}\nmodel:\n  logit_softcap: 1e-50\n"),
      "run.yaml:3:18: model.logit_softcap is 1e-50, so small that all tokens are alike; write 0 for none, or at least "
      "0.001");
}

TEST(Fit, NothingStandsForAutoButTheWord) {
  EXPECT_EQ(message_of("data: {source: a}\nmodel:\n  n_inner: 0\n"),
            "run.yaml:3:12: model.n_inner is 0; write auto or a whole number from 1 to 1048576");
}

TEST(Fit, HeadsDivideChannels) {
  EXPECT_EQ(message_of("data: {source: a}\nmodel:\n  n_head: 6\n  n_embd: 100\n"),
            "run.yaml:4:11: model.n_embd 100 is not divisible by model.n_head 6; write n_embd 96 or 102, or another "
            "n_head, or a head_size");
  EXPECT_EQ(message_of("data: {source: a}\nmodel:\n  n_embd: 12\n", {"model.n_head=5"}),
            "--set model.n_head=5: model.n_embd 12 is not divisible by model.n_head 5; write n_embd 10 or 15, or "
            "another n_head, or a head_size");
  EXPECT_EQ(message_of("data: {source: a}\nmodel: {n_embd: 4}\n"),
            "run.yaml:2:17: model.n_embd 4 is not divisible by model.n_head 6 (the default); write n_embd 6, or "
            "another n_head, or a head_size");
}

TEST(Fit, MicroBatchDividesBatch) {
  EXPECT_EQ(message_of("data: {source: a}\ntraining: {batch_size: 12, micro_batch_size: 5}\n"),
            "run.yaml:2:46: training.batch_size 12 is not divisible by training.micro_batch_size 5; write a "
            "micro_batch_size that divides it, or auto");
}

TEST(Fit, WarmUpEndsWithinTheRun) {
  EXPECT_EQ(message_of("data: {source: a}\n", {"training.max_steps=50"}),
            "--set training.max_steps=50: schedule.warmup_steps 100 (the default) is above training.max_steps 50, so "
            "the learning rate would never be reached; write at most 50 for warmup_steps");
  EXPECT_EQ(
      message_of("data: {source: a}\nschedule: {decay_steps: 50}\n"),
      "run.yaml:2:25: schedule.decay_steps 50 is below schedule.warmup_steps 100 (the default); write at least 100 for "
      "decay_steps, or auto");
  EXPECT_EQ(message_of("data: {source: a}\n", {"training.max_steps=0"}), "accepted");
}

TEST(Fit, LearningRateFalls) {
  EXPECT_EQ(message_of("data: {source: a}\noptimizer: {learning_rate: 1e-5}\n"),
            "run.yaml:2:28: schedule.min_learning_rate 6e-05 (the default) is above optimizer.learning_rate 1e-05; "
            "write a smaller min_learning_rate, usually a tenth of it");
  EXPECT_EQ(message_of("data: {source: a}\noptimizer: {learning_rate: 1e-5}\nschedule: {name: constant}\n"),
            "accepted");
}

TEST(Fit, SourcesAreOfOneKind) {
  EXPECT_EQ(message_of("data: {source: [a.txt, b.bin]}\n"),
            "run.yaml:1:16: data.source names \"b.bin\" beside \"a.txt\"; all sources are text, or all are .bin token "
            "files, or there is one .grammar");
  EXPECT_EQ(message_of("data:\n  source: a.txt\n  validation_source: b.bin\n"),
            "run.yaml:3:22: data.validation_source names \"b.bin\" beside \"a.txt\"; all sources are text, or all are "
            ".bin token files, or there is one .grammar");
  EXPECT_EQ(message_of("data: {source: [a.grammar, b.grammar]}\n"),
            "run.yaml:1:16: a .grammar is the only source of its run; remove the others (it makes its own validation "
            "stories)");
}

TEST(Fit, TokenFilesNeedTheirVocabulary) {
  EXPECT_EQ(message_of("data: {source: a.bin}\n"),
            "run.yaml:1:16: ready token files (.bin) do not say how large their vocabulary is; write data.vocab_size, "
            "such as 50257 for GPT-2's");
  EXPECT_EQ(message_of("data: {source: a.txt, vocab_size: 300}\n"),
            "run.yaml:1:35: data.vocab_size is 300, but only ready token files (.bin) take it; remove it "
            "(sentencepiece takes data.tokenizer.vocab_size)");
  EXPECT_EQ(source_kind(parse("data: {source: [a.bin, b.bin], vocab_size: 300}").data), SourceKind::token_files);
  EXPECT_EQ(source_kind(parse("data: {source: a.grammar}").data), SourceKind::grammar);
  EXPECT_EQ(source_kind(parse("data: {source: folder}").data), SourceKind::text);
}

TEST(Fit, OnlyTokenFilesOf16BitsCanBeHeaderless) {
  EXPECT_TRUE(parse("data: {source: a.bin, vocab_size: 65536, headerless: true}").data.headerless);
  EXPECT_EQ(message_of("data: {source: a.txt, headerless: true}\n"),
            "run.yaml:1:35: data.headerless is for ready token files (.bin), and the source is none; leave it out");
  EXPECT_EQ(
      message_of("data: {source: a.bin, headerless: true, vocab_size: 65537}\n"),
      "run.yaml:1:53: data.vocab_size is 65537, and token files without a header (data.headerless) have tokens of 16 "
      "bits, so at most 65536 of them; write the vocabulary's own size");
}

TEST(AutoNumbers, AreReadFromTheWordOrZeroAndPrintedAsTheWord) {
  for (const char* written : {"auto", "0"}) {
    const Config config =
        parse("data: {source: a}\n", {str("training.micro_batch_size=", written), str("schedule.decay_steps=", written),
                                      str("runtime.threads=", written), str("runtime.memory_limit_gib=", written)});
    EXPECT_EQ(config.training.micro_batch_size, std::nullopt);
    EXPECT_EQ(config.schedule.decay_steps, std::nullopt);
    EXPECT_EQ(config.runtime.threads, std::nullopt);
    EXPECT_EQ(config.runtime.memory_limit_gib, std::nullopt);
    EXPECT_EQ(print_config(config), print_config(parse("data: {source: a}\n")));
  }
  EXPECT_EQ(message_of("data: {source: a}\ntraining: {batch_size: auto}\n").find("run.yaml:2:24: training.batch_size"),
            0u);
  EXPECT_NE(
      message_of("data: {source: a}\ntraining: {micro_batch_size: -2}\n").find("write auto or a whole number from 1"),
      std::string::npos);
}

// Text with what makes YAML difficult: quotes, colons, non-ASCII, words that are no text.
rc::Gen<std::string> any_path() {
  return rc::gen::map(rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                          "a", "B", "/", ".", "-", " ", ": ", " #", "\"", "'", "\\", "[", "]", "{", ",", "&", "*", "!",
                          "%", "@", "|", "~", "true", "null", "010", "1e3", "é", "日本", "😀", "\xc2\x85",
                          "\xe2\x80\xa8", "\xef\xbb\xbf", "\xef\xbf\xbf", "?", "=", "yes", "_"))),
                      [](const std::vector<std::string>& parts) {
                        std::string text;
                        for (const std::string& part : parts) text += part;
                        return text + ".txt";
                      });
}

double any_real(double lowest, double highest) {
  const double share = *rc::gen::inRange<std::int64_t>(1, 1'000'000'007) / 1'000'000'007.0;
  return lowest + (highest - lowest) * share;
}

template <class Enum>
Enum any_of() {
  return static_cast<Enum>(*rc::gen::inRange<std::size_t>(0, words_of<Enum>.size()));
}

Config any_config() {
  Config config;
  config.data.source = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(any_path()));
  config.data.validation_source = *rc::gen::container<std::vector<std::string>>(any_path());
  if (*rc::gen::arbitrary<bool>()) config.data.dir = *any_path();
  config.data.jsonl_field = *any_path();
  if (*rc::gen::arbitrary<bool>()) config.data.separator = *any_path();
  config.data.val_fraction = any_real(0, 1);
  config.data.grammar_seed = *rc::gen::inRange<std::uint64_t>(0, INT64_MAX);
  config.data.tokenizer.kind = any_of<TokenizerKind>();
  config.model.n_head = *rc::gen::inRange<std::int64_t>(1, 64);
  config.model.n_embd = config.model.n_head * *rc::gen::inRange<std::int64_t>(1, 128);
  config.model.dropout = any_real(0, 1);
  config.model.bias = any_of<Bias>();
  config.optimizer.learning_rate = any_real(1e-3, 10);
  config.optimizer.epsilon = any_real(0, 1e-6);
  config.schedule.min_learning_rate = any_real(0, 1e-3);
  const std::int64_t micro_batch_size = *rc::gen::inRange<std::int64_t>(1, 50);
  config.training.batch_size = micro_batch_size * *rc::gen::inRange<std::int64_t>(1, 50);
  if (*rc::gen::arbitrary<bool>()) config.training.micro_batch_size = micro_batch_size;
  config.training.recompute = any_of<Recompute>();
  config.runtime.device = find_device(*rc::gen::element<std::string>("auto", "cpu", "cuda", "cuda:0", "cuda:15"));
  if (*rc::gen::arbitrary<bool>()) config.runtime.dtype = any_of<Dtype>();
  if (*rc::gen::arbitrary<bool>()) config.runtime.split = any_of<WorkSplit>();
  if (*rc::gen::arbitrary<bool>()) config.runtime.kernels = any_of<Kernels>();
  if (*rc::gen::arbitrary<bool>()) config.runtime.memory_limit_gib = any_real(0, 1000);
  return config;
}

TEST(PrintConfig, ReadsBackAsTheSameConfigAndTheSameText) {
  EXPECT_TRUE(rc::check([] {
    const Config config = any_config();
    const std::string text = print_config(config);
    const Config again = parse(text);
    RC_ASSERT(print_config(again) == text);
    RC_ASSERT(compare_configs(config, again).empty());
    RC_ASSERT(again.data.source == config.data.source);
    RC_ASSERT(again.data.jsonl_field == config.data.jsonl_field);
    RC_ASSERT(again.data.separator == config.data.separator);
    RC_ASSERT(again.optimizer.learning_rate == config.optimizer.learning_rate);
    RC_ASSERT(again.data.val_fraction == config.data.val_fraction);
    RC_ASSERT(again.data.dir == config.data.dir);
    RC_ASSERT(again.data.tokenizer.kind == config.data.tokenizer.kind);
    RC_ASSERT(again.training.micro_batch_size == config.training.micro_batch_size);
    RC_ASSERT(again.training.recompute == config.training.recompute);
    RC_ASSERT(again.model.bias == config.model.bias);
    RC_ASSERT(again.runtime.device == config.runtime.device);
    RC_ASSERT(again.runtime.dtype == config.runtime.dtype);
    RC_ASSERT(again.runtime.split == config.runtime.split);
    RC_ASSERT(again.runtime.kernels == config.runtime.kernels);
    RC_ASSERT(again.runtime.memory_limit_gib == config.runtime.memory_limit_gib);
  }));
}

TEST(Separator, IsAnyTextAndForTextAlone) {
  EXPECT_EQ(parse("data: {source: a.txt}").data.separator, std::nullopt);
  const Config config = parse("data: {source: a.txt, separator: \"<|endoftext|>\\n\"}");
  EXPECT_EQ(config.data.separator, "<|endoftext|>\n");
  EXPECT_EQ(parse(print_config(config)).data.separator, config.data.separator);
  EXPECT_TRUE(contains(message_of("data: {source: a.txt, separator: \"\"}\n"), "has 0 bytes, and must have 1 to 256"));
  EXPECT_TRUE(contains(message_of("data: {source: a.grammar, separator: x}\n"), "data.separator is for text"));
  EXPECT_TRUE(
      contains(message_of("data: {source: a.bin, vocab_size: 9, separator: x}\n"), "data.separator is for text"));
}

TEST(Tokenizer, ThatExistsAndItsPatternAreForBpe) {
  const std::string head = "data: {source: a.txt, tokenizer: {kind: ";
  const Config config = parse(head + "bpe, from: gpt2, pattern: llama3}}");
  EXPECT_EQ(config.data.tokenizer.from, "gpt2");
  EXPECT_EQ(config.data.tokenizer.pattern, Pattern::llama3);
  const auto refusal = [&](const std::string& rest) { return input_error([&] { parse(head + rest); }); };
  EXPECT_TRUE(contains(refusal("char, from: gpt2}}"),
                       "run.yaml:1:53: data.tokenizer.from is for data.tokenizer.kind: bpe, and the kind is char"));
  EXPECT_TRUE(contains(refusal("sentencepiece, pattern: gpt2}}"), "data.tokenizer.pattern is for"));
  EXPECT_TRUE(contains(refusal("bpe, pattern: gpt4}}"), "one of auto, gpt2, cl100k, llama3"));
}

TEST(PrintConfig, WritesEveryDefault) {
  Config config;
  config.data.source = {"data/my text.txt", "more"};
  EXPECT_EQ(print_config(config), R"(data:
  source: ["data/my text.txt", more]
  validation_source: []
  jsonl_field: text
  raw: false
  separator: auto
  vocab_size: 0
  headerless: false
  tokenizer:
    kind: char
    from: auto
    pattern: auto
    vocab_size: 4096
    model_type: unigram
    character_coverage: 0.9995
  val_fraction: 0.1
  order: epoch
  documents: join
  dir: auto
  stories: 20000
  grammar_seed: 1
model:
  init_from: auto
  n_layer: 6
  n_head: 6
  n_kv_head: auto
  head_size: auto
  n_embd: 384
  block_size: 256
  dropout: 0
  bias: true
  tie_embeddings: true
  logit_softcap: 0
  n_inner: auto
  activation: gelu_tanh
  qk_norm: false
  position: learned
  rope_theta: 10000
  rope_scaling: none
  attention: full
  norm: layernorm
  norm_epsilon: 1e-05
  norm_weights: true
  embedding_norm: false
  conv: 0
  initialization: gpt2
optimizer:
  name: adamw
  learning_rate: 6e-04
  embedding_learning_rate: auto
  head_learning_rate: auto
  vector_learning_rate: auto
  beta1: 0.9
  beta2: 0.95
  epsilon: 1e-08
  weight_decay: 0.1
  grad_clip: 1
  muon:
    learning_rate: 0.02
    momentum: 0.95
    weight_decay: 0.1
    newton_schulz_steps: 5
schedule:
  name: cosine
  warmup_steps: 100
  decay_steps: auto
  min_learning_rate: 6e-05
  decay_fraction: 0.2
training:
  max_steps: 5000
  max_hours: 0
  batch_size: 12
  micro_batch_size: auto
  recompute: none
  seed: 1
  ema: 0
  stop_when:
    patience: 0
evaluation:
  interval: 250
  batches: 20
checkpoint:
  interval: 500
  keep: 1
logging:
  interval: 10
  tensorboard: false
  histograms: 0
sampling:
  interval: 0
  prompts: []
  max_tokens: 200
  temperature: 0.8
  top_k: 0
  top_p: 1
  seed: 1
runtime:
  device: auto
  dtype: auto
  threads: auto
  split: auto
  kernels: auto
  memory_limit_gib: auto
  deterministic: true
ranks:
  timeout: 120
  shard_optimizer: true
)");
}

TEST(Prompts, MayBeAnyTextAndReadBackAsTheSame) {
  const Config config =
      parse("data: {source: a}\nsampling: {prompts: [\"\", \"ROMEO:\\n\", 'a \"b\" \\ c', \"\\t\\0\", héé]}");
  const std::vector<std::string> expected = {"", "ROMEO:\n", "a \"b\" \\ c", std::string("\t\0", 2), "héé"};
  EXPECT_EQ(config.sampling.prompts, expected);
  EXPECT_EQ(parse(print_config(config)).sampling.prompts, expected);
  EXPECT_EQ(parse("data: {source: a}\nsampling: {prompts: one}").sampling.prompts, std::vector<std::string>{"one"});
  EXPECT_TRUE(contains(input_error([] { parse("data: {source: a}\nsampling: {prompts: {a: b}}"); }), "is a section"));
  EXPECT_TRUE(contains(input_error([] { parse("data: {source: a}\nsampling: {prompts: [[a]]}"); }), "is a list"));
}

TEST(Histograms, AreForTensorBoardAlone) {
  const std::string wanted = "data: {source: a}\nlogging: {histograms: 100";
  EXPECT_EQ(parse(wanted + ", tensorboard: true}").logging.histograms, 100);
  EXPECT_TRUE(
      contains(input_error([&] { parse(wanted + "}"); }), "run.yaml:2:23: logging.histograms is 100, and only"));
}

TEST(CompareConfigs, ListsWhatChangedAndWhatThatMeans) {
  Config before, after;
  before.data.source = after.data.source = {"a"};
  EXPECT_TRUE(compare_configs(before, after).empty());
  after.training.max_steps = 9000;
  after.optimizer.learning_rate = 5e-4;
  after.model.n_layer = 7;
  after.data.source = {"a", "b"};
  after.data.dir = "elsewhere";
  const std::vector<ConfigChange> expected = {{"data.source", "[a]", "[a, b]", OnResume::refuse},
                                              {"data.dir", "auto", "elsewhere", OnResume::free},
                                              {"model.n_layer", "6", "7", OnResume::refuse},
                                              {"optimizer.learning_rate", "6e-04", "5e-04", OnResume::ask},
                                              {"training.max_steps", "5000", "9000", OnResume::free}};
  const std::vector<ConfigChange> changes = compare_configs(before, after);
  ASSERT_EQ(changes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(changes[i].key, expected[i].key);
    EXPECT_EQ(changes[i].before, expected[i].before);
    EXPECT_EQ(changes[i].after, expected[i].after);
    EXPECT_EQ(changes[i].on_resume, expected[i].on_resume);
  }
}

// Runs of older versions over .csv, .json and others can go on with it: the hash of the data tells other text.
TEST(CompareConfigs, TakingFilesAsTheyAreIsFree) {
  Config before, after;
  after.data.raw = true;
  const std::vector<ConfigChange> changes = compare_configs(before, after);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, "data.raw");
  EXPECT_EQ(changes[0].on_resume, OnResume::free);
}

TEST(ConfigReference, DescribesEverySettingThatIsPrinted) {
  const std::string reference = config_reference();
  EXPECT_NE(reference.find("| `n_layer` | `6` | a whole number from 1 to 1000 | refused | "), std::string::npos);
  EXPECT_NE(reference.find("### `data.tokenizer`"), std::string::npos);
  EXPECT_NE(reference.find("| `source` | required | "), std::string::npos);
  Config config;
  std::size_t printed = 0, described = 0;
  const std::string text = print_config(config);
  for (std::size_t i = 0; (i = text.find(": ", i)) != std::string::npos; ++i) ++printed;
  for (std::size_t i = 0; (i = reference.find("\n| `", i)) != std::string::npos; ++i) ++described;
  EXPECT_EQ(described, printed);
}

TEST(ConfigReference, StandsInTheDocsAsTheFieldListHasIt) {
  const std::string page = read_small_file(INKLING_SOURCE_DIR "/docs/formats.md");
  const std::string begin = "<!-- settings: begin -->\n", end = "<!-- settings: end -->\n";
  const std::size_t first = page.find(begin), last = page.find(end);
  ASSERT_NE(first, std::string::npos) << "docs/formats.md has lost its line " << begin;
  ASSERT_NE(last, std::string::npos) << "docs/formats.md has lost its line " << end;
  const std::string between = page.substr(first + begin.size(), last - first - begin.size());
  EXPECT_TRUE(between == "\n" + config_reference() + "\n")
      << "the settings in docs/formats.md are not those of src/config/fields.cpp: run scripts/update-reference";
}

TEST(ShippedConfigs, AllLoad) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(INKLING_SOURCE_DIR "/configs")) {
    ASSERT_NO_THROW({
      const Config config = load_config(entry.path(), {});
      EXPECT_EQ(print_config(parse(print_config(config))), print_config(config));
    }) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 5u);
}

TEST(ShippedConfigs, OfShakespeareHaveTheValuesOfNanoGpt) {
  const Config gpu = load_config(INKLING_SOURCE_DIR "/configs/shakespeare_char.yaml", {});
  EXPECT_EQ(gpu.model.n_layer, 6);
  EXPECT_EQ(gpu.model.n_embd, 384);
  EXPECT_EQ(gpu.model.dropout, 0.2);
  EXPECT_EQ(gpu.training.batch_size, 64);
  const Config cpu = load_config(INKLING_SOURCE_DIR "/configs/shakespeare_char_cpu.yaml", {});
  EXPECT_EQ(cpu.model.block_size, 64);
  EXPECT_EQ(cpu.training.max_steps, 2000);
  EXPECT_EQ(cpu.training.batch_size, 12);
  EXPECT_EQ(cpu.data.order, WindowKind::random);
  EXPECT_EQ(cpu.model.activation, Activation::gelu);
  EXPECT_EQ(cpu.model.bias, Bias::none);
}

}  // namespace
}  // namespace inkling
