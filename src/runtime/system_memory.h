// What main memory there is for this process.
#pragma once

#include <cstdint>
#include <optional>

#include "base/system_files.h"

namespace inkling {

struct SystemMemory {
  std::optional<std::uint64_t> total = {}, available = {};  // bytes of the machine; none where it does not say
  std::uint64_t swap_total = 0, swap_free = 0;
  std::optional<std::uint64_t> group_limit = {};  // the lowest that a control group of this process sets
  std::optional<std::uint64_t> group_free =
      {};  // the least that any of them leaves free; files it has cached count as free

  // What can be taken now: the lower of available and group_free = {}; none if neither is known.
  std::optional<std::uint64_t> free() const;
};

SystemMemory system_memory(const SystemFiles& files = SystemFiles());

// Returns the most resident memory of this process so far, in bytes.
std::uint64_t peak_resident_bytes();

}  // namespace inkling
