// What stands at a path, and in a folder: what cannot be looked at never passes for missing, nor for empty, but is an
// error as throw_read_error() of base/file_errors.h has it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace inkling {

// Whether anything stands there; a link counts as what it leads to.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// The names of all that a folder holds, sorted, so that nothing depends on the file system; none if there is no such
// folder.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// The path without a slash at its end: "runs/a" for "runs/a/".
std::filesystem::path without_slash(const std::filesystem::path& path);

// The folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace inkling
