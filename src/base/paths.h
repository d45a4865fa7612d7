// What is at a path and in a folder. Where that cannot be told, these functions throw what throw_read_error() of
// base/file_errors.h throws: a path that cannot be looked at never passes for a missing one, nor a folder for an empty
// one.
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

}  // namespace inkling
