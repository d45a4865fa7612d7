// From `data:` settings to token files on disk, made once and reused while their sources have not changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "formats/token_file.h"
#include "text/tokenizer.h"

namespace inkling {

struct PrepareOptions {
  std::int64_t block_size = 0;  // refuse a split too short for one window of this many tokens + 1; 0: do not check
  bool verify = false;          // compare hashes even where size, time and inode of the sources agree
  bool dry_run = false;         // check that everything could be read, write nothing
};

// What dataset.json records about one split.
struct SplitSummary {
  std::uint64_t tokens = 0, bytes = 0, documents = 0;
  std::vector<std::filesystem::path> shards;
};

// A prepared data folder: tokenizer, train-*.bin, validation-*.bin, dataset.json.
struct Dataset {
  std::filesystem::path folder;
  std::unique_ptr<Tokenizer> tokenizer;  // null for ready token files: they come with an explicit vocab_size
  std::uint64_t vocab_size = 0;
  SplitSummary train, validation;
  std::string hash;                      // of the token files' content and the tokenizer: refuses a resume on other data
  // Grammar corpora only: the best possible loss on the validation split.
  std::optional<std::filesystem::path> bound_file;
};

// Makes the token files if they are missing or out of date (saying why on stderr), reuses them otherwise.
// Error input for a bad source (with file and line), Error environment for a full disk.
Dataset prepare_dataset(const DataConfig& config, const PrepareOptions& options);

// Opens a folder that prepare_dataset() made, without looking at the sources.
Dataset open_dataset(const std::filesystem::path& folder);

}  // namespace inkling
