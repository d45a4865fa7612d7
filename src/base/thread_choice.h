// How many threads `auto` takes, and what decides that.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/system_files.h"

namespace inkling {

// What bounds the threads of this process, as the machine and whoever started the process say it.
struct ThreadLimits {
  int processors = 1;                // that this process may run on, hyper-threads counted: its affinity mask
  int cores = 1;                     // physical ones among them
  int of_machine = 1;                // processors that are switched on, hyper-threads counted
  int ranks = 1;                     // that share all of it for arithmetic (base/rank_place.h)
  std::optional<double> quota = {};  // cores' worth of time that its control groups allow; none: all
  std::vector<std::pair<std::string, std::string>> variables = {};  // those below that are set, and their values
};

// torchrun sets OMP_NUM_THREADS to 1 where nobody has set it, which does not count. OMP_NUM_THREADS may be a list, of
// which the first number counts: the others are for threads inside threads.
inline constexpr std::string_view thread_variables[] = {"OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "SLURM_CPUS_PER_TASK"};

// Takes the affinity mask and the variables from this process, the rest from `files`. What a machine does not say
// bounds nothing.
ThreadLimits find_thread_limits(const SystemFiles& files = SystemFiles());

// The least that the control groups of this process allow, in cores' worth of time; none where none of them limits it.
std::optional<double> find_cpu_quota(const SystemFiles& files);

struct ThreadChoice {
  int threads = 1;
  std::string limit = {};                 // what makes them so few: "OMP_NUM_THREADS is 2"; "": the machine has no more
  std::vector<std::string> ignored = {};  // values that are no number of threads: "OMP_NUM_THREADS is \"two\""
};

// Arithmetic takes a thread for each physical core, because hyper-threads share the units that add and multiply. Work
// on texts takes one for each processor.
enum class ThreadUse { arithmetic, texts };

// Returns the most threads that every limit allows, and at least one. A part of a core in the quota gets no thread.
ThreadChoice choose_threads(ThreadUse use, const ThreadLimits& limits);

}  // namespace inkling
