// Sentencepiece models that inkling has not trained: Llama 2's and its like.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpe/vocabulary.h"
#include "formats/token_file.h"
#include "text/sentencepiece_library.h"
#include "text/tokenizer.h"

namespace inkling {

// What a model's folder says and tokenizer.model does not.
struct SentencepieceRules {
  bool prefix_space = false;                              // in front of every document
  std::optional<Token> separator = {}, first_token = {};  // as Tokenizer has them
  std::vector<AddedToken> added = {};                     // tokens behind the model's own, ascending
};

// The tokens that stand for no text: the model's control pieces, and the added tokens.
std::vector<AddedToken> special_tokens(const SentencepieceModel& model, const std::vector<AddedToken>& added);

// Makes the model of FOLDER/tokenizer.model, whose bytes are `serialized`. Throws Error input naming the file and the
// field for a model that inkling does not compute.
std::unique_ptr<SentencepieceModel> make_sentencepiece_model(const std::filesystem::path& folder,
                                                             std::string serialized);

// A document's tokens are those that the library gives for all of it at once, with the prefix in front, but for what
// docs/formats.md says of U+2581 and of long documents by unigram; the name of a special token in it is ordinary text.
// Throws Error input if the rules name tokens that are none.
std::unique_ptr<Tokenizer> make_foreign_sentencepiece(std::unique_ptr<SentencepieceModel> model,
                                                      SentencepieceRules rules);

}  // namespace inkling
