// The work behind prepare_dataset() for text and grammars: vocabulary, tokens, shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/tokenizer_settings.h"
#include "data/dataset_manifest.h"
#include "data/source_corpus.h"
#include "text/tokenizer.h"

namespace inkling {

// The vocabulary that `config` asks for, made from the corpus: char uses all of it, sentencepiece and bpe the part for
// training, byte and a bpe that exists nothing. Throws Error input (file:line) for text that is not UTF-8, where the
// kind needs that.
std::unique_ptr<Tokenizer> build_tokenizer(const TokenizerConfig& config, const Corpus& corpus);

// Reads all of the corpus as that does, and makes nothing. Warns as encode_corpus() does. Throws Error input
// (file:line) for text that is not UTF-8, and where there is none.
void check_text(const Corpus& corpus);

struct EncodingOptions {
  std::filesystem::path folder;  // for the shards; empty: they are only counted
  std::uint64_t max_shard_tokens;
  std::size_t threads;  // the tokens are the same whatever it is
};

// Encodes the whole corpus. The manifest comes back without settings. Warns of names of special tokens that stand in
// the text, and of halves of surrogate pairs. Throws Error input (file:line) for text that the tokenizer cannot encode.
Manifest encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer, const EncodingOptions& options);

}  // namespace inkling
