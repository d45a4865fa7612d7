// state.json: what a run knows besides tensors, and what the other files of its checkpoint were when it was saved.
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
  std::string hash;        // of its bytes (base/hash.h); empty in version 1, which knows names alone
};

struct StateFile {
  std::int64_t version = 0;
  TrainingState state;
  std::vector<SavedFile> files;  // every other file of the folder
};

// A state.json that a later version of this program wrote: not damaged, and yet of no use here.
struct NewerVersion : Error {
  using Error::Error;
};

// Written last: it lists every other file of the folder, and ends with the hash of its own text.
void write_state(const std::filesystem::path& folder, const TrainingState& state);

// Believes nothing that is not as it was written: Error input naming file and field, NewerVersion among them.
StateFile read_state(const std::filesystem::path& folder);

}  // namespace inkling
