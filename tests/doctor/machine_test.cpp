// What is found out of a machine, for machines that were invented.
#include "doctor/facts.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "doctor/forecast.h"
#include "tests/doctor/invented_machine.h"

namespace inkling::doctor {
namespace {

TEST(Machine, NothingSaidIsNothingKnownAndNoError) {
  const InventedMachine machine;
  const SystemFiles files = machine.files();
  EXPECT_EQ(find_system(files).distribution, "");
  EXPECT_EQ(find_processor(files).model, "");
  EXPECT_EQ(find_processor(files).quota, std::nullopt);
  EXPECT_EQ(find_graphics(files).driver_version, "");
  EXPECT_FALSE(find_graphics(files).has_device_files);
  EXPECT_EQ(system_memory(files).free(), std::nullopt);
  EXPECT_TRUE(read_load(files).processes.empty());
}

TEST(Machine, ALaptopTellsItsProcessorCachesAndClock) {
  const InventedMachine machine;
  machine.says("proc/cpuinfo",
               "processor\t: 0\nmodel name\t: Intel(R) Core(TM) i5-4300U CPU @ 1.90GHz\nflags\t\t: fpu sse2 avx\n\n"
               "processor\t: 1\nmodel name\t: Intel(R) Core(TM) i5-4300U CPU @ 1.90GHz\n");
  const std::string cpu = "sys/devices/system/cpu/cpu0/";
  machine.says(cpu + "cache/index0/type", "Data\n").says(cpu + "cache/index0/level", "1\n");
  machine.says(cpu + "cache/index0/size", "32K\n");
  machine.says(cpu + "cache/index1/type", "Instruction\n").says(cpu + "cache/index1/level", "1\n");
  machine.says(cpu + "cache/index1/size", "64K\n");
  machine.says(cpu + "cache/index3/type", "Unified\n").says(cpu + "cache/index3/level", "3\n");
  machine.says(cpu + "cache/index3/size", "3M\n");
  machine.says(cpu + "cpufreq/scaling_max_freq", "1450000\n").says(cpu + "cpufreq/cpuinfo_max_freq", "2900000\n");
  machine.says("etc/os-release", "NAME=Mint\nPRETTY_NAME=\"Linux Mint 22\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n");
  machine.says("proc/version", "Linux version 6.8.0-45-generic (buildd@host) (gcc 13) #45\n");
  const Processor processor = find_processor(machine.files());
  EXPECT_EQ(processor.model, "Intel(R) Core(TM) i5-4300U CPU @ 1.90GHz");
  EXPECT_EQ(processor.threads, 2);
  ASSERT_EQ(processor.caches.size(), 2U);
  EXPECT_EQ(processor.caches[0].bytes, 32U * 1024);
  EXPECT_EQ(processor.caches[1].level, 3);
  EXPECT_EQ(processor.caches[1].bytes, 3U << 20);
  EXPECT_EQ(processor.clock_limit, 0.5);
  EXPECT_EQ(processor.fastest_clock, 2900000U);
  const System system = find_system(machine.files());
  EXPECT_EQ(system.distribution, "Linux Mint 22");
  EXPECT_EQ(system.family, "ubuntu");
  EXPECT_EQ(system.kernel, "6.8.0-45-generic");
  EXPECT_FALSE(system.is_virtual);
}

TEST(Machine, TheLeastOfNestedQuotasCounts) {
  const InventedMachine version2;
  version2.says("proc/self/cgroup", "0::/user.slice/job\n");
  version2.says("sys/fs/cgroup/user.slice/job/cpu.max", "300000 100000\n");
  version2.says("sys/fs/cgroup/cpu.max", "max 100000\n");
  version2.says("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(find_processor(version2.files()).quota, 1.5);
  const InventedMachine version1;
  version1.says("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n");
  version1.says("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n")
      .says("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(find_processor(version1.files()).quota, 0.5);
  const InventedMachine unlimited;
  unlimited.says("proc/self/cgroup", "5:cpu,cpuacct:/\n");
  unlimited.says("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n").says("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(find_processor(unlimited.files()).quota, std::nullopt);
}

TEST(Machine, WhatLimitsTheThreadsOfAutoIsItsReason) {
  const Facts facts = healthy();
  const auto reason_for = [&](const Runtime& runtime) {
    for (const Choice& choice : explain_choices(runtime, facts).all) {
      if (choice.setting == "threads") return str(choice.value, ": ", choice.reason);
    }
    return std::string();
  };
  EXPECT_EQ(reason_for({.threads = 2, .thread_limit = "a control group allows 2.5 cores' worth of time"}),
            "2: a control group allows 2.5 cores' worth of time");
  EXPECT_EQ(reason_for({.threads = 4}), "4: one for each physical core, not for each hyper-thread");
}

TEST(Machine, AContainersLimitIsItsMemory) {
  const InventedMachine machine;
  machine.says("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\nSwapTotal:   1000 kB\n");
  machine.says("proc/self/cgroup", "0::/\n");
  machine.says("sys/fs/cgroup/memory.max", "2147483648\n").says("sys/fs/cgroup/memory.current", "1073741824\n");
  machine.says("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 1048576\nactive_file 1048576\n");
  const SystemMemory memory = system_memory(machine.files());
  EXPECT_EQ(memory.total, std::uint64_t{16000000} * 1024);
  EXPECT_EQ(memory.group_limit, std::uint64_t{2} << 30);
  EXPECT_EQ(memory.group_free, (std::uint64_t{1} << 30) + (std::uint64_t{2} << 20));
  EXPECT_EQ(memory.free(), memory.group_free);
  EXPECT_EQ(memory.swap_total, 1000U * 1024);
}

TEST(Machine, Version1sUnlimitedGroupIsNoLimit) {
  const InventedMachine machine;
  machine.says("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\n");
  machine.says("proc/self/cgroup", "4:memory:/\n");
  machine.says("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const SystemMemory memory = system_memory(machine.files());
  EXPECT_EQ(memory.group_limit, std::nullopt);
  EXPECT_EQ(memory.free(), std::uint64_t{12000000} * 1024);
}

TEST(Machine, GraphicsAreSeenOnTheBusAndTheirDriverByItsVersion) {
  const InventedMachine machine;
  const std::string bus = "sys/bus/pci/devices/0000:01:00.0/", network = "sys/bus/pci/devices/0000:02:00.0/";
  machine.says(bus + "vendor", "0x10de\n").says(bus + "class", "0x030000\n");
  machine.links(bus + "driver", "../../../bus/pci/drivers/nouveau");
  machine.says(network + "vendor", "0x8086\n").says(network + "class", "0x020000\n");
  machine.says("proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build  (dvs-builder)\n");
  const Graphics graphics = find_graphics(machine.files());
  EXPECT_EQ(graphics.devices, std::vector<std::string>{"NVIDIA"});
  EXPECT_EQ(graphics.bus_driver, "nouveau");
  EXPECT_EQ(graphics.driver_version, "535.104.05");
}

TEST(Machine, TheFileSystemIsThatOfTheInnermostMount) {
  const TemporaryFolder here;
  const InventedMachine machine;
  machine.says("proc/self/mountinfo",
               "22 1 254:0 / / rw - ext4 /dev/sda1 rw\n"
               "30 22 0:30 / " +
                   here.path().string() +
                   " rw shared:1 - nfs4 server:/ rw\n"
                   "31 22 0:31 / " +
                   here.path().string() + "x rw - tmpfs tmpfs rw\n");
  const Disk disk = find_disk(machine.files(), "runs/", here / "not/there");
  EXPECT_EQ(disk.kind, "nfs4");
  EXPECT_EQ(disk.path, here.path().string());
  EXPECT_GT(disk.total, 0U);
  EXPECT_TRUE(disk.is_writable);
}

TEST(Load, IsWhatProcessesTookBetweenTwoReadings) {
  const InventedMachine machine;
  machine.says("proc/stat", "cpu  100 0 0 900 0 0 0 10 0 0\n").says("proc/loadavg", "1.50 1.00 0.50 2/99 9\n");
  machine.says("proc/11/stat", stat_line(11, "evil) S 1 (name", 100));
  machine.says("proc/12/stat", stat_line(12, "python3", 100));
  machine.says("proc/12/cmdline", std::string("/usr/bin/python3\0/home/me/train.py\0--fast\0", 42));
  machine.says("proc/13/stat", stat_line(13, "idle", 100));
  machine.says("proc/14/stat", stat_line(14, "this", 0)).says("proc/15/stat", "nonsense");
  const LoadReading before = read_load(machine.files());
  const auto ticks = static_cast<int>(sysconf(_SC_CLK_TCK));
  machine.says("proc/stat",
               "cpu  " + std::to_string(100 + 8 * ticks) + " 0 0 900 0 0 0 " + std::to_string(10 + ticks) + " 0 0\n");
  machine.says("proc/11/stat", stat_line(11, "evil) S 1 (name", 100 + ticks));
  machine.says("proc/12/stat", stat_line(12, "python3", 100 + 2 * ticks));
  machine.says("proc/14/stat", stat_line(14, "this", 5 * ticks));
  machine.says("proc/16/stat", stat_line(16, "new", 9 * ticks));  // which it may have taken before
  LoadReading after = read_load(machine.files());
  after.seconds = before.seconds + 1.0;
  const Load load = find_load(machine.files(), before, after, 14);
  ASSERT_EQ(load.programs.size(), 2U);
  EXPECT_EQ(load.programs[0].name, "python3 train.py");
  EXPECT_DOUBLE_EQ(load.programs[0].cores, 2.0);
  EXPECT_EQ(load.programs[1].name, "evil) S 1 (name");
  EXPECT_DOUBLE_EQ(load.programs[1].cores, 1.0);
  EXPECT_DOUBLE_EQ(load.busy, 3.0);
  EXPECT_DOUBLE_EQ(load.stolen, 1.0);
  EXPECT_DOUBLE_EQ(load.average, 1.5);
}

TEST(Load, AnotherProcessWithTheSameNumberIsAnotherOne) {
  const InventedMachine machine;
  machine.says("proc/11/stat", stat_line(11, "first", 0, 5));
  const LoadReading before = read_load(machine.files());
  machine.says("proc/11/stat", stat_line(11, "second", 1000, 6));
  LoadReading after = read_load(machine.files());
  after.seconds = before.seconds + 1.0;
  EXPECT_TRUE(find_load(machine.files(), before, after, 1).programs.empty());
}

TEST(Load, ARunIsNamedByTheFolderThatItLocks) {
  const InventedMachine machine;
  machine.says("proc/11/stat", stat_line(11, "inkling-train", 0)).links("proc/11/fd/3", "/home/me/runs/fables/.lock");
  machine.links("proc/11/fd/1", "/dev/pts/0");
  const LoadReading reading = read_load(machine.files());
  const Load load = find_load(machine.files(), reading, reading, 1);
  ASSERT_EQ(load.programs.size(), 1U);
  EXPECT_EQ(load.programs[0].run_folder, "/home/me/runs/fables");
}

TEST(Load, NoNameOfAProgramReachesTheTerminalAsItIs) {
  const InventedMachine machine;
  machine.says("proc/11/stat", stat_line(11, "x", 0));
  machine.says("proc/11/cmdline", std::string("\x1b[2J\xff") + std::string(100, 'a'));
  const LoadReading before = read_load(machine.files());
  machine.says("proc/11/stat", stat_line(11, "x", 100000));
  const Load load = find_load(machine.files(), before, read_load(machine.files()), 1);
  ASSERT_EQ(load.programs.size(), 1U);
  EXPECT_EQ(load.programs[0].name.substr(0, 6), "?[2J?a");
  EXPECT_EQ(load.programs[0].name.size(), 40U);
}

}  // namespace
}  // namespace inkling::doctor
