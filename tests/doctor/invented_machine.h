// Machines that do not exist: the facts of one on which all is well, and a folder with the /proc and /sys of any.
#pragma once

#include <filesystem>
#include <string>

#include "base/system_files.h"
#include "doctor/facts.h"
#include "tests/temporary_folder.h"

namespace inkling::doctor {

// The facts of a machine on which all is well, to be made worse.
inline Facts healthy() {
  constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;
  Facts facts;
  facts.system = {.distribution = "Ubuntu 24.04", .family = "ubuntu", .kernel = "6.8.0"};
  facts.processor = {
      .model = "A Processor", .threads = 8, .cores = 4, .usable_threads = 8, .caches = {{1, 32768}, {3, 32 << 20}}};
  facts.instructions = {
      .in_use = "avx512", .supported = {"avx512", "avx2", "baseline"}, .compiled = {"avx512", "avx2", "baseline"}};
  facts.memory = {.total = 16 * gibibyte, .available = 12 * gibibyte};
  facts.disks = {{.use = "runs/",
                  .path = "/home/me",
                  .kind = "ext4",
                  .total = 500 * gibibyte,
                  .free = 100 * gibibyte,
                  .free_files = 1000000,
                  .all_files = 2000000}};
  facts.graphics = {.why_none = "no NVIDIA driver runs here: there is no /dev/nvidiactl"};
  facts.libraries = {.all = {{"LibTorch", "2.11.0"}},
                     .torch_built = "2.11.0",
                     .torch_loaded = "2.11.0",
                     .torch_folder = "/opt/torch/lib",
                     .openmp = {"/opt/torch/lib/libgomp.so.1"}};
  facts.environment.locale = "en_US.UTF-8";
  facts.load = {.average = 0.1, .busy = 0.1};
  facts.speed = Speed{.dtype = "float32", .device = "cpu", .products = {{1, 100e9}, {4, 380e9}}, .memory = 25e9};
  facts.choices = {.all = {{"device", "cpu", "there is no GPU"}}};
  facts.forecasts = {{.name = "fables",
                      .path = "configs/fables.yaml",
                      .parameters = 570880,
                      .memory = 35 << 20,
                      .vocabulary = 1280,
                      .runs_on = "cpu, 4 threads in float32",
                      .steps = 3600,
                      .batch_size = 12,
                      .micro_batch_size = 12,
                      .step_seconds = 0.03,
                      .run_seconds = 120,
                      .arithmetic_share = 0.9,
                      .disk = 20 << 20}};
  return facts;
}

class InventedMachine {
 public:
  const InventedMachine& says(const std::string& file, const std::string& text) const {
    folder_.write(file, text);
    return *this;
  }
  const InventedMachine& links(const std::string& file, const std::string& to) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::filesystem::create_symlink(to, folder_ / file);
    return *this;
  }
  SystemFiles files() const { return SystemFiles(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

// What /proc/PID/stat says of a process that has used so many ticks.
inline std::string stat_line(int process, const std::string& name, int ticks, int started = 5) {
  const std::string number = std::to_string(process);
  return number + " (" + name + ") S 1 " + number + " " + number + " 0 -1 4194560 45 25 11 9 " + std::to_string(ticks) +
         " 0 0 0 20 0 1 0 " + std::to_string(started) + " 5197 47 184 1 1 0 0\n";
}

}  // namespace inkling::doctor
