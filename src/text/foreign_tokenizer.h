// Tokenizers of model folders that inkling has not written.
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer.h"

namespace inkling {

// Whether the folder holds tokenizer.json, tokenizer.model, or vocab.json with merges.txt, or encoder.json with
// vocab.bpe.
bool holds_foreign_tokenizer(const std::filesystem::path& folder);

// Opens it: byte-level BPE (bpe/files.h), or the sentencepiece model of a folder whose tokenizer.json, if it has one,
// is something else. The separator is the eos_token that tokenizer_config.json or special_tokens_map.json names, or
// eos_token_id of config.json. first_token() is bos_token if add_bos_token is true; where no file says that, it is what
// the post_processor of tokenizer.json puts in front of a text, and bos_token for sentencepiece, as LlamaTokenizer has
// it. Throws Error input naming file and field for a tokenizer that inkling does not compute.
std::unique_ptr<Tokenizer> open_foreign_tokenizer(const std::filesystem::path& folder);

}  // namespace inkling
