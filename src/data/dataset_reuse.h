// Whether a prepared data folder still says what its sources and settings say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "data/dataset_manifest.h"
#include "data/source_corpus.h"

namespace inkling {

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

}  // namespace inkling
