// find_graphics() and find_gpus() of machine.h.
#include <ATen/Context.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/strings.h"
#include "doctor/machine.h"
#include "runtime/device.h"
#include "runtime/device_facts.h"

namespace inkling::doctor {
namespace {

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
