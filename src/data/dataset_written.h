// The files that inkling-prepare has written into a data folder: they are recorded in dataset.json, compared with the
// record when they are read, and the only files that it removes again.
#pragma once

#include <filesystem>
#include <vector>

#include "data/dataset_manifest.h"
#include "data/source.h"

namespace inkling {

// Records all files in `folder`, which this process has just filled.
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

}  // namespace inkling
