// The one refusal for everybody who reads what a model answers.
#pragma once

#include <string_view>

namespace inkling {

// Throws Error diverged: logits, or log-probabilities, are NaN or infinite. A folder whose weights are not finite is
// not opened at all, so these weights are finite and too large. `to` is what the model was asked, where that has a
// name: "questions.jsonl:3".
[[noreturn]] void refuse_broken_answer(std::string_view to = {});

}  // namespace inkling
