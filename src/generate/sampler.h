// From the logits of the next token to one token: a pure function, so that a sample can be replayed.
#pragma once

#include <cstdint>
#include <span>

#include "formats/token_file.h"
#include "kernels/kernel_settings.h"

namespace inkling {

// Throws Error input, naming the setting, for a value out of its range (a negative temperature, top_p = 0 …).
void check_settings(const SamplingSettings& settings);

// Chooses token i with its probability under `settings`, where `unit` is uniform in [0, 1). Computed in double.
//
// The steps, always in this order:
//   1. repetition penalty r (Keskar et al. 2019): the logit of every token in `context` is divided by r if positive,
//      multiplied by r if negative, once however often the token occurs
//   2. temperature t: logits / t. 0 ends here: the largest logit wins, among equals the lowest id
//   3. top-k: the k largest stay, among equals the lowest ids; from here on probabilities are those of what stays
//   4. top-p (Holtzman et al. 2020): sorted by falling probability, the shortest beginning that sums up to p stays
//   5. min-p (Nguyen et al. 2024): what is below min_p times the largest probability goes; the largest always stays
//   6. of the tokens that are left, in the order of their ids, the first whose summed probability exceeds `unit`
//
// logits: [V], V > 0. Throws what refuse_broken_answer() throws if one is NaN or +infinity.
Token sample_token(std::span<const float> logits, std::span<const Token> context, const SamplingSettings& settings,
                   double unit);

}  // namespace inkling
