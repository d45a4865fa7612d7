// judge_graphics() and judge_software() of judge.h: drivers, libraries, variables.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/strings.h"
#include "doctor/judge.h"

namespace inkling::doctor {
namespace {

constexpr std::int64_t oldest_driver = 580;  // that serves CUDA 13

const std::string* find_variable(const Environment& environment, std::string_view name) {
  for (const Variable& variable : environment.variables) {
    if (variable.name == name) return &variable.value;
  }
  return nullptr;
}

// Ubuntu has a package; elsewhere NVIDIA's own installer serves every distribution.
std::string install_driver(const System& system) {
  return system.family == "ubuntu" ? str("sudo apt-get install nvidia-driver-", oldest_driver)
                                   : str("sudo sh NVIDIA-Linux-x86_64-", oldest_driver, "*.run");
}

std::string where_from(const System& system) {
  if (system.is_container) return ", on the host of this container";
  return system.family == "ubuntu" ? "" : ", which nvidia.com/drivers has";
}

// Of pip, for the environment that LibTorch was loaded from. A LibTorch without CUDA has the same version to pip.
std::string install_torch(const Libraries& libraries) {
  const std::string& folder = libraries.torch_folder;
  const std::string before = folder.substr(0, folder.find("/lib/python"));
  const bool has_python = folder.find("/site-packages/") != std::string::npos && !before.ends_with("/.local");
  return str(has_python ? shell_word(before + "/bin/python3") : "python3",
             " -m pip install --force-reinstall torch==", libraries.torch_built);
}

Problem why_no_gpu(const Facts& facts) {
  const Graphics& graphics = facts.graphics;
  const auto warning = [](const char* name, std::string text, std::string command) {
    return Problem{Severity::warning, name, std::move(text), std::move(command)};
  };
  const std::string version = graphics.driver_version;
  const auto major = whole_number(version.substr(0, version.find('.')));
  if (major && *major < oldest_driver) {
    return warning("driver_too_old",
                   str("NVIDIA's driver is ", version, ", and CUDA 13 needs ", oldest_driver, " or later",
                       where_from(facts.system)),
                   install_driver(facts.system));
  }
  if (!graphics.has_device_files && facts.system.is_container) {
    return warning("gpu_not_in_container", "this container was started without the machine's NVIDIA GPU",
                   "docker run --gpus all IMAGE");
  }
  if (!graphics.has_device_files && !version.empty()) {
    return warning("device_files_missing", "NVIDIA's driver is loaded, but there is no /dev/nvidiactl",
                   "sudo nvidia-modprobe -u -c 0");
  }
  if (!graphics.has_device_files) {
    return warning("driver_missing",
                   str("this machine has an NVIDIA GPU, and ",
                       graphics.bus_driver.empty() ? std::string("no driver for it")
                                                   : str("the driver ", graphics.bus_driver, " has it"),
                       "; CUDA 13 needs NVIDIA's, ", oldest_driver, " or later", where_from(facts.system)),
                   install_driver(facts.system));
  }
  if (!graphics.locked_by.empty()) {
    return warning("gpu_locked",
                   str("only the group ", graphics.locked_by, " may use the GPU; join it, then log in again"),
                   str("sudo usermod -aG ", graphics.locked_by, " \"$USER\""));
  }
  const std::string* const visible = find_variable(facts.environment, "CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) {
    return warning("gpu_hidden",
                   str("CUDA_VISIBLE_DEVICES is ", quote(*visible), ", and no GPU can be used: ", graphics.why_none),
                   "unset CUDA_VISIBLE_DEVICES");
  }
  const bool has_half = std::any_of(facts.libraries.all.begin(), facts.libraries.all.end(), [](const Library& library) {
    return library.name == "LibTorch's CUDA half" && library.version != "none";
  });
  if (!has_half) {
    return warning("torch_without_cuda", "there is a GPU, but this LibTorch was built without CUDA",
                   install_torch(facts.libraries));
  }
  return warning("gpu_unusable", str("there is a GPU, but it cannot be used: ", graphics.why_none), "nvidia-smi");
}

bool is_expected(const Graphics& graphics) {
  const bool on_bus = std::count(graphics.devices.begin(), graphics.devices.end(), "NVIDIA") > 0;
  return on_bus || graphics.has_device_files || !graphics.driver_version.empty();
}

void judge_variables(const Facts& facts, std::vector<Problem>& problems) {
  struct Effect {
    const char *name, *text;
  };
  constexpr std::array<Effect, 8> effects = {{
      {"OMP_PROC_BIND", "binds threads to cores, which puts several on one where it does not fit the machine"},
      {"OMP_PLACES", "binds threads to cores, which puts several on one where it does not fit the machine"},
      {"GOMP_CPU_AFFINITY", "binds threads to cores, which puts several on one where it does not fit the machine"},
      {"ATEN_CPU_CAPABILITY", "lowers what LibTorch uses of this processor"},
      {"ONEDNN_MAX_CPU_ISA", "lowers what LibTorch uses of this processor"},
      {"MKL_ENABLE_INSTRUCTIONS", "lowers what LibTorch's products use of this processor"},
      {"MKL_CBWR", "makes LibTorch's products slower, and the same on all processors"},
      {"CUDA_LAUNCH_BLOCKING", "makes the program wait for each of the GPU's kernels"},
  }};
  for (const Effect& effect : effects) {
    const std::string* const value = find_variable(facts.environment, effect.name);
    if (value == nullptr) continue;
    problems.push_back({Severity::warning, "variable_set",
                        str(effect.name, " is ", quote(*value), ", which ", effect.text), str("unset ", effect.name)});
  }
}

bool is_utf8(std::string locale) {
  std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) { return std::tolower(c); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

}  // namespace

void judge_graphics(const Facts& facts, std::vector<Problem>& problems) {
  const Graphics& graphics = facts.graphics;
  if (graphics.gpus.empty()) {
    if (is_expected(graphics)) problems.push_back(why_no_gpu(facts));
    return;
  }
  for (const Gpu& gpu : graphics.gpus) {
    if (gpu.free >= gpu.memory / 2) continue;
    problems.push_back({Severity::warning, "gpu_busy",
                        str(format_bytes(gpu.free), " of ", format_bytes(gpu.memory), " are free on ", gpu.name,
                            "; this shows who has the rest"),
                        "nvidia-smi"});
  }
}

void judge_software(const Facts& facts, std::vector<Problem>& problems) {
  const Libraries& libraries = facts.libraries;
  if (!libraries.torch_loaded.empty() && libraries.torch_loaded != libraries.torch_built) {
    problems.push_back({Severity::warning, "torch_version",
                        str("LibTorch ", libraries.torch_loaded, " is loaded from ", libraries.torch_folder,
                            ", and inkling was built for ", libraries.torch_built),
                        libraries.from_library_path ? "unset LD_LIBRARY_PATH" : install_torch(libraries)});
  }
  if (libraries.openmp.size() > 1) {
    const bool is_preloaded = find_variable(facts.environment, "LD_PRELOAD") != nullptr;
    problems.push_back({Severity::warning, "two_openmp",
                        str(libraries.openmp.size(),
                            " OpenMP libraries are loaded, whose threads are in each other's "
                            "way: ",
                            join(libraries.openmp, ", ")),
                        is_preloaded ? "unset LD_PRELOAD" : "unset LD_LIBRARY_PATH"});
  }
  judge_variables(facts, problems);
  if (!is_utf8(facts.environment.locale)) {
    problems.push_back({Severity::warning, "locale",
                        str("the locale ", facts.environment.locale.empty() ? "is not set" : facts.environment.locale,
                            facts.environment.locale.empty() ? "" : " is not UTF-8",
                            ", so a terminal may show letters beyond ASCII wrongly"),
                        "export LC_ALL=C.UTF-8"});
  }
}

}  // namespace inkling::doctor
