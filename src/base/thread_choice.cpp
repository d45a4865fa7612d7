#include "base/thread_choice.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

#include "base/rank_place.h"
#include "base/strings.h"

namespace inkling {
namespace {

constexpr std::size_t most_masks = 1024;     // of 1,024 processors each
constexpr std::int64_t most_threads = 4096;  // as for runtime.threads

// The numbers of the processors in this thread's affinity mask, or of all where the system does not say. The kernel
// refuses a mask that is too small for the processors that the machine may have.
std::vector<int> allowed_processors() {
  for (std::size_t count = 1; count <= most_masks; count *= 2) {
    std::vector<cpu_set_t> masks(count);
    const std::size_t bytes = count * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, masks.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> allowed;
    for (std::size_t cpu = 0; cpu < 8 * bytes; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, masks.data())) allowed.push_back(static_cast<int>(cpu));
    }
    return allowed;
  }
  std::vector<int> all(std::thread::hardware_concurrency());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int count_cores(const SystemFiles& files, const std::vector<int>& processors) {
  std::set<std::string> cores;
  for (const int cpu : processors) {
    const std::string siblings = files.line(str("sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    cores.insert(siblings.empty() ? str(cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

// How many numbers "0-3,8" lists.
int count_listed(const std::string& list) {
  std::int64_t count = 0;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string part = list.substr(begin, end - begin);
    const std::size_t dash = part.find('-');
    const auto first = whole_number(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : whole_number(part.substr(dash + 1));
    if (first && last) count += *last - *first + 1;
    begin = end + 1;
  }
  return static_cast<int>(count);
}

// The threads that a variable's value allows; none for what is no such number.
std::optional<int> threads_in(std::string_view value) {
  value = value.substr(0, value.find(','));
  constexpr std::string_view space = " \t";
  while (!value.empty() && space.find(value.front()) != std::string_view::npos) value.remove_prefix(1);
  while (!value.empty() && space.find(value.back()) != std::string_view::npos) value.remove_suffix(1);
  const auto number = whole_number(value);
  if (!number || *number < 1) return std::nullopt;
  return static_cast<int>(std::min(*number, most_threads));
}

}  // namespace

// Version 2 has "200000 100000" in cpu.max, version 1 the two numbers in files of their own, the first -1 where there
// is no limit.
std::optional<double> find_cpu_quota(const SystemFiles& files) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups(files, "cpu")) {
    std::optional<std::uint64_t> time, period;
    if (group.is_version2) {
      time = files.number(group.folder / "cpu.max");
      const std::string line = files.line(group.folder / "cpu.max");
      if (time && line.find(' ') != std::string::npos) {
        period = files.number(group.folder / "cpu.max", line.substr(0, line.find(' ')));
      }
    } else if (!files.line(group.folder / "cpu.cfs_quota_us").starts_with('-')) {
      time = files.number(group.folder / "cpu.cfs_quota_us");
      period = files.number(group.folder / "cpu.cfs_period_us");
    }
    if (!time || !period || *period == 0) continue;
    const double cores = static_cast<double>(*time) / static_cast<double>(*period);
    least = std::min(least.value_or(cores), cores);
  }
  return least;
}

ThreadLimits find_thread_limits(const SystemFiles& files) {
  const std::vector<int> allowed = allowed_processors();
  ThreadLimits limits;
  limits.processors = std::max(1, static_cast<int>(allowed.size()));
  limits.cores = std::max(1, count_cores(files, allowed));
  limits.of_machine = std::max(limits.processors, count_listed(files.line("sys/devices/system/cpu/online")));
  limits.quota = find_cpu_quota(files);
  const RankPlace place = find_place_on_machine();
  const bool is_bound = place.may_be_bound() && limits.processors < limits.of_machine;
  if (!is_bound) limits.ranks = place.local_ranks;
  for (const std::string_view name : thread_variables) {
    const char* const value = std::getenv(name.data());
    if (value == nullptr || *value == '\0') continue;
    const bool is_torchruns = place.launcher == "torchrun" && place.local_ranks > 1 && name == thread_variables[0];
    if (!is_torchruns || value != std::string_view("1")) limits.variables.emplace_back(name, value);
  }
  return limits;
}

ThreadChoice choose_threads(ThreadUse use, const ThreadLimits& limits) {
  ThreadChoice choice{.threads = std::max(1, use == ThreadUse::arithmetic ? limits.cores : limits.processors)};
  if (limits.processors < limits.of_machine) {
    choice.limit = str("this process may run on ", limits.processors, " of ", limits.of_machine, " processors");
  }
  const auto lower = [&](int threads, const std::string& limit) {
    if (threads >= choice.threads) return;
    choice.threads = threads;
    choice.limit = limit;
  };
  const int ranks = use == ThreadUse::arithmetic ? limits.ranks : 1;
  if (ranks > 1) lower(std::max(1, choice.threads / ranks), str(ranks, " ranks share this machine"));
  if (limits.quota) {
    const double whole = std::clamp(std::floor(*limits.quota / ranks), 1.0, static_cast<double>(most_threads));
    lower(static_cast<int>(whole),
          str("a control group allows ", format_fixed(*limits.quota, 1), " cores' worth of time"));
  }
  for (const auto& [name, value] : limits.variables) {
    const auto threads = threads_in(value);
    if (threads) lower(*threads, str(name, " is ", *threads));
    if (!threads) choice.ignored.push_back(str(name, " is ", quote(value)));
  }
  return choice;
}

}  // namespace inkling
