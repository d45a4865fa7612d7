// Generates texts from prompts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_weights.h"
#include "generate/sampler.h"
#include "text/prompts.h"

namespace inkling {

struct GenerationSettings {
  std::uint64_t count = 1;         // samples for each prompt
  std::uint64_t max_tokens = 500;  // of each sample, prompt not counted
  SamplingSettings sampling;
  std::vector<std::string> stops = {};  // a sample ends before the first of these, or at a special token of this name
  std::uint64_t seed = 1;
  std::vector<Token> ends = {};  // a sample ends at any of them, as at the tokenizer's separator
  NamesInPrompt names = NamesInPrompt::text;
  bool ignore_end = false;  // go on after the separator between documents, which then reads as a new line
  bool cache = true;        // false: encode the whole context for every token, to check the cache
};

// Throws Error input, naming the setting, for a value out of its range.
void check_settings(const GenerationSettings& settings);

enum class Finish {
  length,       // max_tokens made
  stop,         // a stop string appeared
  end,          // the model ended its document
  interrupted,  // the watcher wanted no more
};
std::string_view finish_name(Finish finish);  // "length", …

struct Sample {
  std::size_t prompt = 0;    // which of the prompts
  std::uint64_t number = 0;  // which of its samples, from 0
  std::string text;          // what was generated; whole UTF-8 characters, always
  std::uint64_t tokens = 0;  // how many were generated, an ending separator and a stop string's included
  Finish finish = Finish::length;
};

// Is called with every piece of text as it is made, and once (`finished`) at every sample's end. `sample` is what there
// is of it by then; `index` is prompt * count + number. It returns false to end all samples there.
using Watcher = std::function<bool(std::size_t index, const Sample& sample, std::string_view added, bool finished)>;

// A model that was loaded, or one that is being trained.
struct ModelWithTokenizer {
  const Model& model;
  const Runtime& runtime;
  const Tokenizer& tokenizer;
};

// Returns the samples in the order of their index. Sample n of a prompt is a function of (model, machine and its
// runtime settings, prompt, n, seed and the other settings); nothing else in the same call has any influence. The
// random number for the token at place i of a text (prompt included) is random_unit(random_key(seed, Purpose::sampling,
// n), i). Throws Error input as check_settings() and encode_prompt() do, and without a tokenizer.
std::vector<Sample> generate(const LoadedModel& model, std::span<const std::string> prompts,
                             const GenerationSettings& settings, const Watcher& watcher = {});
std::vector<Sample> generate(const ModelWithTokenizer& writer, std::span<const std::string> prompts,
                             const GenerationSettings& settings, const Watcher& watcher = {});

}  // namespace inkling
