// A tokenizer from a sentencepiece model in memory.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace inkling {

// Error input if it is no model, or one that cannot spell every text.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string serialized_model);

}  // namespace inkling
