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
  std::size_t threads = 0;           // that encode; 0: as `auto` (base/thread_choice.h). The tokens are the same
  const Tokenizer* named = nullptr;  // what data.tokenizer.from names, where it is open already
  // It is called with Dataset::hash before an older data set is replaced, and may refuse the new one with an Error. A
  // dry run that would have to train a vocabulary first does not call it.
  std::function<void(const std::string& hash)> check_hash = [](const std::string&) {};
};

// One split of a prepared data set.
struct SplitSummary {
  std::uint64_t tokens = 0;     // separators included
  std::uint64_t bytes = 0;      // of text, separators not included; 0 for ready token files, which do not say
  std::uint64_t documents = 0;  // 0 for ready token files
  std::string ends_at;          // "file:line" of its last text, for messages
  std::string hash;             // of its tokens
  std::vector<std::filesystem::path> shards;
  TokenLayout layout = TokenLayout::with_header;  // of all of them
};

// A prepared data folder: dataset.json, tokenizer, train-*.bin, validation-*.bin (and validation-bound.json). For ready
// token files it holds only dataset.json, and the shards stay where they are.
struct Dataset {
  std::filesystem::path folder;
  std::unique_ptr<Tokenizer> tokenizer;  // null for ready token files, which come with an explicit vocab_size
  std::uint64_t vocab_size = 0;
  SplitSummary train, validation;
  std::uint64_t bytes_to_write = 0;  // about: what a dry run has left undone
  std::string hash;  // of all tokens and the tokenizer: equal hashes train alike, and another one is refused on resume
  std::optional<std::filesystem::path> bound_file;  // grammar corpora only: see data/validation_bound.h
};

// Makes the token files if they are missing or out of date (saying why on stderr), reuses them otherwise.
//
// A document is a text file, a line of .jsonl or a story of a grammar. Where there are several, each is followed by the
// tokenizer's separator; a single text has none. data/source_corpus.h says where training ends and validation begins.
// The folder is data.dir, or data/<name>-<tokenizer>-<hash of the settings> for auto. It appears complete or not at
// all; a second process that prepares the same waits and reuses.
//
// With dry_run nothing is written: a data set that does not exist yet comes back without shards, and for sentencepiece
// (which would have to be trained first) without tokenizer and hash and with 0 tokens.
//
// Warns where the disk has too little room for what it is going to write, as far as sizes of texts tell.
//
// Throws Error input for a bad source (with file and line) or a data.dir that holds other files, and Error environment
// for a disk that is full or not writable. A stop signal meanwhile (base/stop_signals.h) throws Stopped, when what was
// made so far has been removed; where nothing is made it ends the program at once.
Dataset prepare_dataset(const DataConfig& config, const PrepareOptions& options);

// Returns which disk has too little room for so many bytes of token files in `folder`, with both numbers and what
// helps;
// "" if it has.
std::string describe_lack_of_room(const std::filesystem::path& folder, std::uint64_t bytes);

// Opens a folder that prepare_dataset() made, without looking at the sources. The sizes of its files are compared with
// the record, and so are their contents if their time or inode has changed. Throws Error input if it is not such a
// folder or is damaged.
Dataset open_dataset(const std::filesystem::path& folder);

}  // namespace inkling
