// What the files beside a tokenizer made elsewhere say of its special tokens, and of what else would change the tokens
// of a text: tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json. Every function throws
// Error input naming file and field where one is damaged.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bpe/bpe_settings.h"
#include "bpe/vocabulary.h"
#include "text/sentencepiece_file.h"

namespace inkling {

// `special` lists the tokens that stand for no text in these functions; `otherwise` is a name that counts where no file
// has one.

// The token that eos_token names, or the first of eos_token_id in config.json that is special; none if there is none.
std::optional<Token> read_separator(const std::filesystem::path& folder, std::span<const AddedToken> special,
                                    const std::string& otherwise);

// What stands in front of a prompt: `bos`, the token that bos_token names, if add_bos_token says so. Throws Error input
// for add_eos_token, since a text that has ended cannot go on.
struct FirstToken {
  std::optional<bool> wanted;  // none: no file says
  std::optional<Token> bos;
};
FirstToken read_first_token(const std::filesystem::path& folder, std::span<const AddedToken> special,
                            const std::string& otherwise);

// The tokens of added_tokens_decoder and added_tokens.json that come behind the pieces of tokenizer.model, ascending.
// Throws Error input for one that would change the tokens of a text: one that is not special, or a piece under another
// name.
std::vector<AddedToken> read_added_tokens(const std::filesystem::path& folder, std::span<const Piece> pieces);

// Reads byte-level BPE as read_bpe() does, with the special tokens that tokenizer_config.json adds to it. Throws Error
// input naming the field by which transformers would give a text other tokens: add_prefix_space, an added token that is
// not special, a special token that is a token of text, and, where vocab.json and merges.txt are read, which name no
// expression, a tokenizer_class or, without `pattern`, a model_type whose expression need not be GPT-2's.
BpeVocabulary read_configured_bpe(const std::filesystem::path& path, std::optional<Pattern> pattern = {});

// Throws Error input naming the field of tokenizer_config.json by which a text would get other tokens than the model of
// the folder gives it: a special token that is a piece of text, or pieces drawn at random.
void refuse_other_tokens(const std::filesystem::path& folder, std::span<const Piece> pieces);

// What tokenizer_config.json says of the space in front of a document, if anything.
std::optional<bool> read_prefix_space(const std::filesystem::path& folder);

}  // namespace inkling
