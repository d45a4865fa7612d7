// How many threads auto takes, on machines that were invented and for masks that the kernel would give there.
#include "base/thread_choice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/temporary_folder.h"

namespace {

// The processors that the kernel allows; of a machine with none, nothing is invented.
int invented_machine = 0, first_allowed = 0;

}  // namespace

// Stands in front of the C library's. The kernel refuses a mask that has no room for all processors of the machine.
extern "C" int sched_getaffinity(pid_t process, std::size_t bytes, cpu_set_t* mask) noexcept {
  std::memset(mask, 0, bytes);
  if (invented_machine == 0) return ::syscall(SYS_sched_getaffinity, process, bytes, mask) < 0 ? -1 : 0;
  if (8 * bytes < static_cast<std::size_t>(invented_machine)) {
    errno = EINVAL;
    return -1;
  }
  for (int cpu = first_allowed; cpu < invented_machine; ++cpu) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, mask);
  return 0;
}

namespace inkling {
namespace {

// A machine of so many processors, of which this process may use those from `first` on; without any of the variables
// that bound threads.
class Invented {
 public:
  explicit Invented(int processors, int first = 0) {
    invented_machine = processors;
    first_allowed = first;
    says("sys/devices/system/cpu/online", "0-" + std::to_string(processors - 1) + "\n");
    for (const std::string_view name : thread_variables) {
      if (const char* const value = std::getenv(name.data())) kept_[std::string(name)] = value;
      unsetenv(name.data());
    }
  }
  ~Invented() {
    invented_machine = first_allowed = 0;
    for (const std::string_view name : thread_variables) unsetenv(name.data());
    for (const auto& [name, value] : kept_) setenv(name.c_str(), value.c_str(), 1);
  }
  Invented(const Invented&) = delete;
  Invented& operator=(const Invented&) = delete;

  const Invented& says(const std::string& file, const std::string& text) const {
    folder_.write(file, text);
    return *this;
  }
  ThreadChoice choice(ThreadUse use = ThreadUse::arithmetic) const {
    return choose_threads(use, find_thread_limits(SystemFiles(folder_.path())));
  }
  ThreadChoice with(const char* name, const char* value) const {
    setenv(name, value, 1);
    const ThreadChoice chosen = choice();
    unsetenv(name);
    return chosen;
  }

 private:
  TemporaryFolder folder_;
  std::map<std::string, std::string> kept_;
};

TEST(ThreadChoice, IsOnePerPhysicalCoreAndForTextsOnePerHyperThread) {
  const Invented laptop(4);
  for (const int cpu : {0, 1, 2, 3}) {
    laptop.says("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
                cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  }
  EXPECT_EQ(laptop.choice().threads, 2);
  EXPECT_EQ(laptop.choice().limit, "");
  EXPECT_EQ(laptop.choice(ThreadUse::texts).threads, 4);
}

TEST(ThreadChoice, TheAffinityMaskCountsAlsoAbove1024Processors) {
  const Invented large(3000, 2990);
  EXPECT_EQ(large.choice().threads, 10);
  EXPECT_EQ(large.choice().limit, "this process may run on 10 of 3000 processors");
}

TEST(ThreadChoice, IsAtMostTheCpuQuotaOfAnyControlGroup) {
  const Invented version2(16);
  version2.says("proc/self/cgroup", "0::/user.slice/job\n")
      .says("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  EXPECT_EQ(version2.choice().threads, 16);
  version2.says("sys/fs/cgroup/user.slice/cpu.max", "350000 100000\n");
  EXPECT_EQ(version2.choice().threads, 3) << "a part of a core gets no thread";
  EXPECT_EQ(version2.choice().limit, "a control group allows 3.5 cores' worth of time");
  EXPECT_EQ(version2.choice(ThreadUse::texts).threads, 3);
  version2.says("sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(version2.choice().threads, 1);
  const Invented version1(16);
  version1.says("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n");
  version1.says("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n")
      .says("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(version1.choice().threads, 2);
}

TEST(ThreadChoice, IsAtMostWhatTheVariablesSay) {
  const Invented machine(16);
  EXPECT_EQ(machine.with("OMP_NUM_THREADS", "4").threads, 4);
  EXPECT_EQ(machine.with("OMP_NUM_THREADS", "4").limit, "OMP_NUM_THREADS is 4");
  EXPECT_EQ(machine.with("OMP_NUM_THREADS", " 4 , 2").threads, 4);
  EXPECT_EQ(machine.with("OMP_THREAD_LIMIT", "5").threads, 5);
  EXPECT_EQ(machine.with("SLURM_CPUS_PER_TASK", "6").limit, "SLURM_CPUS_PER_TASK is 6");
  EXPECT_EQ(machine.with("SLURM_CPUS_PER_TASK", "64").threads, 16) << "more than there are help nobody";
  EXPECT_EQ(machine.with("SLURM_CPUS_PER_TASK", "64").limit, "");
}

TEST(ThreadChoice, TheLeastOfAllLimitsDecides) {
  const ThreadLimits limits = {.processors = 8,
                               .cores = 8,
                               .of_machine = 16,
                               .quota = 6.0,
                               .variables = {{"OMP_NUM_THREADS", "7"}, {"SLURM_CPUS_PER_TASK", "3"}}};
  EXPECT_EQ(choose_threads(ThreadUse::arithmetic, limits).threads, 3);
  EXPECT_EQ(choose_threads(ThreadUse::arithmetic, limits).limit, "SLURM_CPUS_PER_TASK is 3");
}

TEST(ThreadChoice, AValueThatIsNoNumberOfThreadsBoundsNothingAndIsNamed) {
  const Invented machine(16);
  for (const char* const value : {"two", "0", "-1", "2.5", "1x", ",4"}) {
    const ThreadChoice choice = machine.with("OMP_NUM_THREADS", value);
    EXPECT_EQ(choice.threads, 16) << value;
    EXPECT_EQ(choice.ignored, std::vector<std::string>{std::string("OMP_NUM_THREADS is \"") + value + '"'});
  }
  EXPECT_EQ(machine.with("OMP_NUM_THREADS", "").ignored, std::vector<std::string>{});
}

}  // namespace
}  // namespace inkling
