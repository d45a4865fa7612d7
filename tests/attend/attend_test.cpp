// What is shown of a text: its tokens, which heads are in full, what comes next, and which prompts are refused.
#include "attend/attend.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/strings.h"
#include "model/attention_steps.h"
#include "tests/generate/loaded_model.h"
#include "tests/temporary_folder.h"
#include "text/prompts.h"

namespace inkling {
namespace {

constexpr std::int64_t block = 20;

LoadedModel char_model(bool with_separator = true, const GptShape& shape = test::modern_shape) {
  return make_loaded_model(make_char_tokenizer(with_separator), block, test_runtime(), shape);
}

at::Tensor row_of(const std::vector<Token>& tokens) {
  return at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()), at::kLong).unsqueeze(0);
}

std::vector<float> floats(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST(Attend, HasTheNumbersOfTheReferenceModel) {
  const LoadedModel model = char_model();
  const AttendedText text = attend(model, "once upon");
  const std::vector<Token> tokens = encode_prompt(*model.tokenizer, "once upon");
  ASSERT_EQ(text.tokens.size(), tokens.size());
  ASSERT_EQ(text.layers.size(), 2u);
  ASSERT_EQ(text.layers[1].heads.size(), 4u);
  const at::NoGradGuard no_gradients;
  watched_logits(model.model->shape(), *model.arena, row_of(tokens),
                 [&](std::int64_t layer, std::int64_t number, const AttentionSteps& steps) {
                   SCOPED_TRACE(str(layer, ".", number));
                   const AttendedHead& head =
                       text.layers[static_cast<std::size_t>(layer)].heads[static_cast<std::size_t>(number)];
                   EXPECT_EQ(head.weights, floats(steps.weights));
                   EXPECT_EQ(head.scores, floats(steps.scores));
                   EXPECT_EQ(head.queries, floats(steps.queries));
                   EXPECT_EQ(head.keys, floats(steps.keys));
                   EXPECT_EQ(head.values, floats(steps.values));
                   EXPECT_EQ(head.sums, floats(steps.sums));
                 });
}

TEST(Attend, SaysWhatItLooksAt) {
  GptShape shape = test::modern_shape;
  shape.patterns = {{}, {3, 2}};
  const AttendedText text = attend(char_model(true, shape), "a b");
  EXPECT_EQ(text.model, "memory");
  EXPECT_EQ(text.prompt, "a b");
  EXPECT_EQ(text.n_embd, 30);
  EXPECT_EQ(text.n_kv_head, 2);
  EXPECT_EQ(text.head_size, 10);
  EXPECT_EQ(text.position, "rope");
  EXPECT_EQ(text.layers[0].pattern, "full");
  EXPECT_EQ(text.layers[1].pattern, "dilated 3 2");
}

TEST(Attend, TokensAreShownAsTheirTextAndTheSeparatorAsNothing) {
  const LoadedModel model = char_model();
  const AttendedText text = attend(model, "a €\n");
  std::vector<std::string> texts;
  for (const AttendedToken& token : text.tokens) texts.push_back(token.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"", "a", " ", "€", "\n"}));
  EXPECT_EQ(text.tokens[0].id, static_cast<std::int64_t>(*model.tokenizer->separator()));
}

TEST(Attend, BytesThatAreNoCharacterAloneAreShownByTheirNumber) {
  EXPECT_EQ(shown_text(""), "");
  EXPECT_EQ(shown_text("plain \n\t\"\\ é𝄞"), "plain \n\t\"\\ é𝄞");
  EXPECT_EQ(shown_text("\xc3"), "\\xc3");
  EXPECT_EQ(shown_text("a\xc3\xa9\xe2\x82z\xff"), "aé\\xe2\\x82z\\xff");
  EXPECT_EQ(shown_text(std::string_view("\0", 1)), std::string_view("\0", 1));
  const LoadedModel model = make_loaded_model(make_byte_tokenizer(false), block, test_runtime());
  const AttendedText text = attend(model, "é");
  ASSERT_EQ(text.tokens.size(), 2u);
  EXPECT_EQ(text.tokens[0].text, "\\xc3");
  EXPECT_EQ(text.tokens[1].text, "\\xa9");
}

TEST(Attend, ManyHeadsAreInFullOnlyWhereThatIsSmall) {
  const LoadedModel model = char_model();
  const HeadChoice shown{1, 2};
  // What a head of 5 tokens and 10 channels has beside its weights, 8 times.
  const std::uint64_t all = 8 * sizeof(float) * (5 * 5 + 4 * 5 * 10);
  for (const bool fits : {true, false}) {
    const AttendedText text = attend(model, "a bc", {.shown = shown, .most_in_full = fits ? all : all - 1});
    ASSERT_EQ(text.tokens.size(), 5u);
    for (std::size_t layer = 0; layer < 2; ++layer) {
      for (std::size_t head = 0; head < 4; ++head) {
        EXPECT_EQ(text.layers[layer].heads[head].weights.size(), 25u);
        EXPECT_EQ(text.layers[layer].heads[head].in_full(), fits || (HeadChoice{layer, head}) == shown);
      }
    }
  }
}

TEST(Attend, OneHeadAloneLeavesTheOthersEmpty) {
  const AttendedText text = attend(char_model(), "a bc", {.shown = HeadChoice{0, 3}, .only_shown = true});
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t head = 0; head < 4; ++head) {
      const bool shown = HeadChoice{layer, head} == HeadChoice{0, 3};
      EXPECT_EQ(text.layers[layer].heads[head].weights.size(), shown ? 25u : 0u);
      EXPECT_EQ(text.layers[layer].heads[head].in_full(), shown);
    }
  }
}

TEST(Attend, TheClearestHeadIsTheOneWhoseLastTokenLooksMostAtOneBetween) {
  AttendedText text;
  text.tokens.resize(3);
  text.layers.resize(2, {"full", std::vector<AttendedHead>(2)});
  const auto head = [&](std::size_t layer, std::size_t number, const std::vector<float>& last_row) {
    std::vector<float> weights = {1, 0, 0, 0, 1, 0};
    weights.insert(weights.end(), last_row.begin(), last_row.end());
    text.layers[layer].heads[number].weights = weights;
  };
  head(0, 0, {1.0F, 0.0F, 0.0F});  // at the first
  head(0, 1, {0.2F, 0.5F, 0.3F});
  head(1, 0, {0.2F, 0.6F, 0.2F});
  head(1, 1, {0.0F, 0.1F, 0.9F});  // at itself
  EXPECT_EQ(clearest_head(text), (HeadChoice{1, 0}));
  for (const std::size_t few : {1, 2}) {  // nothing is between
    text.tokens.resize(few);
    for (AttendedLayer& layer : text.layers) {
      for (AttendedHead& each : layer.heads) each.weights.assign(few * few, 1);
    }
    EXPECT_EQ(clearest_head(text), (HeadChoice{0, 0}));
  }
}

// The tokenizer of a model made elsewhere may have fewer tokens than its tables.
TEST(Attend, WhatComesNextIsOfTheTokenizersTokensTheLikeliestFirst) {
  LoadedModel model = char_model();
  const auto tokens = static_cast<std::int64_t>(model.tokenizer->vocab_size());
  GptShape wider = test::modern_shape;
  wider.vocab_size = tokens + 7;
  test::SmallModel made = test::make_lively_model(wider, {.runtime = test_runtime(), .use = Use::inference});
  model.arena = std::move(made.arena);
  model.model = std::move(made.model);
  const AttendedText text = attend(model, "once", {.likeliest = static_cast<std::size_t>(tokens) + 5});
  const at::NoGradGuard no_gradients;
  const at::Tensor logits = model.model->logits(row_of(encode_prompt(*model.tokenizer, "once")))[0][-1];
  const at::Tensor expected = at::softmax(logits.to(at::kDouble).narrow(0, 0, tokens), 0);
  ASSERT_EQ(text.next.size(), static_cast<std::size_t>(tokens));
  double sum = 0, before = 1;
  for (const NextToken& next : text.next) {
    // An error of the logits is as large as a row of them, and exp() makes of it the same relative error.
    const double rounding = test::logits_difference(wider, 5) * logits.norm().item<double>();
    const double wanted = expected[next.token.id].item<double>();
    EXPECT_NEAR(next.probability, wanted, wanted * 2 * std::expm1(rounding));
    EXPECT_LE(next.probability, before);
    before = next.probability;
    sum += next.probability;
  }
  EXPECT_NEAR(sum, 1.0, 1e-12);
  EXPECT_EQ(attend(model, "once").next.size(), 10u);
}

TEST(Attend, WhatCannotBeAttendedToIsRefused) {
  const LoadedModel model = char_model();
  EXPECT_TRUE(contains(input_error([&] { attend(model, ""); }), "the prompt is empty"));
  EXPECT_TRUE(contains(input_error([&] { attend(model, "a Q"); }), "Q"));
  const std::string longest(block - 1, 'a');  // behind the separator
  EXPECT_EQ(attend(model, longest).tokens.size(), static_cast<std::size_t>(block));
  EXPECT_TRUE(contains(input_error([&] { attend(model, longest + "a"); }),
                       "the prompt has 21 tokens, and the model sees at most 20 at once"));
  LoadedModel without = char_model();
  without.tokenizer.reset();
  EXPECT_TRUE(contains(input_error([&] { attend(without, "a"); }), "holds no tokenizer"));
}

// 2 layers of 3 heads over 7,000 tokens have 1.1 GiB of weights, and one head has 0.4 GiB with its scores.
TEST(Attend, MoreThanAGibibyteIsRefusedBeforeItIsComputed) {
  GptShape shape = test::small_shape;
  shape.position = Position::none;
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), 50'000, test_runtime(), shape);
  const auto message = input_error([&] { attend(model, std::string(7000, 'a')); });
  EXPECT_TRUE(contains(message, "the weights between its 7,000 tokens would take more than 1.0 GiB in 6 heads"));
  EXPECT_TRUE(contains(message, "give a shorter prompt, or ask for one head"));
  EXPECT_EQ(attended_tokens(model, std::string(7000, 'a'), {.only_shown = true}).size(), 7000u);
  EXPECT_TRUE(contains(input_error([&] { attended_tokens(model, std::string(50'000, 'a'), {.only_shown = true}); }),
                       "would take more than 1.0 GiB; give a shorter prompt"));
}

TEST(Attend, LogitsThatAreNoNumbersAreSaid) {
  const LoadedModel model = char_model();
  model.arena->weight("h.0.mlp.c_proj.weight").value.fill_(std::numeric_limits<float>::quiet_NaN());
  const auto error = error_of([&] { attend(model, "a"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::diverged);
  EXPECT_TRUE(contains(error->message(), "is not a number"));
}

}  // namespace
}  // namespace inkling
