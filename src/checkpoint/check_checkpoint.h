// Whether a checkpoint is as it was saved. (For all but its own floor: check_checkpoint of checkpoint.h.)
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace inkling {

enum class Look {
  quick,    // at the size of every file: what a run can afford at each save
  thorough  // at every byte
};

// The checkpoint's state, once everything else was found to be as it was saved: Error input naming the first file that
// is not, Error environment if it cannot be read.
TrainingState check_files(const std::filesystem::path& folder, Look look);

}  // namespace inkling
