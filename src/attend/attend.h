// Looks at attention: what every head of a model makes of one text, in the reference model's own numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attend/attended_text.h"
#include "checkpoint/model_weights.h"
#include "text/prompts.h"

namespace inkling {

struct AttendSettings {
  std::optional<HeadChoice> shown = {};  // is in full, however much that is; the model must have it (read_head())
  NamesInPrompt names = NamesInPrompt::text;
  bool only_shown = false;  // the other heads are left empty, weights too
  // All heads are in full where what they hold beside their weights is at most this, in bytes. The page has it all in
  // base64, and should open at once.
  std::uint64_t most_in_full = 1 << 20;
  std::size_t likeliest = 10;  // how many tokens `next` has, at most
};

// Returns the tokens of a prompt as encode_prompt() gives them. Throws Error input for a prompt that attend() does not
// take: one that is empty, has more tokens than the model's block_size, or so many that the heads asked for would take
// more than 1 GiB.
std::vector<Token> attended_tokens(const LoadedModel& model, const std::string& prompt, const AttendSettings& settings);

// Computes in the dtype of the model's weights: load it in float32. What it takes beside its result is the memory of
// one layer, and of one head's scores. Throws what attended_tokens() throws, Error input for a model without a
// tokenizer, and Error diverged for one whose logits are not finite.
AttendedText attend(const LoadedModel& model, const std::string& prompt, const AttendSettings& settings = {});

// Returns the bytes of a token as UTF-8, with bytes that are no character alone as \xNN. The bytes are empty for a
// token that stands for no text, as the one between documents.
std::string shown_text(std::string_view bytes);

}  // namespace inkling
