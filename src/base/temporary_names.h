// The hidden names under which files and folders grow until they are complete, and under which older versions wait
// while they are replaced.
#pragma once

#include <filesystem>

namespace inkling {

// A name in the folder of `path` that no other process uses: temporary_name("runs/a.bin", 0) is runs/.a.bin.tmp-PID-0.
std::filesystem::path temporary_name(const std::filesystem::path& path, int attempt);

// Marks an open temporary file or folder as being written, until `descriptor` is closed or the process ends.
void lock_temporary(int descriptor);

// Removes a file, or a folder with all it holds, as far as that is possible. Throws nothing.
void remove_everything(const std::filesystem::path& path);

// Removes what killed writers of `path` left behind: whatever is not locked and has not been touched for a minute.
// `remove` removes one file or folder and must not throw.
void remove_abandoned(const std::filesystem::path& path,
                      void (*remove)(const std::filesystem::path&) = remove_everything);

// The name that the folder `path` has while another takes its place: replaced_name("runs/a") is runs/.a.replaced. What
// has that name is complete; if `path` is missing, it is the only version.
std::filesystem::path replaced_name(const std::filesystem::path& path);

// Gives replaced_name(folder) its name back if `folder` is missing, because its writer was killed between two renames.
// Everyone who looks for a folder that OutputFolder::replace() makes must call this first. It does no harm while a
// writer is at work.
void restore_replaced(const std::filesystem::path& folder);

}  // namespace inkling
