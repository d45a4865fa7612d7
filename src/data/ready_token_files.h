// Ready token files, made by another program: they are read to the end once, then used where they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset_manifest.h"
#include "data/source_corpus.h"

namespace inkling {

// Reads all of them. Throws Error input for a token that is not below vocab_size. The manifest comes back without
// settings.
Manifest check_token_files(const Corpus& corpus, std::uint64_t vocab_size);

// The hash of all tokens of these shards, as SplitSummary::hash has it for shards that we wrote.
std::string hash_tokens(const std::vector<std::filesystem::path>& shards, TokenLayout layout);

}  // namespace inkling
