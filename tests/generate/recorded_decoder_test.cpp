// Generating on a GPU, a graph for each token, against generating on the CPU.
#include "generate/recorded_decoder.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/generator.h"
#include "tests/cuda_first.h"
#include "tests/generate/loaded_model.h"
#include "tests/needs_gpu.h"
#include "tests/oracle/emulated_library.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// Texts that end at different steps, outgrow their blocks, and make room for others.
const std::vector<std::string> prompts = {"a", "a longer prompt than any block of this model holds", "", "ab c"};

GenerationSettings settings_with(const SamplingSettings& sampling) {
  GenerationSettings settings;
  settings.count = 5;
  settings.max_tokens = 12;
  settings.stops = {"e", "o", "n"};
  settings.sampling = sampling;
  return settings;
}

std::vector<std::string> texts_of(const LoadedModel& model, std::span<const std::string> beginnings,
                                  const GenerationSettings& settings) {
  std::vector<std::string> texts;
  for (const Sample& sample : generate(model, beginnings, settings)) texts.push_back(sample.text);
  return texts;
}

// On a GPU, or on what stands in for one (tests/oracle/emulated_library.h).
class RecordedDecoderTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam()) == "cpu") {
      gpu_.emplace();
      return;
    }
    INKLING_NEEDS_GPU(why_no_cuda());
    runtime_ = resolve_runtime(
        {.device = DeviceChoice{.cuda = true}, .dtype = Dtype::float32, .kernels = Kernels::fused}, Use::inference);
  }
  void TearDown() override { gpu_.reset(); }

  LoadedModel model_with(std::unique_ptr<Tokenizer> tokenizer) const {
    return make_loaded_model(std::move(tokenizer), 16, runtime_);
  }

  Runtime runtime_ = test_runtime();
  std::optional<oracle::OtherBackend> gpu_;
};

TEST_P(RecordedDecoderTest, DrawsWhatIsDrawnOnTheCpu) {
  for (const SamplingSettings& sampling : std::vector<SamplingSettings>{
           {.temperature = 1},
           {.temperature = 1.3, .top_k = 12, .top_p = 0.9, .min_p = 0.02, .repetition_penalty = 1.6}}) {
    const GenerationSettings settings = settings_with(sampling);
    const auto on_the_gpu = texts_of(model_with(make_char_tokenizer(true)), prompts, settings);
    const bool emulated = gpu_.has_value();
    gpu_.reset();
    EXPECT_EQ(on_the_gpu, texts_of(make_loaded_model(make_char_tokenizer(true), 16), prompts, settings))
        << "temperature " << sampling.temperature;
    if (emulated) gpu_.emplace();
  }
}

TEST_P(RecordedDecoderTest, DrawsWhatIsDrawnOnTheCpuWithEverySwitchAndWithoutEnd) {
  GptShape endless = test::small_shape;
  endless.position = Position::rope;
  endless.patterns = {{5, 1}, {3, 4}};
  GenerationSettings settings = settings_with({.temperature = 1, .repetition_penalty = 1.6});
  settings.max_tokens = 40;  // more than two blocks
  settings.stops = {"e"};
  GptShape composed = endless;
  composed.position = Position::alibi;
  for (const GptShape& shape : {test::modern_shape, endless, composed}) {
    const auto on_the_gpu =
        texts_of(make_loaded_model(make_char_tokenizer(true), 16, runtime_, shape), prompts, settings);
    const bool emulated = gpu_.has_value();
    gpu_.reset();
    EXPECT_EQ(on_the_gpu,
              texts_of(make_loaded_model(make_char_tokenizer(true), 16, test_runtime(), shape), prompts, settings));
    if (emulated) gpu_.emplace();
  }
}

TEST_P(RecordedDecoderTest, NeverDrawsATokenBeyondTheVocabulary) {
  LoadedModel model = model_with(make_byte_tokenizer(false));
  model.tokenizer = make_char_tokenizer(false);
  GenerationSettings settings = settings_with({.temperature = 3});
  settings.stops.clear();
  for (const Sample& sample : generate(model, {&prompts[0], 1}, settings)) EXPECT_EQ(sample.tokens, 12u);
}

TEST_P(RecordedDecoderTest, LogitsThatAreNoNumbersEndIt) {
  const LoadedModel model = model_with(make_char_tokenizer(false));
  model.arena->weight("ln_f.weight").value.select(0, 0).fill_(std::numeric_limits<float>::quiet_NaN());
  const auto error = error_of([&] { texts_of(model, {&prompts[0], 1}, settings_with({.temperature = 1})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::diverged);
  EXPECT_NE(error->message().find("not a number"), std::string::npos) << error->message();
}

INSTANTIATE_TEST_SUITE_P(Emulated, RecordedDecoderTest, testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cuda, RecordedDecoderTest, testing::Values("cuda"));

// The library, counting the graphs that are queued.
std::int64_t queued = 0;
std::function<void()> counted(int, const std::function<void()>& work) {
  return [work] {
    ++queued;
    work();
  };
}

TEST(RecordedDecoder, IsOneStepAheadAndTakesNoneTwice) {
  Backend backend = oracle::emulated_backend();
  backend.record = counted;
  const oracle::OtherBackend gpu(backend);
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), 16);
  GenerationSettings settings = settings_with({.temperature = 1});
  settings.count = 1;
  settings.max_tokens = 10;
  settings.stops.clear();
  queued = 0;
  texts_of(model, {&prompts[0], 1}, settings);
  EXPECT_EQ(queued, 10);  // the first of eleven steps ran without being recorded
}

}  // namespace
}  // namespace inkling
