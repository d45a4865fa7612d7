#include "checkpoint/generation_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/strings.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

class GenerationConfigFile : public testing::Test {
 protected:
  GenerationConfigFile() { folder_.write("config.json", R"({"eos_token_id": 7})"); }

  GenerationConfig read(const std::string& json) {
    folder_.write("generation_config.json", json);
    return read_generation_config(folder_.path(), 100);
  }
  std::string refusal(const std::string& json) {
    return input_error([&] { read(json); });
  }

  TemporaryFolder folder_;
};

TEST_F(GenerationConfigFile, WhatInklingWritesIsWhatInklingSampleDoes) {
  const GenerationConfig config = read(print_generation_config({.first = 3, .last = 5}));
  EXPECT_EQ(config.ends, std::vector<Token>{5});
  EXPECT_EQ(config.temperature.value, 0.8);
  EXPECT_EQ(config.top_k.value, 0u) << "transformers' own default is 50";
  EXPECT_EQ(config.refused, "");
  EXPECT_EQ(read(print_generation_config(TextEnds{})).ends, std::vector<Token>{7}) << "config.json says it";
}

TEST_F(GenerationConfigFile, TextEndsAtAnyOfSeveralTokens) {
  EXPECT_EQ(read(R"({"eos_token_id": [1, 99, 100, 5]})").ends, (std::vector<Token>{1, 99, 5})) << "100 is never drawn";
  fs::remove(folder_ / "generation_config.json");
  EXPECT_EQ(read_generation_config(folder_.path(), 100).ends, std::vector<Token>{7});
  folder_.write("config.json", R"({"eos_token_id": null})");
  EXPECT_TRUE(read_generation_config(folder_.path(), 100).ends.empty());
}

// What a run that starts from a folder leaves of its settings in its checkpoints.
TEST_F(GenerationConfigFile, IsKeptButForWhatTrainingChanges) {
  folder_.write("config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_positions": 4,
                                   "vocab_size": 10, "eos_token_id": [7, 9], "bos_token_id": 3})");
  const std::string before = R"({"temperature": 0.6, "eos_token_id": [9, 7], "pad_token_id": 2, "max_length": 5})";
  folder_.write("generation_config.json", before);
  const KeptConfig kept = read_kept_config(folder_.path());
  const auto now = [&](const TextEnds& ends) { return nlohmann::json::parse(print_generation_config(ends, kept)); };
  EXPECT_EQ(now({.first = {}, .last = 7}), nlohmann::json::parse(before)) << "a list stays a list";
  EXPECT_EQ(now({.first = {}, .last = {}}), nlohmann::json::parse(before)) << "training knows of no end";
  EXPECT_EQ(now({.first = {}, .last = 5})["eos_token_id"], 5) << "training ends texts by another token";
  EXPECT_EQ(now({.first = {}, .last = 5})["temperature"], 0.6);
  const auto config = [&](const TextEnds& ends) {
    return nlohmann::json::parse(print_model_config(read_model_config(folder_.path()), 0, ends, kept));
  };
  EXPECT_EQ(config({.first = {}, .last = 9})["eos_token_id"], nlohmann::json({7, 9}));
  EXPECT_EQ(config({.first = {}, .last = 9})["bos_token_id"], 3);
  EXPECT_EQ(config({.first = 4, .last = 5})["eos_token_id"], 5);
  EXPECT_EQ(config({.first = 4, .last = 5})["bos_token_id"], 4);
  folder_.write("generation_config.json", "no JSON");
  EXPECT_EQ(read_kept_config(folder_.path()).generation, "") << "which is said, and stops no run";
}

TEST_F(GenerationConfigFile, DefaultsOfSamplingAreRead) {
  const GenerationConfig config = read(
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1,
               "max_length": 4096, "transformers_version": "4.40.0", "num_beams": 1, "typical_p": 1.0})");
  EXPECT_EQ(config.temperature.or_else(1.0), 0.6);
  EXPECT_EQ(config.top_p.or_else(1.0), 0.9);
  EXPECT_EQ(config.top_k.or_else(1), 20u);
  EXPECT_EQ(config.min_p.or_else(1.0), 0.05);
  EXPECT_EQ(config.repetition_penalty.or_else(1.0), 1.1);
  EXPECT_EQ(read("{}").top_p.or_else(0.7), 0.7);
}

TEST_F(GenerationConfigFile, WithoutSamplingTakesTheLikeliestTokenWhateverElseItSays) {
  for (const char* temperature : {"0.6", "0", "-1", "\"hot\"", "null"}) {
    const auto config =
        read(str(R"({"do_sample": false, "typical_p": 0.9, "top_h": 0.4, "temperature": )", temperature, "}"));
    EXPECT_EQ(config.temperature.or_else(1.0), 0.0) << temperature;
    EXPECT_EQ(config.refused, "");
  }
}

// As transformers takes them, or takes them for nothing where it samples; -1 is what other programs write for no bound.
TEST_F(GenerationConfigFile, ValuesAreReadHoweverTheyAreWritten) {
  const auto top_k = [&](const std::string& value) { return read(str("{\"top_k\": ", value, "}")).top_k.or_else(7); };
  EXPECT_EQ(top_k("-1"), 0u);
  EXPECT_EQ(top_k("0"), 0u);
  EXPECT_EQ(top_k("50.0"), 50u);
  EXPECT_EQ(top_k("null"), 7u);
  const auto top_p = [&](const std::string& value) { return read(str("{\"top_p\": ", value, "}")).top_p.or_else(0.5); };
  EXPECT_EQ(top_p("1.5"), 1.0);
  EXPECT_EQ(top_p("1"), 1.0);
  EXPECT_GT(top_p("0"), 0.0) << "the likeliest token stays";
  EXPECT_LT(top_p("0"), 1e-300);
  EXPECT_EQ(read(R"({"temperature": 0})").temperature.or_else(1.0), 0.0);
  for (const char* nothing : {R"("suppress_tokens": [])", R"("begin_suppress_tokens": [])", R"("bad_words_ids": [])",
                              R"("sequence_bias": {})", R"("num_beams": null)", R"("num_beams": 1.0)",
                              R"("no_repeat_ngram_size": 0)", R"("min_new_tokens": 0)", R"("guidance_scale": 1)",
                              R"("typical_p": 1)", R"("penalty_alpha": 0.0)", R"("stop_strings": [])"}) {
    EXPECT_EQ(read(str("{", nothing, "}")).refused, "") << nothing;
  }
}

TEST_F(GenerationConfigFile, ABadValueIsAnErrorOfTheFileAndOnlyForWhoTakesIt) {
  for (const auto& [field, value] :
       {std::pair("temperature", "-1"), std::pair("temperature", "\"hot\""), std::pair("top_p", "-0.5"),
        std::pair("top_k", "-2"), std::pair("top_k", "2.5"), std::pair("min_p", "2"),
        std::pair("repetition_penalty", "0"), std::pair("repetition_penalty", "[1]")}) {
    const GenerationConfig config = read(str("{\"", field, "\": ", value, "}"));
    const std::string message = input_error([&] {
      config.temperature.or_else(1.0), config.top_p.or_else(1.0), config.min_p.or_else(1.0);
      config.repetition_penalty.or_else(1.0), config.top_k.or_else(1);
    });
    EXPECT_TRUE(contains(message, str("generation_config.json: ", field, " is ", value))) << message;
    EXPECT_FALSE(contains(message, "--")) << message;
  }
}

TEST_F(GenerationConfigFile, WhatInklingDoesNotDoIsNamed) {
  const auto refused = [&](const std::string& json) { return read(json).refused; };
  EXPECT_TRUE(contains(refused(R"({"num_beams": 4})"), "generation_config.json: num_beams is 4, and must be 1"));
  EXPECT_TRUE(contains(refused(R"({"no_repeat_ngram_size": 3})"), "no_repeat_ngram_size is 3, and must be 0"));
  EXPECT_TRUE(contains(refused(R"({"bad_words_ids": [[1]]})"), "bad_words_ids is [[1]], and must be null"));
  EXPECT_TRUE(contains(refusal(R"({"eos_token_id": "</s>"})"), "eos_token_id is \"</s>\", and must be a token"));
}

constexpr std::string_view whole_file = R"({
  "do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1,
  "bos_token_id": 1, "eos_token_id": [2, 99], "num_beams": 1, "bad_words_ids": null, "typical_p": 1.0})";

TEST_F(GenerationConfigFile, EveryCutIsRefusedWithTheFile) {
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string message = refusal(std::string(whole_file.substr(0, whole_file.size() * i / 200)));
    EXPECT_TRUE(contains(message, "generation_config.json: ")) << message;
  }
}

TEST_F(GenerationConfigFile, AFlippedBitIsRefusedOrReadAsAnotherFile) {
  int refused = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    std::string flipped(whole_file);
    const std::uint64_t bit = random_below(random_key(7, Purpose::sampling, 0), i, 8 * flipped.size());
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto error = error_of([&] {
      for (const Token end : read(flipped).ends) EXPECT_LT(end, 100u);
    });
    if (!error) continue;
    ++refused;
    EXPECT_EQ(error->kind(), ErrorKind::input);
    EXPECT_TRUE(contains(error->message(), "generation_config.json: ")) << error->message();
  }
  EXPECT_GT(refused, 100);
}

// Each with a value of every other type, and numbers that no field can be.
TEST_F(GenerationConfigFile, AValueOfTheWrongTypeIsNamed) {
  for (const char* field :
       {"temperature", "top_p", "min_p", "repetition_penalty", "top_k", "do_sample", "eos_token_id"}) {
    for (const char* value : {"\"a\"", "{}", "[[]]", "[\"a\"]"}) {
      const std::string message = input_error([&] {
        const GenerationConfig config = read(str("{\"", field, "\": ", value, "}"));
        config.temperature.or_else(1.0), config.top_p.or_else(1.0), config.min_p.or_else(1.0);
        config.repetition_penalty.or_else(1.0), config.top_k.or_else(1);
      });
      EXPECT_TRUE(contains(message, str("generation_config.json: ", field, " is "))) << message;
    }
  }
  EXPECT_TRUE(contains(refusal(R"({"eos_token_id": [-1]})"), "eos_token_id is [-1]"));
  EXPECT_TRUE(read(R"({"eos_token_id": 18446744073709551615})").ends.empty());
}

}  // namespace
}  // namespace inkling
