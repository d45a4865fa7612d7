// The files that inkling-prepare has written into a data folder: recorded in dataset.json, compared with the record
// when they are read, and the only ones that it removes again.
#pragma once

#include <filesystem>
#include <vector>

#include "data/dataset_manifest.h"
#include "data/source.h"

namespace inkling {

// All files that stand in `folder`, which this process has just filled.
std::vector<RecordedFile> record_written(const std::filesystem::path& folder);

// Compares the written files with the record: sizes always, contents where time or inode are others, or with `verify`.
// Their new times and inodes go into the manifest (and so does a list that version 1 did not have, if the folder can be
// written); returns whether any did. Error input naming the file that is missing or another.
bool check_written(const std::filesystem::path& folder, Manifest& manifest, bool verify);

// Error input, naming the file and what to do, if `folder` holds anything but an older data set as inkling-prepare
// wrote it, or if a file in it is one of `sources`: what stands there is about to be replaced.
void refuse_foreign_files(const std::filesystem::path& folder, const std::vector<SourceFile>& sources);

// Removes a data folder that has been replaced or abandoned and stands under a hidden name, if it holds nothing but
// what its dataset.json says was written. Otherwise it stays, and a warning says why. Without dataset.json it was never
// finished, and all of it goes.
void remove_written(const std::filesystem::path& folder);

}  // namespace inkling
