// find_system() and find_processor(), find_instruction_sets() of machine.h.
#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/strings.h"
#include "base/thread_choice.h"
#include "doctor/machine.h"
#include "kernels/cpu_kernels.h"

namespace inkling::doctor {
namespace {

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

// Drivers that choose the clock by themselves have a governor called powersave too, which keeps nothing low.
bool keeps_clock_low(const SystemFiles& files) {
  const std::filesystem::path clock = first_cpu / "cpufreq";
  const std::string driver = files.line(clock / "scaling_driver");
  const bool chooses_itself = driver.starts_with("intel_pstate") || driver.starts_with("amd-pstate-epp");
  return files.line(clock / "scaling_governor") == "powersave" && !chooses_itself;
}

void find_clock(const SystemFiles& files, Processor& processor) {
  const std::filesystem::path clock = first_cpu / "cpufreq";
  const auto allowed = files.number(clock / "scaling_max_freq"), fastest = files.number(clock / "cpuinfo_max_freq");
  if (allowed && fastest && *allowed < *fastest) {
    processor.clock_limit = static_cast<double>(*allowed) / static_cast<double>(*fastest);
    processor.fastest_clock = *fastest;
  }
  processor.is_turbo_off = files.number("sys/devices/system/cpu/intel_pstate/no_turbo") == 1U;
  if (keeps_clock_low(files)) processor.governor = "powersave";
  bool has_mains = false, is_plugged_in = false;
  for (const std::string& name : files.names("sys/class/power_supply")) {
    const std::filesystem::path supply = std::filesystem::path("sys/class/power_supply") / name;
    if (files.line(supply / "type") != "Mains") continue;
    has_mains = true;
    is_plugged_in = is_plugged_in || files.number(supply / "online") == 1U;
  }
  processor.is_on_battery = has_mains && !is_plugged_in;
}

}  // namespace

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

}  // namespace inkling::doctor
