// The work behind prepare_dataset(): making a data set of texts and grammars, telling whether the one that is there
// still fits, keeping the record of the files written, and checking token files that other programs made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/tokenizer_settings.h"
#include "data/dataset_manifest.h"
#include "data/source.h"
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

// Only the settings that decide the tokens of this corpus: changing another one makes nothing out of date.
std::map<std::string, std::string> deciding_settings(const DataConfig& config, const Corpus& corpus,
                                                     const Tokenizer* named = nullptr);

// The folder that data.dir names; for auto data/<name of the first source>-<tokenizer>-<hash of the settings>.
std::filesystem::path choose_folder(const DataConfig& config, const std::map<std::string, std::string>& settings);

struct Reuse {
  std::optional<Dataset> dataset;  // there if it is up to date
  std::string reason;              // otherwise why not; empty if there is no data set at all
};

struct ReuseOptions {
  bool verify = false;  // compute every hash again
  bool record = true;   // record the new time and inode of a file that has the same contents
};

// Looks at `folder` and the sources. A source or a written file whose time or inode differ counts as unchanged if its
// hash is the same.
Reuse try_reuse(const std::filesystem::path& folder, const Corpus& corpus,
                const std::map<std::string, std::string>& settings, const ReuseOptions& options);

// The data set of a manifest whose written files have been checked. Throws Error input if something does not fit
// together.
Dataset open_recorded(const std::filesystem::path& folder, const Manifest& manifest);

// Writes the manifest in place of the folder's dataset.json if that is still the one that was read. Throws nothing,
// because a folder that cannot be written can still be read.
void record_again(const std::filesystem::path& folder, const Manifest& manifest, const SourceFile& as_read);

// Records all files in `folder`, which this process has just filled. What is recorded in dataset.json is compared with
// the record when it is read, and is all that inkling-prepare ever removes again.
std::vector<RecordedFile> record_written(const std::filesystem::path& folder);

// Compares the written files with the record: sizes always, contents if time or inode have changed, or with `verify`.
// Their new times and inodes go into the manifest (and so does the list that version 1 did not have, if the folder can
// be written); returns whether anything did. Throws Error input naming the file that is missing or has changed.
bool check_written(const std::filesystem::path& folder, Manifest& manifest, bool verify);

// Throws Error input, naming the file and what to do, if `folder` holds anything but an older data set as
// inkling-prepare wrote it, or if a file in it is one of `sources`: the folder is about to be replaced.
void refuse_foreign_files(const std::filesystem::path& folder, const std::vector<SourceFile>& sources);

// Removes a data folder that has been replaced or abandoned and has a hidden name, if it holds nothing but what its
// dataset.json says was written. Otherwise it stays, and a warning says why. A folder without dataset.json was never
// finished, and all of it is removed.
void remove_written(const std::filesystem::path& folder);

// Reads ready token files, made by another program, to the end; from then on they are used where they are. Throws Error
// input for a token that is not below vocab_size. The manifest comes back without settings.
Manifest check_token_files(const Corpus& corpus, std::uint64_t vocab_size);

// The hash of all tokens of these shards, as SplitSummary::hash has it for shards that we wrote.
std::string hash_tokens(const std::vector<std::filesystem::path>& shards, TokenLayout layout);

// A lock for making a data folder, while other processes may want to make the same one. It is held by the one process
// that prepares `folder`: it is an flock on a hidden file in the same place, which is removed with the lock. The
// constructor waits, and says so, while another process holds it. Where the file system has no locks it says so and
// goes on without one: temporary names are unique, so at worst the work is done twice. It throws Error environment for
// any other reason.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return held_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool held_ = false;
};

// Removes what interrupted processes have left where they made `folder`. Only the holder of its lock may call this.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace inkling
