#include "train/fit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"
#include "runtime/device_facts.h"
#include "train/memory.h"

namespace inkling {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

// Returns the number in a file that holds only one, or the one after `key` in lines "key number"; else `otherwise`.
std::uint64_t number_in(const std::string& path, std::uint64_t otherwise, std::string_view key = "") {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (key.empty()) return file >> number ? number : otherwise;
  for (std::string word; file >> word;) {
    if (word == key && file >> number) return number;
  }
  return otherwise;
}

struct GroupFiles {
  const char *root, *limit, *used, *inactive, *active;
};
constexpr GroupFiles version1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                 "total_inactive_file", "total_active_file"};
constexpr GroupFiles version2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"};

// Returns what a control group leaves free. Files it has cached count as free: they give way when memory is asked for.
std::uint64_t free_in_group(const GroupFiles& names, const std::string& path) {
  const std::string folder = names.root + path;
  const std::uint64_t most = number_in(str(folder, "/", names.limit), unlimited);  // the word "max" is no number
  if (most == unlimited) return unlimited;
  const std::uint64_t taken = number_in(str(folder, "/", names.used), 0);
  const std::string statistics = str(folder, "/memory.stat");
  const std::uint64_t files = number_in(statistics, 0, names.inactive) + number_in(statistics, 0, names.active);
  const std::uint64_t needed = taken - std::min(files, taken);
  return most - std::min(needed, most);
}

// Returns the least that any control group of this process leaves free. /proc/self/cgroup has lines "0::/path" (version
// 2) and "4:memory:/path" (version 1), and each group is in those above it; a container sees its own group at the root.
std::uint64_t free_in_groups() {
  std::uint64_t least = unlimited;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool is_version2 = line.starts_with("0::");
    const std::size_t version1_mark = line.find(":memory:");
    if (!is_version2 && version1_mark == std::string::npos) continue;
    std::string path = line.substr(is_version2 ? 3 : version1_mark + std::string_view(":memory:").size());
    for (;;) {
      least = std::min(least, free_in_group(is_version2 ? version2 : version1, path));
      if (path.empty()) break;
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  }
  return least;
}

// Returns the largest divisor of batch_size below `size`; 0 if there is none.
std::int64_t smaller_micro_batch_size(std::int64_t batch_size, std::int64_t size) {
  do {
    --size;
  } while (size > 0 && batch_size % size != 0);
  return size;
}

}  // namespace

std::uint64_t memory_limit(const RuntimeConfig& config, at::Device device) {
  if (config.memory_limit_gib) return static_cast<std::uint64_t>(*config.memory_limit_gib * (1 << 30));
  if (const auto memory = device_memory(device)) return memory->free;
  const std::uint64_t kib = number_in("/proc/meminfo", unlimited / 1024, "MemAvailable:");
  return std::min(kib * 1024, free_in_groups()) / 5 * 4;  // the estimate is good to 15 %, and LibTorch comes on top
}

std::uint64_t peak_resident_bytes() { return number_in("/proc/self/status", 0, "VmHWM:") * 1024; }

std::string describe_need(const Config& config, const GptShape& shape, const Runtime& runtime, std::int64_t size) {
  const TrainingConfig& training = config.training;
  const std::string need = describe_memory(training_memory(config, shape, runtime, size));
  const std::int64_t half = smaller_micro_batch_size(training.batch_size, size / 2 + 1);
  if (half > 0) {
    return str(need, ". training.micro_batch_size: ", half, " instead of ", size,
               size == 2 * half ? " halves" : " lowers", " all but the weights (about ",
               format_bytes(training_memory(config, shape, runtime, half).total()), " then)");
  }
  if (training.recompute != Recompute::block) {
    return str(need,
               ". training.recompute: block keeps few of the activations and computes each block's forward pass twice");
  }
  return str(need, ". Half of model.block_size halves all but the weights; a smaller model.n_embd lowers all of it");
}

std::int64_t fitting_micro_batch_size(const Config& config, const GptShape& shape, const Runtime& runtime,
                                      std::uint64_t limit) {
  const TrainingConfig& training = config.training;
  const auto fits = [&](std::int64_t size) { return training_memory(config, shape, runtime, size).total() <= limit; };
  std::int64_t size = training.micro_batch_size.value_or(training.batch_size);
  while (!training.micro_batch_size && size > 1 && !fits(size)) {
    size = smaller_micro_batch_size(training.batch_size, size);
  }
  const bool is_tried = reports_lack_of_memory(runtime.device) && !config.runtime.memory_limit_gib;
  if (fits(size) || is_tried) return size;
  throw Error::environment(str("not enough memory: ", format_bytes(limit),
                               config.runtime.memory_limit_gib
                                   ? " are allowed (runtime.memory_limit_gib)"
                                   : " are available (or say how much with runtime.memory_limit_gib)",
                               ", and ", describe_need(config, shape, runtime, size)));
}

}  // namespace inkling
