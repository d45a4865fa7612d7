// Whether there is room on the disks for what a program is going to write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace inkling {

// The file system that will hold a path.
struct DiskSpace {
  std::filesystem::path folder;       // the path itself, or the nearest folder above it that is there
  std::uint64_t device = 0;           // the same for all folders of one file system
  std::uint64_t total = 0, free = 0;  // bytes; a total of 0 means that the system does not say
};

// `path` need not exist yet. What a quota leaves of the disk is not seen where the system counts by user. Throws
// nothing.
DiskSpace disk_space(const std::filesystem::path& path);

// The bytes of all files below a folder; 0 if it is not there.
std::uint64_t bytes_below(const std::filesystem::path& folder);

struct ToWrite {
  std::string what;         // "checkpoints"
  std::uint64_t bytes = 0;  // about so many, beside what is there already
  DiskSpace disk;
};

// Returns "checkpoints take about 3.0 GiB and data 1.0 GiB, but 2.5 GiB are free on the disk of /home/me": a clause for
// each disk that cannot hold what is to be written there; "" if all have room.
std::string describe_lack_of_room(std::span<const ToWrite> all);

}  // namespace inkling
