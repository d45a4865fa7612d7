// dataset.json: what a prepared data folder holds and what it was made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/source.h"

namespace inkling {

// A file as it was when it was read or written.
struct RecordedFile {
  std::string path;  // of a source: as it was opened, '?' for bytes that are not UTF-8; of a written file: its name
  FileStamp stamp;
  std::string hash;

  RecordedFile() = default;
  RecordedFile(const SourceFile& file, std::string content_hash);
};

struct Manifest {
  std::map<std::string, std::string> settings;  // those that decide the tokens, as "data.val_fraction": "0.1"
  std::vector<RecordedFile> sources;            // in the order they were read
  std::string tokenizer_hash;                   // empty for ready token files
  std::uint64_t vocab_size = 0;
  SplitSummary train, validation;
  bool has_bound = false;
  std::optional<std::vector<RecordedFile>> written;  // everything but dataset.json; version 1 did not record it

  std::string hash() const;  // Dataset::hash
};

inline constexpr std::string_view manifest_name = "dataset.json";
inline constexpr std::string_view bound_name = "validation-bound.json";

// It is written last, so that a folder with one is complete. manifest.written must be there. Shards inside `folder` are
// recorded by name.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// Throws Error input if the folder has none or it is damaged.
Manifest read_manifest(const std::filesystem::path& folder);

// What the manifest says of the data set in `folder`; its tokenizer and its bound have to be added.
Dataset dataset_of(const std::filesystem::path& folder, const Manifest& manifest);

// Whether the folder's dataset.json is ours, even if it is damaged.
bool is_dataset_folder(const std::filesystem::path& folder);

}  // namespace inkling
