// From `data:` settings to token files on disk, made once and reused while their sources have not changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
  bool verify = false;          // compare contents even where size, time and inode of the sources agree
  bool dry_run = false;         // check that everything could be read, write nothing
  std::uint64_t max_shard_tokens = max_tokens_per_shard;
  // Called with Dataset::hash before an older data set is replaced, and may refuse it with an Error. Not called by a
  // dry run that would have to train a vocabulary first.
  std::function<void(const std::string& hash)> check_hash = [](const std::string&) {};
};

// One split of a prepared data set.
struct SplitSummary {
  std::uint64_t tokens = 0;     // separators included
  std::uint64_t bytes = 0;      // of text, separators not included; 0 for ready token files: nobody knows
  std::uint64_t documents = 0;  // 0 for ready token files
  std::string ends_at;          // "file:line" of its last text, for messages
  std::string hash;             // of its tokens
  std::vector<std::filesystem::path> shards;
};

// A prepared data folder: dataset.json, tokenizer, train-*.bin, validation-*.bin (and validation-bound.json).
// For ready token files it holds dataset.json alone, and the shards are where they were.
struct Dataset {
  std::filesystem::path folder;
  std::unique_ptr<Tokenizer> tokenizer;  // null for ready token files: they come with an explicit vocab_size
  std::uint64_t vocab_size = 0;
  SplitSummary train, validation;
  std::string hash;  // of all tokens and the tokenizer: equal hashes train alike, a resume on another is refused
  std::optional<std::filesystem::path> bound_file;  // grammar corpora only: see data/validation_bound.h
};

// Makes the token files if they are missing or out of date (saying why on stderr), reuses them otherwise.
//
// A document is a text file, a line of .jsonl or a story of a grammar. Where there are several, each is followed by the
// tokenizer's separator; a single text has none. data/source_plan.h says where training ends and validation begins.
// The folder is data.dir, or data/<name>-<tokenizer>-<hash of the settings> for auto. It appears complete or not at
// all; a second process that prepares the same waits and reuses.
//
// With dry_run nothing is written: a data set that is not there yet comes back without shards, and for
// sentencepiece (which would have to be trained first) without tokenizer and hash and with 0 tokens.
//
// Error input for a bad source (with file and line) or a data.dir that holds other files, Error environment for a disk
// that is full or not writable.
Dataset prepare_dataset(const DataConfig& config, const PrepareOptions& options);

// Opens a folder that prepare_dataset() made, without looking at the sources. Its files' sizes are compared with what
// was recorded, and their contents where time or inode are others. Error input if it is none or damaged.
Dataset open_dataset(const std::filesystem::path& folder);

}  // namespace inkling
