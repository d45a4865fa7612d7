// What stands in a folder, and whether something stands at all: a folder that cannot be read never looks like an empty
// one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace inkling {

// Sorted; none if there is no such folder. Error environment if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Error environment if it cannot be told.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

}  // namespace inkling
