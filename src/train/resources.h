// What a run will take of memory and disk, and whether they have it: asked before it begins, because on the CPU the
// system ends a process that takes too much memory without a message.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/disk_room.h"
#include "config/config.h"
#include "model/model.h"

namespace inkling {

// Returns what training with micro-batches of this size holds at its peak above LibTorch's own code and buffers. Where
// runtime.split is batch, each thread has gradients and activations of its own.
TrainingBytes training_memory(const Config& config, const GptShape& shape, const Runtime& runtime,
                              std::int64_t micro_batch_size);

// Returns "training holds about 62 MiB: activations 40 MiB, …", the largest part first.
std::string describe_memory(const TrainingBytes& bytes);

// Returns the floating-point operations per trained token, forward and backward (Chowdhery et al. 2022, appendix B).
double flops_per_token(const GptShape& shape);

// Returns the bytes that training may hold: runtime.memory_limit_gib, or else what is free now on the GPU, or four
// fifths of what the machine and the control groups of this process have free now.
std::uint64_t memory_limit(const RuntimeConfig& config, at::Device device);

// How a batch is computed.
struct BatchSplit {
  std::int64_t micro_batch_size = 1;
  WorkSplit split = WorkSplit::products;
};

// Returns runtime.split and training.micro_batch_size as they are, and what `auto` means where they are not set.
//
// On a CPU that is a function of the settings and the number of threads alone, so that a run has the same bits whatever
// else the machine does. The batch is shared out where each thread gets a micro-batch of 64 tokens or more and their
// gradients have room; a micro-batch is then as large as it can be, so that the threads have equally much to do. On a
// GPU it is the largest divisor of batch_size with which training_memory() is within `limit`.
//
// Where runtime.memory_limit_gib is set, it counts as a setting: `auto` becomes what is within it, if anything is.
//
// Throws Error environment if that is not within `limit`; the message says what needs how much and what to lower. (A
// GPU is tried all the same unless runtime.memory_limit_gib is set, because there a lack of memory is an error that can
// be reported.)
BatchSplit split_batch(const Config& config, const GptShape& shape, const Runtime& runtime, std::uint64_t limit);

// Returns the largest divisor of batch_size that is at most half of `size`; 0 if there is none.
std::int64_t half_micro_batch_size(std::int64_t batch_size, std::int64_t size);

// Returns "training holds about …: …. training.micro_batch_size: 4 instead of 8 halves all but the weights (…)". Where
// runtime.split is batch, what it names instead is within `limit`, in bytes, if such a micro-batch is.
std::string describe_need(const Config& config, const GptShape& shape, const Runtime& runtime,
                          std::int64_t micro_batch_size, std::uint64_t limit);

// Returns about how many bytes a checkpoint has: the model, its average, and what its optimizer keeps, in float32; and
// the tokenizer and other small files.
std::uint64_t checkpoint_bytes(const Config& config, const GptShape& shape);

// Returns about how many bytes a run of so many steps adds at most to its folder, where checkpoints of `there` bytes
// are already: as many checkpoints as are kept, the best one and the one that is being written, as far as that many are
// made; and the lines of log.jsonl.
std::uint64_t run_folder_bytes(const Config& config, const GptShape& shape, std::int64_t steps,
                               std::uint64_t there = 0);

// What a run has still to write, and the disks it goes to.
struct DiskNeed {
  std::uint64_t run_bytes = 0, token_bytes = 0;  // of checkpoints and log, and of the data, which only a dry run lacks
  DiskSpace run_disk, data_disk;
};

// Returns "about 26.4 MiB, 12.3 GiB are free", of what the run writes into its own folder.
std::string describe_room(const DiskNeed& need);

// Returns which disk has too little room, with both numbers and what helps; "" if none has. `keep`: checkpoint.keep.
std::string describe_lack_of_room(const DiskNeed& need, std::int64_t keep);

}  // namespace inkling
