// Generating on a GPU, a graph for each token, against generating on the CPU. (Emulated: see
// tests/oracle/emulated_library.h.)
#include "generate/graphed_decoder.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "generate/generator.h"
#include "tests/generate/loaded_model.h"
#include "tests/oracle/emulated_library.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// Texts that end at different steps, outgrow their blocks, and make room for others.
const std::vector<std::string> prompts = {"a", "a longer prompt than any block of this model holds", "", "ab c"};

GenerationSettings settings_with(const SamplingSettings& sampling) {
  GenerationSettings settings;
  settings.count = 2;
  settings.max_tokens = 12;
  settings.sampling = sampling;
  return settings;
}

std::vector<std::string> texts_of(const LoadedModel& model, std::span<const std::string> beginnings,
                                  const GenerationSettings& settings) {
  std::vector<std::string> texts;
  for (const Sample& sample : generate(model, beginnings, settings)) texts.push_back(sample.text);
  return texts;
}

TEST(GraphedDecoder, DrawsWhatIsDrawnOnTheCpu) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(true), 16);
  for (const SamplingSettings& sampling : std::vector<SamplingSettings>{
           {.temperature = 0, .repetition_penalty = 1.3},
           {.temperature = 1},
           {.temperature = 1.3, .top_k = 12, .top_p = 0.9, .min_p = 0.02, .repetition_penalty = 1.1}}) {
    const GenerationSettings settings = settings_with(sampling);
    const auto on_the_cpu = texts_of(model, prompts, settings);
    const oracle::EmulatedGpu gpu;
    EXPECT_EQ(texts_of(model, prompts, settings), on_the_cpu) << "temperature " << sampling.temperature;
  }
}

TEST(GraphedDecoder, NeverDrawsATokenBeyondTheVocabulary) {
  LoadedModel model = make_loaded_model(make_byte_tokenizer(false), 16);
  model.tokenizer = make_char_tokenizer(false);
  const GenerationSettings settings = settings_with({.temperature = 3});
  const oracle::EmulatedGpu gpu;
  for (const Sample& sample : generate(model, {&prompts[0], 1}, settings)) EXPECT_EQ(sample.tokens, 12u);
}

// The library, counting the graphs that are queued.
std::int64_t queued = 0;
std::function<void()> counted(int, const std::function<void()>& work) {
  return [work] {
    ++queued;
    work();
  };
}

TEST(GraphedDecoder, IsOneStepAheadAndTakesNoneTwice) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), 16);
  CudaLibrary library = oracle::emulated_library(true);
  library.record = counted;
  emulate_cuda_library(&library);
  GenerationSettings settings = settings_with({.temperature = 1});
  settings.count = 1;
  settings.max_tokens = 10;
  queued = 0;
  texts_of(model, {&prompts[0], 1}, settings);
  emulate_cuda_library(nullptr);
  EXPECT_EQ(queued, 10);  // the first of eleven steps ran without being recorded
}

TEST(GraphedDecoder, LogitsThatAreNoNumbersEndIt) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), 16);
  model.arena->weight("ln_f.weight").value.select(0, 0).fill_(std::numeric_limits<float>::quiet_NaN());
  const oracle::EmulatedGpu gpu;
  const auto error = error_of([&] { texts_of(model, {&prompts[0], 1}, settings_with({.temperature = 1})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::input);
  EXPECT_NE(error->message().find("not a number"), std::string::npos) << error->message();
}

}  // namespace
}  // namespace inkling
