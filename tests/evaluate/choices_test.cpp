// Which ending is chosen, against scores made by hand; what files of questions are refused for.
#include "evaluate/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "tests/eval_file.h"
#include "tests/evaluate/by_hand.h"
#include "tests/generate/loaded_model.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

std::string question(const std::string& context, const std::vector<std::string>& endings, std::size_t label) {
  return nlohmann::json{{"context", context}, {"endings", endings}, {"label", label}}.dump() + "\n";
}

// A tokenizer made elsewhere, which begins every text with a token of its own: "z" of a char vocabulary stands for it.
class BeginsTexts final : public Tokenizer {
 public:
  explicit BeginsTexts(std::unique_ptr<Tokenizer> inner) : inner_(std::move(inner)) {}
  std::string kind() const override { return inner_->kind(); }
  std::uint64_t vocab_size() const override { return inner_->vocab_size(); }
  std::optional<Token> separator() const override { return inner_->separator(); }
  std::vector<AddedToken> special_tokens() const override { return inner_->special_tokens(); }
  std::optional<Token> first_token() const override { return encode(*inner_, "z").front(); }
  void check(std::string_view text) const override { inner_->check(text); }
  void encode_part(std::string_view part, bool begins_document, std::vector<Token>& tokens) const override {
    inner_->encode_part(part, begins_document, tokens);
  }
  std::string decode(Token token) const override { return inner_->decode(token); }
  void save(const std::filesystem::path& to) const override { inner_->save(to); }
  std::string hash() const override { return inner_->hash(); }

 private:
  std::unique_ptr<Tokenizer> inner_;
};

class Choices : public testing::Test {
 protected:
  ChoiceFile read(const std::string& text, const std::string& name = "questions.jsonl") const {
    return read_choices(folder.write(name, text), model);
  }
  std::string refusal(const std::string& text) const {
    const std::string good = question("a b ", {"c", "d"}, 1);
    return input_error([&] { read_choices(folder.write("questions.jsonl", good + text), model, Unusable::refuse); });
  }
  // The nats of an ending by its definition: in one piece with as much of its context as fits.
  double nats_of(const std::vector<Token>& context, const std::vector<Token>& ending) const {
    std::vector<Token> tokens = context;
    tokens.insert(tokens.end(), ending.begin(), ending.end());
    const auto most = static_cast<std::size_t>(model.model->shape().block_size) + 1;
    if (tokens.size() > most) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(most));
    return test::nats_by_hand(model.model->shape(), *model.arena, tokens, tokens.size() - ending.size());
  }

  LoadedModel model = make_loaded_model(make_char_tokenizer(true), 20);
  TemporaryFolder folder;
  const double allowed = test::logits_difference(model.model->shape(), 20);
};

TEST_F(Choices, AreScoredGivenTheirContextAndChosenByEachRule) {
  std::vector<TokenChoice> choices;
  const auto vocabulary = static_cast<std::uint64_t>(model.model->shape().vocab_size);
  std::vector<Token> tokens = test::random_tokens(40, vocabulary);
  for (std::uint64_t i = 0; i < 60; ++i) {
    TokenChoice choice;
    const std::size_t context = 1 + random_below(5, i, 30);  // some longer than the block, which has 20
    for (std::size_t j = 0; j < context; ++j) choice.context.push_back(tokens[(7 * i + j) % tokens.size()]);
    for (std::uint64_t e = 0; e < 2 + i % 4; ++e) {
      choice.endings.emplace_back();
      const std::size_t length = i == 7 && e == 1 ? 20 : 1 + random_below(6, 10 * i + e, 8);
      for (std::size_t j = 0; j < length; ++j) choice.endings.back().push_back(tokens[(11 * i + 3 * e + j) % 40]);
    }
    choice.label = i % choice.endings.size();
    choices.push_back(choice);
  }
  const ChoiceFile file = read(eval_file_bytes(choices), "questions.bin");
  const ChoiceEvaluation result = evaluate_choices(*model.model, model.runtime, file);
  ASSERT_EQ(result.results.size(), choices.size());
  ASSERT_EQ(result.accuracies.size(), 2u);  // tokens have no characters
  std::uint64_t right_by_sum = 0, right_per_token = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::vector<double> sums, means;
    for (std::size_t e = 0; e < choices[i].endings.size(); ++e) {
      const double nats = nats_of(choices[i].context, choices[i].endings[e]);
      EXPECT_NEAR(result.results[i].endings[e].nats, nats, allowed * nats) << i << " " << e;
      sums.push_back(nats);
      means.push_back(nats / static_cast<double>(choices[i].endings[e].size()));
    }
    const auto lowest = [](const std::vector<double>& values) {
      return static_cast<std::size_t>(std::min_element(values.begin(), values.end()) - values.begin());
    };
    EXPECT_EQ(result.results[i].chosen, (std::vector<std::size_t>{lowest(sums), lowest(means)})) << i;
    right_by_sum += lowest(sums) == choices[i].label ? 1 : 0;
    right_per_token += lowest(means) == choices[i].label ? 1 : 0;
  }
  EXPECT_EQ(result.accuracies[0].right, right_by_sum);
  EXPECT_EQ(result.accuracies[1].right, right_per_token);
  const double p = static_cast<double>(right_by_sum) / 60;
  EXPECT_DOUBLE_EQ(result.accuracies[0].value, p);
  EXPECT_DOUBLE_EQ(result.accuracies[0].standard_error, std::sqrt(p * (1 - p) / 59));
}

TEST_F(Choices, OfTextsAreTheTokensOfTheWholeBehindThoseOfTheContext) {
  const ChoiceFile file = read(question("ab \n", {"c", "é€"}, 1) + "\n" + question("ab", {" c", "d"}, 0) +
                               question("", {"c", " "}, 0) + question(" ", {"c", "d"}, 0));
  const auto tokens = [&](const std::string& text) { return encode(*model.tokenizer, text); };
  ASSERT_EQ(file.examples.size(), 4u);
  EXPECT_EQ(file.examples[0].context, tokens("ab"));  // white space goes to the endings
  EXPECT_EQ(file.examples[0].endings, (std::vector{tokens(" \nc"), tokens(" \né€")}));
  EXPECT_EQ(file.examples[0].characters, (std::vector<std::uint64_t>{1, 2}));  // of the ending as it is written
  EXPECT_EQ(file.examples[0].label, 1u);
  EXPECT_EQ(file.examples[1].number, 3u);
  EXPECT_EQ(file.examples[1].endings[0], tokens(" c"));
  EXPECT_EQ(file.examples[1].characters[0], 2u);
  EXPECT_EQ(file.examples[2].context, std::vector{*model.tokenizer->separator()});
  EXPECT_EQ(file.examples[3].context, std::vector{*model.tokenizer->separator()});
  EXPECT_EQ(file.examples[3].endings[0], tokens(" c"));
}

TEST_F(Choices, BeginWithWhatTheTokenizerPutsInFrontOfEveryText) {
  model.tokenizer = std::make_unique<BeginsTexts>(std::move(model.tokenizer));
  const ChoiceFile file = read(question("ab ", {"c", "d"}, 1) + question("", {"c", "d"}, 0));
  const auto tokens = [&](const std::string& text) { return encode(*model.tokenizer, text); };
  EXPECT_EQ(file.examples[0].context, tokens("zab"));
  EXPECT_EQ(file.examples[0].endings[0], tokens(" c"));
  EXPECT_EQ(file.examples[1].context, tokens("z"));
  EXPECT_EQ(file.examples[1].endings[0], tokens("c"));
}

TEST_F(Choices, OfALongContextTakeNoMoreMemoryThanTheModelSees) {
  const std::string context = std::string(5000, 'a') + "bcdefghijklmnopqrstu";
  const ChoiceFile file = read(question(context, {"v", "wxy"}, 0));
  const ChoiceExample& example = file.examples.at(0);
  EXPECT_EQ(example.context, encode(*model.tokenizer, "bcdefghijklmnopqrstu"));  // block_size, which is 20
  EXPECT_EQ(example.endings, (std::vector{encode(*model.tokenizer, "v"), encode(*model.tokenizer, "wxy")}));
  EXPECT_LE(example.context.capacity(), 20u);
  for (const auto& ending : example.endings) EXPECT_LE(ending.capacity(), 20u);
}

TEST_F(Choices, WhichAreEqualGoToTheFirst) {
  const std::vector<std::string> endings(50, "b");  // of which some have another place among a product's rows
  const ChoiceFile file = read(question("a ", endings, 1));
  const ChoiceEvaluation result = evaluate_choices(*model.model, model.runtime, file);
  EXPECT_EQ(result.results[0].chosen, (std::vector<std::size_t>{0, 0, 0}));
  EXPECT_EQ(result.accuracies[0].right, 0u);
  EXPECT_TRUE(std::isnan(result.accuracies[0].standard_error));
}

TEST_F(Choices, PerCharacterDividesByWhatTheFileWrites) {
  const std::vector<std::string> endings = {"b", "cde", "fghijkl"};
  const ChoiceFile file = read(question("a ", endings, 0));
  const ChoiceEvaluation result = evaluate_choices(*model.model, model.runtime, file);
  std::vector<double> scores;
  for (std::size_t e = 0; e < endings.size(); ++e) {
    scores.push_back(-result.results[0].endings[e].nats / static_cast<double>(endings[e].size()));
  }
  EXPECT_EQ(result.results[0].chosen[2],
            static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
}

TEST_F(Choices, WhatIsNotAQuestionIsRefusedByLineAndField) {
  const std::string line = "questions.jsonl:2: ";
  const auto expect = [&](const std::string& text, const std::string& part) {
    const std::string message = refusal(text);
    EXPECT_TRUE(contains(message, line)) << text;
    EXPECT_TRUE(contains(message, part)) << text;
  };
  expect("{\"context\": \"a\", \"endings\": [\"b\", \"c\"]}", "label is missing");
  expect("{\"endings\": [\"b\", \"c\"], \"label\": 0}", "context is missing");
  expect("{\"context\": \"a\", \"label\": 0}", "endings is missing");
  expect("{\"context\": 1, \"endings\": [\"b\", \"c\"], \"label\": 0}", "context is 1, and must be a text");
  expect("{\"context\": \"a\", \"endings\": [\"b\", 1], \"label\": 0}", "must be a list of texts");
  expect("{\"context\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": \"0\"}", "label is \"0\", and must be");
  expect("{\"context\": \"a\", \"endings\": [\"b\", \"c\"], \"label\": -1}", "label is -1, and must be");
  expect(question("a ", {"b", "c"}, 2), "label is 2, and must be a whole number from 0 to 1");
  expect(question("a ", {"b"}, 0), "endings has 1 and must have 2 to 1000");
  expect(question("a ", std::vector<std::string>(1001, "b"), 0), "endings has 1001");
  expect(question("a ", {"b", ""}, 0), "endings[1] is empty");
  expect(question("a ", {"b", "ABC"}, 0), "endings[1]: no token for \"A\"");
  expect(question("Z", {"b", "c"}, 0), "context: no token for \"Z\"");
  expect(question("a ", {"b", std::string(21, 'c')}, 0), "endings[1] has 22 tokens, and the model's block_size is 20");
  expect("[1, 2]", "not an object");
  expect("{\"context\": ", "");
  expect("{\"context\": \"\xff\"}", "");
  EXPECT_TRUE(contains(input_error([&] { read("\n\n"); }), "questions.jsonl: there is no example in it"));
  EXPECT_TRUE(
      contains(input_error([&] { read("[1]\n\n{\n"); }), "questions.jsonl: all of its 2 lines were passed over"));
  EXPECT_TRUE(contains(input_error([&] { read_choices(folder / "nowhere.jsonl", model); }), "nowhere.jsonl"));
}

TEST_F(Choices, WithoutASeparatorAnEmptyContextIsRefused) {
  model = make_loaded_model(make_char_tokenizer(false), 20);
  EXPECT_TRUE(contains(refusal(question("", {"b", "c"}, 0)), "questions.jsonl:2: context is empty"));
}

TEST_F(Choices, OfTokensThatTheModelDoesNotHaveAreRefused) {
  const auto bytes = eval_file_bytes({{{1}, {{2}, {40'000}}, 0}});
  EXPECT_TRUE(contains(input_error([&] { read(bytes, "questions.bin"); }), "the model's vocabulary has "));
  const auto long_one = eval_file_bytes({{{1}, {{2}, std::vector<Token>(21, 3)}, 0}});
  EXPECT_TRUE(
      contains(input_error([&] { read_choices(folder.write("questions.bin", long_one), model, Unusable::refuse); }),
               "questions.bin: example 0: endings[1] has 21"));
}

TEST_F(Choices, ThatCannotBeScoredArePassedOverAndCounted) {
  const std::string good = question("a b ", {"c", "d"}, 1), bad = question("a b ", {"c", "d"}, 2);
  const ChoiceFile lines =
      read("\xef\xbb\xbf" + good + bad + "{\"context\": \n\n" + good + question("a", {"b", std::string(21, 'c')}, 0));
  EXPECT_EQ(lines.passed_over, 3u);
  ASSERT_EQ(lines.examples.size(), 2u);
  EXPECT_EQ(lines.examples[0].number, 1u);
  EXPECT_EQ(lines.examples[1].number, 5u);
  const ChoiceFile tokens =
      read(eval_file_bytes({{{1}, {{2}, std::vector<Token>(21, 3)}, 0}, {{1}, {{2}, {3}}, 1}}), "questions.bin");
  EXPECT_EQ(tokens.passed_over, 1u);
  ASSERT_EQ(tokens.examples.size(), 1u);
  EXPECT_EQ(tokens.examples[0].number, 1u);
  EXPECT_EQ(evaluate_choices(*model.model, model.runtime, lines).results.size(), 2u);
}

TEST_F(Choices, OfHalfASurrogatePairHoldItsReplacementAndAreCounted) {
  model.tokenizer = make_char_tokenizer(true, "\n abcd\xef\xbf\xbd");
  testing::internal::CaptureStderr();
  const ChoiceFile file = read(question("a b ", {"c", "d"}, 1) +
                               R"({"context": "a\ud800 ", "endings": ["b", "\udc00c"], "label": 0, "of": "\udfff"})");
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(file.examples.size(), 2u);
  EXPECT_EQ(file.examples[1].context, encode(*model.tokenizer, "a\xef\xbf\xbd"));
  EXPECT_EQ(file.examples[1].endings[1], encode(*model.tokenizer,
                                                " \xef\xbf\xbd"
                                                "c"));
  EXPECT_TRUE(contains(said, "3 escapes in the JSON are halves of surrogate pairs"));
  EXPECT_TRUE(contains(said, "questions.jsonl:2"));
}

TEST_F(Choices, WhoseScoresAreNoNumbersEndTheEvaluationByLine) {
  const auto refusal_of = [&](const ChoiceFile& file) {
    const auto error = error_of([&] { evaluate_choices(*model.model, model.runtime, file); });
    if (!error) return std::string("nothing was refused");
    EXPECT_EQ(error->kind(), ErrorKind::diverged);
    return error->message();
  };
  model = make_loaded_model(make_char_tokenizer(true), 20, test_runtime(), test::modern_shape);
  const ChoiceFile file = read(question("ab ", {"c", "d"}, 1) + question("ab ", {"c", "qd"}, 1));
  const auto q = static_cast<std::int64_t>(encode(*model.tokenizer, "q").front());
  model.arena->weight("wte.weight").value[q].fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(contains(refusal_of(file), "the model's answer to " + file.path.string() + ":2 is not a number"));
  model.arena->weight("wte.weight").value.fill_(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(contains(refusal_of(file), "questions.jsonl:1 is not a number"));
}

}  // namespace
}  // namespace inkling
