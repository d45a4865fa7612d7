// The tokenizer of kind bpe.
#pragma once

#include <memory>
#include <optional>

#include "text/bpe_vocabulary.h"
#include "text/tokenizer.h"

namespace inkling {

// From a vocabulary made elsewhere: prompts begin with its first_token, if it has one. Throws Error input where it
// cannot encode every text.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeVocabulary vocabulary, std::optional<Token> separator);

}  // namespace inkling
