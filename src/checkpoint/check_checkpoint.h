// Whether a checkpoint is as it was saved. (Other floors use check_checkpoint of checkpoint.h.)
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace inkling {

enum class Look {
  quick,    // at the size of every file, which a run can afford at each save
  thorough  // at every byte
};

// Returns the checkpoint's state if everything else is as it was saved. Throws Error input naming the first file that
// is not, and Error environment if it cannot be read.
TrainingState check_files(const std::filesystem::path& folder, Look look);

}  // namespace inkling
