// Finds out what a machine consists of: its processor, disks and GPUs.

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <ATen/Context.h>

#include <grp.h>
#include <algorithm>
#include <cerrno>
#include <sstream>

#include "base/disk_room.h"
#include "base/error.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "base/thread_choice.h"
#include "doctor/facts.h"
#include "kernels/cpu_kernels.h"
#include "runtime/device.h"

namespace inkling::doctor {

namespace {

bool holds(const std::string& mount, const std::string& path) {
  return mount == "/" || path == mount || path.starts_with(mount + "/");
}

// The kind of the file system that holds `path`, from lines "36 35 98:0 /root /mount options - ext4 device …".
std::string kind_of(const SystemFiles& files, const std::filesystem::path& path) {
  std::string kind;
  std::size_t longest = 0;
  for (const std::string& line : files.lines("proc/self/mountinfo")) {
    std::istringstream words(line);
    std::string skipped, mount;
    words >> skipped >> skipped >> skipped >> skipped >> mount;
    const std::size_t mark = line.find(" - ");
    if (mark == std::string::npos || !holds(mount, path.string()) || mount.size() < longest) continue;
    longest = mount.size();  // a later line of the same place is mounted over it
    kind = line.substr(mark + 3, line.find(' ', mark + 3) - mark - 3);
  }
  return kind;
}

const std::filesystem::path first_cpu = "sys/devices/system/cpu/cpu0";

// "32768K", "1M" -> bytes.
std::uint64_t size_of(const std::string& text) {
  if (text.empty()) return 0;
  const std::uint64_t unit = text.back() == 'K' ? 1024 : text.back() == 'M' ? 1024 * 1024 : 1;
  return static_cast<std::uint64_t>(whole_number(text.substr(0, text.size() - (unit > 1 ? 1 : 0))).value_or(0)) * unit;
}

// The word number `index`, from 0: "6.1.0-18-amd64" of "Linux version 6.1.0-18-amd64 (…".
std::string word_of_line(const std::string& line, int index) {
  std::istringstream words(line);
  std::string word;
  while (index-- >= 0 && words >> word) {
  }
  return words ? word : "";
}

std::vector<CacheSize> find_caches(const SystemFiles& files) {
  std::vector<CacheSize> caches;
  for (const std::string& name : files.names(first_cpu / "cache")) {
    const std::filesystem::path cache = first_cpu / "cache" / name;
    if (files.line(cache / "type") == "Instruction") continue;
    const std::uint64_t bytes = size_of(files.line(cache / "size"));
    const int level = static_cast<int>(files.number(cache / "level").value_or(0));
    if (bytes > 0 && level > 0) caches.push_back({level, bytes});
  }
  std::sort(caches.begin(), caches.end(), [](const auto& a, const auto& b) { return a.level < b.level; });
  return caches;
}

// The clock that the system allows, where it is less than the fastest one.
void find_clock(const SystemFiles& files, Processor& processor) {
  const std::filesystem::path clock = first_cpu / "cpufreq";
  const auto allowed = files.number(clock / "scaling_max_freq"), fastest = files.number(clock / "cpuinfo_max_freq");
  if (allowed && fastest && *allowed < *fastest) {
    processor.clock_limit = static_cast<double>(*allowed) / static_cast<double>(*fastest);
    processor.fastest_clock = *fastest;
  }
}

std::string maker_of(const std::string& vendor) {
  return vendor == "0x10de" ? "NVIDIA" : vendor == "0x1002" ? "AMD" : vendor == "0x8086" ? "Intel" : "";
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …" -> "535.104.05"
std::string version_in(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool is_version = word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos && word.front() != '.';
    if (is_version) return word;
  }
  return "";
}

// The group that owns the device's file, if this process may not open it.
std::string locking_group(const std::filesystem::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0 || ::access(file.c_str(), R_OK | W_OK) == 0) return "";
  const group* const owner = ::getgrgid(status.st_gid);
  return owner == nullptr ? str(status.st_gid) : owner->gr_name;
}

}  // namespace

Disk find_disk(const SystemFiles& files, const std::string& use, const std::filesystem::path& path) {
  const DiskSpace space = disk_space(path);
  const std::filesystem::path& folder = space.folder;
  Disk disk{
      .use = use, .path = folder.string(), .kind = kind_of(files, folder), .total = space.total, .free = space.free};
  struct statvfs found{};
  if (::statvfs(folder.c_str(), &found) == 0) {
    disk.free_files = found.f_favail;
    disk.all_files = found.f_files;
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    disk.is_writable = false;
    disk.why_not = errno_text(errno);
  }
  return disk;
}

System find_system(const SystemFiles& files) {
  const std::string like = files.field("etc/os-release", "ID_LIKE"), id = files.field("etc/os-release", "ID");
  const std::string groups = files.text("proc/1/cgroup").value_or("");
  return {.distribution = files.field("etc/os-release", "PRETTY_NAME"),
          .family = like.find("ubuntu") != std::string::npos ? "ubuntu" : id,
          .kernel = word_of_line(files.line("proc/version"), 2),
          .is_virtual = files.text("proc/cpuinfo").value_or("").find(" hypervisor") != std::string::npos,
          .is_container = files.has(".dockerenv") || files.has("run/.containerenv") ||
                          groups.find("docker") != std::string::npos || groups.find("kubepods") != std::string::npos};
}

Processor find_processor(const SystemFiles& files) {
  Processor processor;
  processor.model = files.field("proc/cpuinfo", "model name");
  for (const std::string& line : files.lines("proc/cpuinfo")) processor.threads += line.starts_with("processor\t");
  processor.quota = find_cpu_quota(files);
  processor.caches = find_caches(files);
  find_clock(files, processor);
  return processor;
}

InstructionSets find_instruction_sets() {
  InstructionSets sets;
  for (const CpuKernels* kernels : all_cpu_kernels()) sets.supported.emplace_back(kernels->name);
  for (const std::string_view name : compiled_instruction_sets()) sets.compiled.emplace_back(name);
  try {
    sets.in_use = cpu_kernels().name;
  } catch (const Error& error) {
    sets.why_none = error.message();
  }
  return sets;
}

Graphics find_graphics(const SystemFiles& files) {
  Graphics graphics;
  const std::filesystem::path bus = "sys/bus/pci/devices";
  for (const std::string& name : files.names(bus)) {
    const std::string maker = maker_of(files.line(bus / name / "vendor"));
    if (maker.empty() || !files.line(bus / name / "class").starts_with("0x03")) continue;  // displays and 3D processors
    graphics.devices.push_back(maker);
    if (maker == "NVIDIA") {
      graphics.bus_driver = std::filesystem::path(files.link(bus / name / "driver")).filename().string();
    }
  }
  graphics.driver_version = version_in(files.line("proc/driver/nvidia/version"));
  graphics.has_device_files = files.has("dev/nvidiactl") || files.has("dev/dxg");
  graphics.locked_by = locking_group(files.place("dev/nvidiactl"));
  return graphics;
}

void find_gpus(const SystemFiles& files, Graphics& graphics) {
  graphics.why_none = why_no_cuda();
  if (!graphics.why_none.empty()) return;
  std::vector<std::string> models;
  const std::filesystem::path folder = "proc/driver/nvidia/gpus";
  for (const std::string& bus : files.names(folder))
    models.push_back(files.field(folder / bus / "information", "Model"));
  const std::size_t count = at::getNumGPUs();
  for (std::size_t index = 0; index < count; ++index) {
    const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(index));
    const DeviceMemory memory = device_memory(device).value_or(DeviceMemory{});
    const ComputeCapability capability = compute_capability(device);
    std::string name = gpu_name(device);
    if (name.empty() && models.size() == count) name = models[index];
    graphics.gpus.push_back({.name = name.empty() ? "an NVIDIA GPU" : name,
                             .memory = memory.total,
                             .free = memory.free,
                             .major = capability.major,
                             .minor = capability.minor});
  }
}

}  // namespace inkling::doctor
