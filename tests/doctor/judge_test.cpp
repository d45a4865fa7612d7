// What is wrong with invented machines, and what mends it.
#include <gtest/gtest.h>

#include <algorithm>

#include "doctor/doctor.h"
#include "tests/doctor/invented_machine.h"

namespace inkling::doctor {
namespace {

std::vector<std::string> names(const Facts& facts) {
  std::vector<std::string> found;
  for (const Problem& problem : judge(facts)) found.push_back(problem.name);
  return found;
}

// The only problem that the facts have.
Problem only_problem(const Facts& facts) {
  const std::vector<Problem> problems = judge(facts);
  EXPECT_EQ(problems.size(), 1U) << testing::PrintToString(names(facts));
  return problems.empty() ? Problem{} : problems.front();
}

void expect_only(const Facts& facts, const std::string& name, const std::string& command,
                 Severity severity = Severity::warning) {
  const Problem problem = only_problem(facts);
  EXPECT_EQ(problem.name, name);
  EXPECT_EQ(problem.command, command);
  EXPECT_EQ(problem.severity, severity);
}

Facts with_nvidia() {
  Facts facts = healthy();
  facts.graphics = {.devices = {"NVIDIA"}, .why_none = "no NVIDIA driver runs here"};
  return facts;
}

TEST(Judge, AHealthyMachineHasNoProblems) { EXPECT_EQ(names(healthy()), std::vector<std::string>{}); }

TEST(Judge, AnOldLaptopWithoutAvx2HasNoProblemBecauseNothingMendsIt) {
  Facts facts = healthy();
  facts.instructions = {.in_use = "baseline", .supported = {"baseline"}, .compiled = {"avx512", "avx2", "baseline"}};
  EXPECT_EQ(names(facts), std::vector<std::string>{});
  facts.system.is_virtual = true;
  expect_only(facts, "instruction_set_hidden", "qemu-system-x86_64 -cpu host");
}

TEST(Judge, AnInstructionSetThatIsMissingStopsTraining) {
  Facts facts = healthy();
  facts.instructions.in_use = "";
  facts.instructions.why_none = "INKLING_INSTRUCTION_SET is \"avx9\", and …";
  facts.choices.why_none = facts.instructions.why_none;
  expect_only(facts, "instruction_set_missing", "unset INKLING_INSTRUCTION_SET", Severity::cannot);
  facts = healthy();
  facts.instructions.in_use = "avx2";
  expect_only(facts, "instruction_set_lowered", "unset INKLING_INSTRUCTION_SET");
}

TEST(Judge, AQuotaIsNoProblemBecauseAutoFollowsIt) {
  Facts facts = healthy();
  facts.processor.quota = 2.5;
  facts.environment.variables = {{"OMP_NUM_THREADS", "1"}, {"OMP_THREAD_LIMIT", "3"}};
  EXPECT_EQ(names(facts), std::vector<std::string>{});
}

TEST(Judge, AContainerOf2GibIsTooSmallOnlyWhenNothingFits) {
  Facts facts = healthy();
  facts.system.is_container = true;
  facts.memory.group_limit = std::uint64_t{2} << 30;
  facts.memory.group_free = std::uint64_t{1536} << 20;
  EXPECT_EQ(names(facts), std::vector<std::string>{});
  facts.memory.group_free = std::uint64_t{512} << 20;
  expect_only(facts, "memory_low", "docker update --memory 8g --memory-swap 8g CONTAINER");
  for (Forecast& forecast : facts.forecasts) {
    forecast.lacks_memory = true;
    forecast.why_not = "not enough memory";
  }
  expect_only(facts, "memory_too_small", "docker update --memory 8g --memory-swap 8g CONTAINER", Severity::cannot);
}

TEST(Judge, SettingsThatAskForWhatIsNotThereStopTrainingOnlyWhereAllDo) {
  Facts facts = healthy();
  Forecast other = facts.forecasts.front();
  other.path = "configs/other.yaml";
  other.lacks_device = true;
  other.why_not = "the fused kernels need a GPU of compute capability 8.0";
  facts.forecasts.push_back(other);
  EXPECT_EQ(names(facts), std::vector<std::string>{});
  facts.forecasts = {other};
  expect_only(facts, "device_missing",
              "inkling-doctor configs/other.yaml --set runtime.device=auto --set runtime.kernels=auto",
              Severity::cannot);
}

TEST(Judge, AConfigurationThatWouldFitComesWithTheSettings) {
  Facts facts = healthy();
  Forecast large = facts.forecasts.front();
  large.path = "configs/large.yaml";
  large.lacks_memory = true;
  large.why_not = "not enough memory";
  large.fits_with = " --set training.recompute=block";
  facts.forecasts.push_back(large);
  expect_only(facts, "config_too_large", "inkling-train configs/large.yaml --set training.recompute=block");
}

TEST(Judge, AFullOrForbiddenDiskStopsTraining) {
  Facts facts = healthy();
  facts.disks.front().free = 1000;
  expect_only(facts, "disk_full", "du -xh . | sort -h | tail", Severity::cannot);
  facts = healthy();
  facts.disks.front().free_files = 0;
  expect_only(facts, "disk_full", "du --inodes -x . | sort -n | tail", Severity::cannot);
  facts.disks.front().all_files = 0;  // btrfs does not count files
  EXPECT_EQ(names(facts), std::vector<std::string>{});
  facts.disks.front().is_writable = false;
  expect_only(facts, "disk_not_writable", "cd \"$HOME\"", Severity::cannot);
}

TEST(Judge, ADiskThatHoldsTwoThingsIsMendedOnce) {
  Facts facts = healthy();
  facts.disks.front().free = 1000;
  facts.disks.push_back(facts.disks.front());
  facts.disks.back().use = "data/";
  expect_only(facts, "disk_full", "du -xh . | sort -h | tail", Severity::cannot);
}

TEST(Judge, ADiskInMemoryOrOnANetworkIsOnlyAWarning) {
  Facts facts = healthy();
  facts.disks.front().kind = "tmpfs";
  expect_only(facts, "disk_is_memory", "cd \"$HOME\"");
  facts.disks.front().kind = "nfs4";
  expect_only(facts, "disk_on_network", "cd \"$HOME\"");
  facts = healthy();
  facts.disks.push_back({.use = "TMPDIR", .path = "/tmp", .kind = "tmpfs", .total = 1 << 20, .free = 0});
  expect_only(facts, "disk_full", "export TMPDIR=/var/tmp");
}

TEST(Judge, CheckpointsThatDoNotFitAreNamed) {
  Facts facts = healthy();
  facts.disks.front().free = std::uint64_t{1} << 30;
  facts.forecasts.front().disk = std::uint64_t{2} << 30;
  expect_only(facts, "disk_too_small", "du -xh . | sort -h | tail");
}

TEST(Judge, AGpuWithoutADriverIsMendedByInstallingOne) {
  Facts facts = with_nvidia();
  facts.system.family = "ubuntu";
  expect_only(facts, "driver_missing", "sudo apt-get install nvidia-driver-580");
  facts.system.family = "debian";
  facts.graphics.bus_driver = "nouveau";
  const Problem problem = only_problem(facts);
  EXPECT_EQ(problem.command, "sudo sh NVIDIA-Linux-x86_64-580*.run");
  EXPECT_TRUE(contains(problem.text, "nouveau"));
  facts.system.is_container = true;
  expect_only(facts, "gpu_not_in_container", "docker run --gpus all IMAGE");
}

TEST(Judge, ADriverThatIsTooOldIsNamedWithBothVersions) {
  Facts facts = with_nvidia();
  facts.graphics.driver_version = "535.104.05";
  facts.graphics.has_device_files = true;
  facts.system.family = "ubuntu";
  const Problem problem = only_problem(facts);
  EXPECT_EQ(problem.name, "driver_too_old");
  EXPECT_TRUE(contains(problem.text, "535.104.05"));
  EXPECT_TRUE(contains(problem.text, "580"));
}

TEST(Judge, ADriverWithoutAUsableGpuHasItsOwnReasons) {
  Facts facts = with_nvidia();
  facts.graphics.driver_version = "580.65.06";
  expect_only(facts, "device_files_missing", "sudo nvidia-modprobe -u -c 0");
  facts.graphics.has_device_files = true;
  expect_only(facts, "torch_without_cuda", "python3 -m pip install --force-reinstall torch==2.11.0");
  facts.libraries.all.push_back({"LibTorch's CUDA half", "there"});
  expect_only(facts, "gpu_unusable", "nvidia-smi");
  facts.environment.variables = {{"CUDA_VISIBLE_DEVICES", ""}};
  expect_only(facts, "gpu_hidden", "unset CUDA_VISIBLE_DEVICES");
  facts.graphics.locked_by = "video";
  expect_only(facts, "gpu_locked", "sudo usermod -aG video \"$USER\"");
}

TEST(Judge, AnAmdOrIntelGpuIsNoProblem) {
  Facts facts = healthy();
  facts.graphics.devices = {"AMD", "Intel"};
  EXPECT_EQ(names(facts), std::vector<std::string>{});
}

TEST(Judge, AGpuThatOthersFillIsNamed) {
  Facts facts = healthy();
  facts.graphics = {.gpus = {{.name = "NVIDIA A100", .memory = 40 << 20, .free = 1 << 20, .major = 8, .minor = 0}}};
  expect_only(facts, "gpu_busy", "nvidia-smi");
}

TEST(Judge, AnotherLibTorchIsMendedWhereItComesFrom) {
  Facts facts = healthy();
  facts.libraries.torch_loaded = "2.9.1";
  const std::string reinstalled = " -m pip install --force-reinstall torch==2.11.0";
  expect_only(facts, "torch_version", "python3" + reinstalled);
  facts.libraries.torch_folder = "/home/me/my venv/lib/python3.12/site-packages/torch/lib";
  expect_only(facts, "torch_version", "'/home/me/my venv/bin/python3'" + reinstalled);
  facts.libraries.torch_folder = "/home/me/.local/lib/python3.12/site-packages/torch/lib";
  expect_only(facts, "torch_version", "python3" + reinstalled);
  facts.libraries.torch_folder = "/usr/local/lib/python3.12/dist-packages/torch/lib";
  expect_only(facts, "torch_version", "python3" + reinstalled);
  facts.libraries.from_library_path = true;
  expect_only(facts, "torch_version", "unset LD_LIBRARY_PATH");
}

TEST(Judge, VariablesThatSlowDownAreNamedAndOthersAreNot) {
  Facts facts = healthy();
  facts.environment.variables = {{"MKL_CBWR", "COMPATIBLE"}};
  expect_only(facts, "variable_set", "unset MKL_CBWR");
  facts.environment.variables = {{"LD_LIBRARY_PATH", "/opt/lib"}};
  EXPECT_EQ(names(facts), std::vector<std::string>{});
}

TEST(Judge, LimitsOfTheShellAreNamed) {
  Facts facts = healthy();
  facts.environment.address_space = std::uint64_t{4} << 30;
  expect_only(facts, "limit_of_addresses", "ulimit -v unlimited");
  facts = healthy();
  facts.environment.file_size = 1024;
  expect_only(facts, "limit_of_files", "ulimit -f unlimited");
}

TEST(Judge, OnlyAUtf8LocaleIsFine) {
  Facts facts = healthy();
  for (const char* locale : {"C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro"}) {
    facts.environment.locale = locale;
    EXPECT_EQ(names(facts), std::vector<std::string>{}) << locale;
  }
  for (const char* locale : {"", "C", "POSIX", "de_DE.ISO-8859-1"}) {
    facts.environment.locale = locale;
    expect_only(facts, "locale", "export LC_ALL=C.UTF-8");
  }
}

TEST(Judge, BusyProgramsAreAskedToStandBack) {
  Facts facts = healthy();
  facts.load = {.programs = {{.process = 42, .name = "chess", .cores = 1.5}}, .busy = 1.5};
  expect_only(facts, "busy_program", "renice -n 19 -p 42");
  facts.load.programs[0].is_ours = false;
  expect_only(facts, "busy_program", "sudo renice -n 19 -p 42");
  facts.load.programs[0] = {.process = 43, .name = "inkling-train", .cores = 1.5, .run_folder = "runs/a"};
  expect_only(facts, "another_run", "kill -INT 43");
  facts.load.programs[0].cores = 0.0;  // it is stopped
  facts.load.busy = 0.0;
  EXPECT_EQ(names(facts), std::vector<std::string>{});
  facts.load = {.busy = 2.0};
  expect_only(facts, "short_programs", "top");
  facts.load = {.stolen = 1.0};
  expect_only(facts, "stolen_time", "inkling-doctor --measure");
}

TEST(Judge, ASlowClockIsMendedByItsOwnFile) {
  Facts facts = healthy();
  facts.processor.clock_limit = 0.5;
  facts.processor.fastest_clock = 2900000;
  expect_only(facts, "clock_limited", "echo 2900000 | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq");
}

TEST(Judge, ThreadsThatGainNothingAreSeenInTheMeasurement) {
  Facts facts = healthy();
  facts.speed->products = {{1, 100e9}, {4, 101e9}};
  expect_only(facts, "threads_gain_nothing", "inkling-train CONFIG --set runtime.threads=1");
  facts.speed->thread_start = 0.01;  // the same, seen closer
  expect_only(facts, "threads_wait", "inkling-train CONFIG --set runtime.threads=1");
  facts.forecasts = {{.name = "small", .split = "batch"}};  // waits three times a step
  EXPECT_EQ(names(facts), std::vector<std::string>{});
  facts.forecasts.push_back({.name = "large", .split = "products"});
  expect_only(facts, "threads_wait", "inkling-train CONFIG --set runtime.threads=1");
  facts.speed->thread_start = 5e-6;
  facts.speed->products = {{1, 100e9}};
  EXPECT_EQ(names(facts), std::vector<std::string>{});
}

TEST(Judge, WhatStopsTrainingComesFirst) {
  Facts facts = healthy();
  facts.environment.locale = "C";
  facts.disks.front().free = 0;
  EXPECT_EQ(names(facts), (std::vector<std::string>{"disk_full", "locale"}));
}

}  // namespace
}  // namespace inkling::doctor
