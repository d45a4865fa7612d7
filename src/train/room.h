// What a run writes, and whether its disks have room for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "train/plan.h"

namespace inkling {

// Returns about how many bytes a checkpoint has: the model, its average, and what its optimizer keeps, in float32; and
// the tokenizer and other small files.
std::uint64_t checkpoint_bytes(const Config& config, const GptShape& shape);

// Returns about how many bytes a run of so many steps adds at most to its folder, where checkpoints of `there` bytes
// are already: as many checkpoints as are kept, the best one and the one that is being written, as far as that many are
// made; and the lines of log.jsonl.
std::uint64_t run_folder_bytes(const Config& config, const GptShape& shape, std::int64_t steps,
                               std::uint64_t there = 0);

// Returns "about 26.4 MiB, 12.3 GiB are free": what the run has still to write into folder `run`, and its disk.
std::string describe_room(const RunPlan& plan, const std::filesystem::path& run);

// Returns which disk has too little room for the run in folder `run`, with both numbers and what helps; "" if none has.
// A dry run has still to write its data.
std::string describe_lack_of_room(const RunPlan& plan, const std::filesystem::path& run);

}  // namespace inkling
