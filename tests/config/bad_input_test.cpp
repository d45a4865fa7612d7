// Every kind of bad input a config can have: the whole message, so that place, fault and remedy are all read.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/config/config_testing.h"

namespace inkling {
namespace {

const std::string data_section = "data: {source: my.txt}\n";

std::string message_of_setting(const std::string& section, const std::string& line) {
  return message_of(data_section + section + ":\n  " + line + "\n");
}

TEST(UnknownKey, NamesTheNearestKnownOne) {
  EXPECT_EQ(message_of_setting("model", "n_layers: 4"),
            "run.yaml:3:3: there is no setting \"model.n_layers\"; did you mean model.n_layer? (model has: init_from, "
            "n_layer, "
            "n_head, n_kv_head, head_size, n_embd, block_size, dropout, bias, tie_embeddings, logit_softcap, n_inner, "
            "activation, qk_norm, position, "
            "rope_theta, rope_scaling, attention, norm, "
            "norm_epsilon, norm_weights, embedding_norm, conv, initialization)");
  EXPECT_EQ(message_of(data_section + "modl: {n_layer: 4}\n"),
            "run.yaml:2:1: there is no setting \"modl\"; did you mean model? (sections: data, model, optimizer, "
            "schedule, training, evaluation, checkpoint, logging, sampling, runtime, ranks)");
}

TEST(UnknownKey, IsSentToTheSectionItBelongsTo) {
  EXPECT_EQ(message_of_setting("logging", "learning_rate: 1e-3"),
            "run.yaml:3:3: there is no setting \"logging.learning_rate\"; did you mean optimizer.learning_rate? "
            "(logging has: interval, tensorboard, histograms)");
  EXPECT_EQ(message_of(data_section + "seed: 3\n"),
            "run.yaml:2:1: there is no setting \"seed\"; did you mean training.seed? (sections: data, model, "
            "optimizer, schedule, training, evaluation, checkpoint, logging, sampling, runtime, ranks)");
}

TEST(UnknownKey, OfTheSameWordsIsSentToThem) {
  const std::string advice = "did you mean optimizer.muon.learning_rate?";
  EXPECT_NE(message_of_setting("optimizer", "muon_learning_rate: 0.1").find(advice), std::string::npos);
  EXPECT_NE(message_of(data_section, {"muon.learning_rate=0.1"}).find(advice), std::string::npos);
}

TEST(UnknownKey, OfNanoGptIsTranslated) {
  EXPECT_EQ(message_of_setting("logging", "eval_interval: 10"),
            "run.yaml:3:3: there is no setting \"logging.eval_interval\"; did you mean evaluation.interval? "
            "(logging has: interval, tensorboard, histograms)");
}

TEST(UnknownKey, LikeNothingKnownListsWhatThereIs) {
  EXPECT_EQ(message_of_setting("logging", "xylophone: 10"),
            "run.yaml:3:3: there is no setting \"logging.xylophone\" (logging has: interval, tensorboard, histograms)");
}

TEST(DuplicateKey, IsRefusedWithBothPlaces) {
  EXPECT_EQ(message_of(data_section + "model:\n  n_layer: 4\n  n_head: 2\n  n_layer: 5\n"),
            "run.yaml:5:3: \"n_layer\" is written twice, first at run.yaml:3:3; remove one of the two");
  EXPECT_EQ(message_of("data: {source: a, source: b}"),
            "run.yaml:1:19: \"source\" is written twice, first at run.yaml:1:8; remove one of the two");
}

struct BadValue {
  std::string section, line, message;  // the message without "run.yaml:3:"

  friend std::ostream& operator<<(std::ostream& out, const BadValue& value) { return out << value.line; }
};

class BadValueTest : public testing::TestWithParam<BadValue> {};

TEST_P(BadValueTest, IsRefused) {
  EXPECT_EQ(message_of_setting(GetParam().section, GetParam().line), "run.yaml:3:" + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    WrongType, BadValueTest,
    testing::Values(
        BadValue{"model", "n_layer: many",
                 "12: model.n_layer is \"many\", which is not a whole number; it takes a whole number from 1 to 1000"},
        BadValue{
            "model", "n_layer: 4.0",
            "12: model.n_layer is \"4.0\", which is not a whole number; write 4; it takes a whole number from 1 to "
            "1000"},
        BadValue{"training", "max_steps: 1e3",
                 "14: training.max_steps is \"1e3\", which is not a whole number; write 1000; it takes a whole number "
                 "from 0 to 1000000000"},
        BadValue{
            "training", "max_steps: 5_000",
            "14: training.max_steps is \"5_000\", which is not a whole number; write 5000; it takes a whole number "
            "from 0 to 1000000000"},
        BadValue{
            "training", "max_steps: +5",
            "14: training.max_steps is \"+5\", which is not a whole number; write 5; it takes a whole number from 0 "
            "to 1000000000"},
        BadValue{
            "model", "n_layer: \"4\"",
            "12: model.n_layer is the text \"4\" because of its quotes, which must go; write a whole number from 1 "
            "to 1000"},
        BadValue{"model", "n_layer: [4]",
                 "12: model.n_layer is a list, but takes one value; write a whole number from 1 to 1000"},
        BadValue{"model", "n_layer: {a: 4}",
                 "12: model.n_layer is a section, but takes one value; write a whole number from 1 to 1000"},
        BadValue{"model", "n_layer:", "3: model.n_layer has no value; write a whole number from 1 to 1000"},
        BadValue{"model", "n_layer: ~", "3: model.n_layer has no value; write a whole number from 1 to 1000"},
        BadValue{"model", "bias: yes", "9: model.bias is \"yes\"; write one of true, false, qkv"},
        BadValue{"model", "bias: True",
                 "9: model.bias is \"True\"; did you mean true? It takes one of true, false, qkv"},
        BadValue{
            "model", "bias: \"true\"",
            "9: model.bias is the text \"true\" because of its quotes, which must go; write one of true, false, qkv"},
        BadValue{"model", "bias: 1", "9: model.bias is \"1\"; write one of true, false, qkv"},
        BadValue{
            "optimizer", "learning_rate: fast",
            "18: optimizer.learning_rate is \"fast\", which is not a number; it takes a number above 0 and at most "
            "10"},
        BadValue{"optimizer", "learning_rate: 1e",
                 "18: optimizer.learning_rate is \"1e\", which is not a number; it takes a number above 0 and at most "
                 "10"},
        BadValue{"optimizer", "learning_rate: 1,5",
                 "18: optimizer.learning_rate is \"1,5\", which is not a number; write 1.5; it takes a number above 0 "
                 "and at most 10"},
        BadValue{
            "training", "max_steps: 5,000",
            "14: training.max_steps is \"5,000\", which is not a whole number; write 5000; it takes a whole number "
            "from 0 to 1000000000"},
        BadValue{"runtime", "device: [cpu]",
                 "11: runtime.device is a list, but takes one value; write auto, cpu, cuda or cuda:N"}));

TEST(BadValue, ThatIsLongIsCutInTheMessage) {
  std::string text, cut;
  for (int i = 0; i < 1000; ++i) text += "é";
  for (int i = 0; i < 40; ++i) cut += "é";
  EXPECT_EQ(message_of_setting("model", "n_layer: " + text),
            "run.yaml:3:12: model.n_layer is \"" + cut +
                "\"…, which is not a whole number; it takes a whole number from 1 to 1000");
}

INSTANTIATE_TEST_SUITE_P(
    OutOfRange, BadValueTest,
    testing::Values(
        BadValue{"model", "n_layer: 0", "12: model.n_layer is 0; write a whole number from 1 to 1000"},
        BadValue{"model", "n_layer: -4", "12: model.n_layer is -4; write a whole number from 1 to 1000"},
        BadValue{"model", "n_layer: 99999999999999999999",
                 "12: model.n_layer is \"99999999999999999999\", which is too large; it takes a whole number from 1 to "
                 "1000"},
        BadValue{"model", "dropout: 1", "12: model.dropout is 1; write a number from 0 to below 1"},
        BadValue{"model", "dropout: -0.1", "12: model.dropout is -0.1; write a number from 0 to below 1"},
        BadValue{"optimizer", "learning_rate: 0",
                 "18: optimizer.learning_rate is 0; write a number above 0 and at most 10"},
        BadValue{"optimizer", "embedding_learning_rate: 0",
                 "28: optimizer.embedding_learning_rate is 0; write auto or a number above 0 and at most 10"},
        BadValue{"optimizer", "learning_rate: 10.5",
                 "18: optimizer.learning_rate is 10.5; write a number above 0 and at most 10"},
        BadValue{"runtime", "dtype: bfloat6",
                 "10: runtime.dtype is \"bfloat6\"; did you mean bfloat16? It takes one of auto, float32, bfloat16"},
        BadValue{"runtime", "device: cuda:x", "11: runtime.device is \"cuda:x\"; write auto, cpu, cuda or cuda:N"},
        BadValue{"runtime", "device: gpu", "11: runtime.device is \"gpu\"; write auto, cpu, cuda or cuda:N"}));

INSTANTIATE_TEST_SUITE_P(
    NotFinite, BadValueTest,
    testing::Values(
        BadValue{
            "optimizer", "epsilon: NaN",
            "12: optimizer.epsilon is \"NaN\", which is not a finite number; it takes a number above 0 and at most "
            "1"},
        BadValue{"optimizer", "epsilon: .nan",
                 "12: optimizer.epsilon is \".nan\", which is not a finite number; it takes a number above 0 and at "
                 "most 1"},
        BadValue{"optimizer", "epsilon: -.inf",
                 "12: optimizer.epsilon is \"-.inf\", which is not a finite number; it takes a number above 0 and at "
                 "most 1"},
        BadValue{
            "optimizer", "epsilon: inf",
            "12: optimizer.epsilon is \"inf\", which is not a finite number; it takes a number above 0 and at most "
            "1"},
        BadValue{"optimizer", "epsilon: 1e999",
                 "12: optimizer.epsilon is \"1e999\", which is too large or too close to 0 for a number; it takes a "
                 "number above 0 and at most 1"},
        BadValue{"optimizer", "epsilon: 1e-999",
                 "12: optimizer.epsilon is \"1e-999\", which is too large or too close to 0 for a number; it takes a "
                 "number above 0 and at most 1"}));

INSTANTIATE_TEST_SUITE_P(
    OctalAndHex, BadValueTest,
    testing::Values(
        BadValue{
            "model", "n_layer: 010",
            "12: model.n_layer is \"010\", which begins with 0, which some programs read as an octal number; write "
            "10; it takes a whole number from 1 to 1000"},
        BadValue{"model", "dropout: 00.5",
                 "12: model.dropout is \"00.5\", which begins with 0, which some programs read as an octal number; "
                 "write 0.5; it takes a number from 0 to below 1"},
        BadValue{"model", "n_layer: 0x10",
                 "12: model.n_layer is \"0x10\", which is not a whole number; write 16; it takes a whole number from 1 "
                 "to 1000"},
        BadValue{
            "model", "n_layer: 0o10",
            "12: model.n_layer is \"0o10\", which is not a whole number; write 8; it takes a whole number from 1 to "
            "1000"},
        BadValue{
            "optimizer", "learning_rate: 0x1",
            "18: optimizer.learning_rate is \"0x1\", which is not a number; write 1; it takes a number above 0 and "
            "at most 10"}));

INSTANTIATE_TEST_SUITE_P(
    Text, BadValueTest,
    testing::Values(
        BadValue{"runtime", "device: \"\"", "11: runtime.device has no value; write auto, cpu, cuda or cuda:N"},
        BadValue{"runtime", "device: 1",
                 "11: runtime.device takes text, and YAML reads 1 as something else; write \"1\" in quotes"},
        BadValue{"runtime", "device: \"a\\x04b\"",
                 "11: runtime.device holds a control character: \"a\\x04b\"; write auto, cpu, cuda or cuda:N"}));

TEST(Tokenizer, ThatSentencepieceCannotLearnIsRefused) {
  const auto message = [](const std::string& setting) {
    return message_of(data_section, {"data.tokenizer." + setting});
  };
  EXPECT_EQ(message("vocab_size=259"), "accepted");
  EXPECT_EQ(message("vocab_size=1000000"), "accepted");
  EXPECT_EQ(message("character_coverage=0.98"), "accepted");
  EXPECT_EQ(message("character_coverage=1"), "accepted");
  EXPECT_EQ(message("vocab_size=258"),
            "--set data.tokenizer.vocab_size=258: data.tokenizer.vocab_size is 258; write a whole number from 259 to "
            "1000000");
  EXPECT_EQ(message("vocab_size=1000001"),
            "--set data.tokenizer.vocab_size=1000001: data.tokenizer.vocab_size is 1000001; write a whole number from "
            "259 to 1000000");
  EXPECT_EQ(message("character_coverage=0.97"),
            "--set data.tokenizer.character_coverage=0.97: data.tokenizer.character_coverage is 0.97; write a number "
            "from 0.98 to 1");
  EXPECT_EQ(message("character_coverage=1.1"),
            "--set data.tokenizer.character_coverage=1.1: data.tokenizer.character_coverage is 1.1; write a number "
            "from 0.98 to 1");
}

TEST(Source, ThatIsAListOfListsIsRefused) {
  EXPECT_EQ(message_of("data:\n  source: [a, [b]]\n"),
            "run.yaml:2:15: data.source is a list, but takes one value; write a path, or a list [a, b]");
}

TEST(Section, ThatIsAValueIsRefused) {
  EXPECT_EQ(message_of("data: my.txt\n"),
            "run.yaml:1:7: data is a section, but here it is \"my.txt\"; write data: and its settings below, indented: "
            "source, validation_source, jsonl_field, raw, separator, vocab_size, headerless, val_fraction, order, "
            "documents, dir, stories, "
            "grammar_seed, "
            "tokenizer");
  EXPECT_EQ(message_of(data_section + "logging: [1]\n"),
            "run.yaml:2:10: logging is a section, but here it is a list; write logging: and its settings below, "
            "indented: interval, tensorboard, histograms");
  EXPECT_EQ(message_of("- a\n- b\n"),
            "run.yaml:1:1: a config consists of sections; write \"data:\" and below it \"  source: my.txt\" (a space "
            "after the colon)");
  EXPECT_EQ(message_of("data:my.txt\n"),
            "run.yaml:1:1: a config consists of sections; write \"data:\" and below it \"  source: my.txt\" (a space "
            "after the colon)");
}

TEST(Flag, WithABadValueIsNamedAsItWasWritten) {
  EXPECT_EQ(message_of(data_section, {"model.n_layer=0"}),
            "--set model.n_layer=0: model.n_layer is 0; write a whole number from 1 to 1000");
  EXPECT_EQ(message_of(data_section, {"model.n_layer="}),
            "--set model.n_layer=: model.n_layer has no value; write a whole number from 1 to 1000");
  EXPECT_EQ(message_of(data_section, {"data.source=[a,*b]"}),
            "--set data.source=[a,*b]:1:4: anchors (&name) and aliases (*name) are not used here; write the value out");
  EXPECT_EQ(message_of(data_section, {"data.dir=\xff"}),
            "--set data.dir=\xff: data.dir is not UTF-8 text; write auto or a path");
}

TEST(Flag, ThatNamesNoSettingIsRefused) {
  EXPECT_EQ(message_of(data_section, {"model.n_layer"}),
            "--set model.n_layer: there is no \"=\"; write --set section.key=value");
  EXPECT_EQ(message_of(data_section, {"logging=1"}),
            "--set logging=1: logging is a section; write --set logging.NAME=value with a NAME of interval, "
            "tensorboard, histograms");
  EXPECT_EQ(message_of(data_section, {"logging.intervall=1"}),
            "--set logging.intervall=1: there is no setting \"logging.intervall\"; did you mean logging.interval? "
            "(logging has: interval, tensorboard, histograms)");
  EXPECT_EQ(message_of(data_section, {"loging.every=1"}),
            "--set loging.every=1: there is no setting \"loging.every\"; did you mean logging? (sections: data, model, "
            "optimizer, schedule, training, evaluation, checkpoint, logging, sampling, runtime, ranks)");
}

}  // namespace
}  // namespace inkling
