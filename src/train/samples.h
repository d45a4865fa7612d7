// What a model writes while it is trained.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "generate/generator.h"

namespace inkling {

struct DrawnSample {
  std::string prompt, text;  // and what follows it
};

// Returns the prompts of sampling.prompts, or the beginning of a document.
std::vector<std::string> sampling_prompts(const SamplingConfig& sampling);

// Throws Error input where the run is to sample and has no tokenizer, or a prompt that it cannot encode.
void check_sampling(const SamplingConfig& sampling, const Tokenizer* tokenizer);

// Returns a sample for each prompt; throws Stopped (base/stop_signals.h) behind a token, once a stop was requested.
// Changes nothing that training reads. Each sample is what inkling-sample writes from a checkpoint of this step with
// these settings.
std::vector<DrawnSample> draw_samples(const SamplingConfig& sampling, const Writer& writer);

}  // namespace inkling
