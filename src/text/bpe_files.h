// The files that byte-level BPE tokenizers are kept in, elsewhere and here.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace inkling {

// Reads a tokenizer from
//   a folder that holds tokenizer.json, or vocab.json and merges.txt, or encoder.json and vocab.bpe;
//   any of these files, its fellow beside it;
//   tiktoken's file of ranks, a line "BASE64 RANK" for each token, which names no pattern: `pattern` has to.
// The pattern of vocab.json and merges.txt is GPT-2's unless `pattern` says otherwise. tokenizer.json names its own,
// and another `pattern` is an Error. Throws Error input naming the file and the field or line where one is missing,
// damaged or not what inkling computes: a normalizer, a prefix space, tokens of words or characters instead of bytes.
BpeVocabulary read_bpe(const std::filesystem::path& path, std::optional<Pattern> pattern = {});

// The files that read_bpe(path) reads. Throws Error input if a folder holds none.
std::vector<std::filesystem::path> bpe_files(const std::filesystem::path& path);

}  // namespace inkling
