// The hidden names under which files and folders grow until they are whole. For the files of base/ that write.
#pragma once

#include <filesystem>

namespace inkling {

// A name beside `path` that no other process uses: temporary_name("runs/a.bin", 0) is runs/.a.bin.tmp-PID-0.
std::filesystem::path temporary_name(const std::filesystem::path& path, int attempt);

// Marks an open temporary file or folder as being written, until `descriptor` is closed or the process ends.
void lock_temporary(int descriptor);

// Removes what writers of `path` left behind that were killed: unlocked and untouched for a minute. `remove` takes away
// one file or folder and throws nothing.
void remove_everything(const std::filesystem::path& path);
void remove_abandoned(const std::filesystem::path& path,
                      void (*remove)(const std::filesystem::path&) = remove_everything);

// Where the folder `path` stands aside while another takes its place: replaced_name("runs/a") is runs/.a.replaced. What
// stands there is whole; if `path` is missing, it is the only version.
std::filesystem::path replaced_name(const std::filesystem::path& path);

// Puts the folder at replaced_name(folder) back where `folder` is missing: its writer was killed between two renames.
// Whoever looks for a folder that OutputFolder::replace() makes calls this first. It does no harm beside a writer at
// work.
void restore_replaced(const std::filesystem::path& folder);

}  // namespace inkling
