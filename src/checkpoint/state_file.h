// state.json: what a run knows apart from its tensors, and what the other files of its checkpoint were when it was
// saved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace inkling {

struct SavedFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string hash;        // of its bytes (base/hash.h); empty in version 1, which records only names
};

struct StateFile {
  std::int64_t version = 0;
  TrainingState state;
  std::vector<SavedFile> files;  // every other file of the folder
};

// A state.json that a later version of this program wrote: it is not damaged, but cannot be used here.
struct NewerVersion : Error {
  using Error::Error;
};

// It is written last: it lists every other file of the folder and ends with the hash of its own text.
void write_state(const std::filesystem::path& folder, const TrainingState& state);

// Accepts only what is as it was written: throws Error input naming file and field, or NewerVersion.
StateFile read_state(const std::filesystem::path& folder);

// How a checkpoint is compared with what was saved.
enum class Look {
  quick,    // at the size of every file, which a run can afford at each save
  thorough  // at every byte
};

// Returns the checkpoint's state if everything else is as it was saved. Throws Error input naming the first file that
// is not, and Error environment if it cannot be read.
TrainingState check_files(const std::filesystem::path& folder, Look look);

}  // namespace inkling
