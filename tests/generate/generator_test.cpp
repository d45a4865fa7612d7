// Texts from prompts: what decides them, how they end, what is shown of them.
#include "generate/generator.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/strings.h"
#include "generate/decoder.h"
#include "tests/generate/loaded_model.h"
#include "tests/temporary_folder.h"
#include "tests/text/sentencepiece_testing.h"
#include "text/prompts.h"

namespace inkling {
namespace {

constexpr std::int64_t block_size = 16;

GenerationSettings settings_with(std::uint64_t count, std::uint64_t max_tokens) {
  GenerationSettings settings;
  settings.count = count;
  settings.max_tokens = max_tokens;
  settings.sampling.temperature = 1.0;
  return settings;
}

std::vector<Sample> generate_texts(const LoadedModel& model, const std::vector<std::string>& prompts,
                                   const GenerationSettings& settings, const Watcher& watcher = {}) {
  return generate(model, prompts, settings, watcher);
}

TEST(Generator, TheSameSeedGivesTheSameTextAndAnotherSeedAnother) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size);
  GenerationSettings settings = settings_with(1, 60);
  const std::string first = generate_texts(model, {"so"}, settings)[0].text;
  EXPECT_EQ(generate_texts(model, {"so"}, settings)[0].text, first);
  settings.seed = 2;
  EXPECT_NE(generate_texts(model, {"so"}, settings)[0].text, first);
}

TEST(Generator, WhatStandsBesideASampleHasNoInfluence) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(true), block_size);
  const std::vector<std::string> prompts = {"a", "a longer prompt than any block of this model holds", "", "ab c"};
  const GenerationSettings settings = settings_with(9, 80);  // 36 samples: rows end, move and are filled again
  const std::vector<Sample> together = generate_texts(model, prompts, settings);
  ASSERT_EQ(together.size(), 36u);
  for (std::size_t prompt = 0; prompt < prompts.size(); ++prompt) {
    const std::vector<Sample> own = generate_texts(model, {prompts[prompt]}, settings);
    for (std::size_t n = 0; n < own.size(); ++n) {
      const Sample& sample = together[prompt * 9 + n];
      EXPECT_EQ(sample.prompt, prompt);
      EXPECT_EQ(sample.number, n);
      EXPECT_EQ(sample.text, own[n].text) << prompt << " " << n;
      EXPECT_EQ(sample.finish, own[n].finish);
    }
  }
  GenerationSettings one = settings;
  one.count = 1;
  EXPECT_EQ(generate_texts(model, {"a"}, one)[0].text, together[0].text);
}

TEST(Generator, SamplesOfOnePromptDiffer) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size);
  const std::vector<Sample> samples = generate_texts(model, {"so"}, settings_with(2, 60));
  EXPECT_NE(samples[0].text, samples[1].text);
}

// Greedy texts may part only where the two likeliest tokens are as near as rounding.
TEST(Generator, GreedyTextsAgreeWithAndWithoutTheCache) {
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size, kernels);
    GenerationSettings settings = settings_with(1, 150);
    settings.sampling.temperature = 0;
    const std::string cached = generate_texts(model, {"once"}, settings)[0].text;
    settings.cache = false;
    const std::string uncached = generate_texts(model, {"once"}, settings)[0].text;
    if (cached == uncached) continue;
    std::vector<Token> tokens = encode_prompt(*model.tokenizer, "once");
    const auto a = encode(*model.tokenizer, cached), b = encode(*model.tokenizer, uncached);
    const auto parted = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    tokens.insert(tokens.end(), a.begin(), parted);
    EagerLogits judge(*model.model, model.runtime, 1, false);
    const std::vector<std::span<const Token>> text = {tokens};
    const at::Tensor logits = judge(text);
    const at::Tensor top_two = std::get<0>(logits.flatten().sort(0, true)).narrow(0, 0, 2);
    const double rounding = test::logits_difference(test::small_shape, block_size) * logits.norm().item<double>();
    EXPECT_LT((top_two[0] - top_two[1]).item<double>(), 2.0 * rounding);
  }
}

TEST(Generator, ATextEndsAtTheSeparatorUnlessItIsToBeIgnored) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(true), block_size);
  GenerationSettings settings = settings_with(8, 300);
  settings.sampling.temperature = 1.5;
  const std::vector<Sample> ended = generate_texts(model, {"so"}, settings);
  settings.ignore_end = true;
  const std::vector<Sample> went_on = generate_texts(model, {"so"}, settings);
  int ends = 0;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    EXPECT_EQ(went_on[i].finish, Finish::length);
    EXPECT_EQ(went_on[i].tokens, 300u);
    if (ended[i].finish != Finish::end) continue;
    ++ends;
    EXPECT_TRUE(went_on[i].text.starts_with(ended[i].text + "\n"));
  }
  EXPECT_GT(ends, 0);
}

// A tokenizer with a prefix says "the" as " the" at the beginning of a document; the text does not have that space.
TEST(Generator, TheTextOfAnEmptyPromptBeginsWithoutThePrefix) {
  const TemporaryFolder folder;
  folder.write("tokenizer.model", model_like_llama());
  const LoadedModel model = make_loaded_model(load_tokenizer(folder.path()), block_size);
  GenerationSettings settings = settings_with(200, 1);
  settings.sampling.temperature = 50;
  int with_space = 0;
  for (const Sample& sample : generate_texts(model, {""}, settings)) EXPECT_FALSE(sample.text.starts_with(' '));
  for (const Sample& sample : generate_texts(model, {"the"}, settings))
    with_space += sample.text.starts_with(' ') ? 1 : 0;
  EXPECT_GT(with_space, 0);
}

TEST(Generator, MakesAsManyTokensAsAskedFor) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size);
  for (const std::uint64_t wanted : {1, 15, 16, 17, 40}) {
    const Sample sample = generate_texts(model, {"so"}, settings_with(1, wanted))[0];
    EXPECT_EQ(sample.tokens, wanted);
    EXPECT_EQ(encode(*model.tokenizer, sample.text).size(), wanted);
    EXPECT_EQ(sample.finish, Finish::length);
  }
}

TEST(Generator, ATextEndsBeforeAStopString) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size);
  GenerationSettings settings = settings_with(1, 100);
  const std::string whole = generate_texts(model, {"so"}, settings)[0].text;
  std::size_t cut = 40;
  while ((static_cast<unsigned char>(whole[cut]) & 0xC0) == 0x80) ++cut;  // a character's first byte
  const std::string stop = whole.substr(cut, 8);
  settings.stops = {"never in there", stop};
  const Sample sample = generate_texts(model, {"so"}, settings)[0];
  EXPECT_EQ(sample.finish, Finish::stop);
  EXPECT_EQ(sample.text, whole.substr(0, whole.find(stop)));
}

TEST(Generator, AStopThatNamesASpecialTokenEndsATextAtTheToken) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(true), block_size);
  GenerationSettings settings = settings_with(8, 300);
  settings.sampling.temperature = 1.5;
  const std::vector<Sample> ended = generate_texts(model, {"so"}, settings);
  settings.ignore_end = true;
  settings.stops = {"<|endoftext|>"};
  const std::vector<Sample> stopped = generate_texts(model, {"so"}, settings);
  int stops = 0;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    EXPECT_EQ(stopped[i].text, ended[i].text);
    EXPECT_EQ(stopped[i].finish, ended[i].finish == Finish::end ? Finish::stop : ended[i].finish);
    stops += stopped[i].finish == Finish::stop ? 1 : 0;
  }
  EXPECT_GT(stops, 0);
}

TEST(Generator, NeverShowsHalfACharacter) {
  const LoadedModel model = make_loaded_model(make_byte_tokenizer(true), block_size);
  GenerationSettings settings = settings_with(4, 200);
  settings.ignore_end = true;
  std::vector<std::string> watched(4);
  const auto watcher = [&](std::size_t index, const Sample& sample, std::string_view added, bool) {
    EXPECT_EQ(find_invalid_utf8(added), std::nullopt);
    watched[index] += added;
    EXPECT_EQ(watched[index], sample.text);
    return true;
  };
  const std::vector<Sample> samples = generate_texts(model, {"\xC3"}, settings, watcher);
  for (std::size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(watched[i], samples[i].text);
}

TEST(Generator, ACharacterThatTheLimitCutsIsLeftOut) {
  const LoadedModel model = make_loaded_model(make_byte_tokenizer(false), block_size);
  GenerationSettings settings = settings_with(64, 1);
  settings.sampling.temperature = 1000;  // about uniform: one byte in five begins a character
  int cut = 0;
  for (const Sample& sample : generate_texts(model, {"so"}, settings)) cut += sample.text.empty() ? 1 : 0;
  EXPECT_GT(cut, 0);
  EXPECT_LT(cut, 40);
}

TEST(Generator, TheWatcherEndsEverything) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size);
  int calls = 0;
  const std::vector<Sample> samples =
      generate_texts(model, {"a", "b"}, settings_with(1, 1000),
                     [&](std::size_t, const Sample&, std::string_view, bool) { return ++calls < 10; });
  EXPECT_EQ(calls, 10);
  for (const Sample& sample : samples) EXPECT_EQ(sample.finish, Finish::interrupted);
}

TEST(Generator, EverySampleIsFinishedOnce) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(true), block_size);
  std::vector<int> finished(40, 0);
  generate_texts(model, {"a", "b"}, settings_with(20, 50),
                 [&](std::size_t index, const Sample&, std::string_view, bool last) {
                   EXPECT_EQ(finished[index], 0);
                   if (last) ++finished[index];
                   return true;
                 });
  for (const int times : finished) EXPECT_EQ(times, 1);
}

TEST(Generator, AModelWithoutATokenizerIsRefused) {
  LoadedModel model = make_loaded_model(make_char_tokenizer(false), block_size);
  model.tokenizer.reset();
  const auto error = error_of([&] { generate_texts(model, {"a"}, settings_with(1, 1)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
  EXPECT_NE(error->message().find("no tokenizer"), std::string::npos);
}

TEST(Generator, TokensBeyondTheVocabularyAreNeverDrawn) {
  // As in GPT-2's padded tables: the model knows more tokens than the tokenizer.
  LoadedModel model = make_loaded_model(make_byte_tokenizer(false), block_size);
  model.tokenizer = make_char_tokenizer(false);
  GenerationSettings settings = settings_with(2, 200);
  settings.sampling.temperature = 3.0;
  for (const Sample& sample : generate_texts(model, {"a"}, settings)) EXPECT_EQ(sample.tokens, 200u);
}

}  // namespace
}  // namespace inkling
