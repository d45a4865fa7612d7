// What is at a path and in a folder. Where that cannot be told, these functions throw what throw_read_error() of
// base/file_errors.h throws: a path that cannot be looked at never passes for a missing one, nor a folder for an empty
// one.
#pragma once

#include <filesystem>
#include <string>
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

// The folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace inkling
