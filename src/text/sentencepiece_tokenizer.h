// A tokenizer from a sentencepiece model in memory.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace inkling {

// Throws Error input if it is not a model, or is one that cannot spell every text.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string serialized_model);

}  // namespace inkling
