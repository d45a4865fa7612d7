// The hidden names under which files and folders grow until they are whole. For the files of base/ that write.
#pragma once

#include <filesystem>

namespace inkling {

// The folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

// A name beside `path` that no other process uses: temporary_name("runs/a.bin", 0) is runs/.a.bin.tmp-PID-0.
std::filesystem::path temporary_name(const std::filesystem::path& path, int attempt);

// Marks an open temporary file or folder as being written, until `descriptor` is closed or the process ends.
void lock_temporary(int descriptor);

// Removes what writers of `path` left behind that were killed: unlocked and untouched for a minute.
void remove_abandoned(const std::filesystem::path& path);

}  // namespace inkling
