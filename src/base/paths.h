// What is at a path and in a folder, where the program itself lies, and the hidden names under which files grow. Where
// it cannot be told what is at a path, these functions throw what throw_read_error() throws: a path that cannot be
// looked at never passes for a missing one, nor a folder for an empty one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// Whether anything is there, and whether it is a folder; a link counts as what it leads to.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// The names of everything in a folder, sorted, so that nothing depends on the file system; none if there is no such
// folder.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// The path without a slash at its end: "runs/a" for "runs/a/".
std::filesystem::path without_slash(const std::filesystem::path& path);

// What the name ends in, from its last dot on, in lower case (A to Z): ".gz" for "Texts.TXT.GZ"; empty without a dot.
std::string ending_of(const std::filesystem::path& path);

// The folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

// Whether `file` is the folder's path and a name: is_inside("runs/a", "runs"). It says nothing about the disk.
bool is_inside(const std::filesystem::path& file, const std::filesystem::path& folder);

// Whether a file can have this name in its folder: it is not empty, "." or "..", and holds no slash and no zero byte.
bool is_file_name(std::string_view name);

// The path in the same folder whose name is nearest to that of `path`, which does not exist, among the names that end
// in `extension`: for "did you mean". None if no name is near, or if the folder cannot be read.
std::optional<std::filesystem::path> nearest_beside(const std::filesystem::path& path, std::string_view extension = {});

// The folder of the file that this code is in: of the program, or of the library that is part of another program.
std::filesystem::path own_folder();

// share/inkling of the place where inkling is installed, which holds configs/ and data/; empty where it is not
// installed.
std::filesystem::path installed_share();

// The hidden names under which files and folders grow until they are complete, and under which older versions wait
// while they are replaced.

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
