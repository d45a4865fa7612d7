// Tokenizers of model folders that inkling has not written.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/token_file.h"
#include "text/bpe_vocabulary.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer.h"

namespace inkling {

// Whether the folder holds tokenizer.json, tokenizer.model, or vocab.json with merges.txt, or encoder.json with
// vocab.bpe.
bool holds_foreign_tokenizer(const std::filesystem::path& folder);

// Opens it: a BPE (text/bpe_files.h), or the sentencepiece model of a folder whose tokenizer.json, if it has one, is no
// BPE. Added tokens that the model of the folder lacks are left out, which is logged. The separator is the eos_token
// that tokenizer_config.json or special_tokens_map.json names, or eos_token_id of config.json. first_token() is
// what the post_processor of tokenizer.json puts in front of a text, if it has one; else bos_token if add_bos_token is
// true, or for sentencepiece unless it is false, as LlamaTokenizer has it. Throws Error input naming file and field for
// a tokenizer that inkling does not compute.
std::unique_ptr<Tokenizer> open_foreign_tokenizer(const std::filesystem::path& folder);

// Sentencepiece models that inkling has not trained: Llama 2's and its like.

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
