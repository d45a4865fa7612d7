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

// The settings that decide the tokens of this corpus, and no others: changing another makes nothing out of date.
std::map<std::string, std::string> deciding_settings(const DataConfig& config, const Corpus& corpus);

// The folder that data.dir names; for auto data/<name of the first source>-<tokenizer>-<hash of the settings>.
std::filesystem::path choose_folder(const DataConfig& config, const std::map<std::string, std::string>& settings);

struct Reuse {
  std::optional<Dataset> dataset;  // there if it is up to date
  std::string reason;              // else why not; empty if there was no data set at all
};

// Looks at `folder` and the sources. A source whose size, time or inode differ counts as unchanged if its hash is the
// same, and its new size, time and inode are then recorded. With `verify` every hash is computed anew.
Reuse try_reuse(const std::filesystem::path& folder, const Corpus& corpus,
                const std::map<std::string, std::string>& settings, bool verify);

}  // namespace inkling
