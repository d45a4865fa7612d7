// The work behind prepare_dataset() for text and grammars: vocabulary, tokens, shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/config.h"
#include "data/dataset_manifest.h"
#include "data/source_corpus.h"
#include "text/tokenizer.h"

namespace inkling {

// The vocabulary that `config` asks for, made from the corpus: char uses all of it, sentencepiece the part for
// training, byte nothing. Throws Error input (file:line) for text that is not UTF-8, where the kind needs that.
std::unique_ptr<Tokenizer> build_tokenizer(const TokenizerConfig& config, const Corpus& corpus);

// Encodes the whole corpus. Writes shards of at most `max_shard_tokens` into `folder`; with an empty path it only
// counts. The manifest comes back without settings.
Manifest encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer, const std::filesystem::path& folder,
                       std::uint64_t max_shard_tokens);

}  // namespace inkling
