// state.json: what a run knows besides tensors, and which files make its checkpoint whole.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace inkling {

// Written last. `files` are the names of all others in the folder.
void write_state(const std::filesystem::path& folder, const TrainingState& state,
                 const std::vector<std::string>& files);

// Throws what load_state() throws, and Error input for a file that state.json lists and that is missing, empty or, as
// far as a look at its beginning and its size can tell, damaged. Reads no tensor.
void check_whole(const std::filesystem::path& folder);

}  // namespace inkling
