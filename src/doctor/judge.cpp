// What is wrong with a machine: each part of it has a judge of its own.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/strings.h"
#include "doctor/doctor.h"

namespace inkling::doctor {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20, gibibyte = std::uint64_t{1} << 30;
constexpr std::uint64_t too_little_disk = 64 * mebibyte;  // a small run's checkpoints
constexpr double noticed_clock = 0.9;  // share of the fastest clock below which a run is clearly slower
constexpr double slow_start = 2e-4;    // seconds: no processor takes as long, so a thread was put off
constexpr double least_gain = 1.15;    // of all threads over one, where there are two or more

void warn(std::vector<Problem>& problems, std::string name, std::string text, std::string command) {
  problems.push_back({Severity::warning, std::move(name), std::move(text), std::move(command)});
}

void refuse(std::vector<Problem>& problems, std::string name, std::string text, std::string command) {
  problems.push_back({Severity::cannot, std::move(name), std::move(text), std::move(command)});
}

void judge_instructions(const InstructionSets& sets, const System& system, std::vector<Problem>& problems) {
  const std::string reset = "unset INKLING_INSTRUCTION_SET";
  if (sets.in_use.empty()) return refuse(problems, "instruction_set_missing", sets.why_none, reset);
  if (!sets.supported.empty() && sets.in_use != sets.supported.front()) {
    return warn(problems, "instruction_set_lowered",
                str("INKLING_INSTRUCTION_SET asks for ", sets.in_use, ", and this processor has ",
                    sets.supported.front(), ", which is faster"),
                reset);
  }
  if (sets.in_use == "baseline" && system.is_virtual) {
    warn(problems, "instruction_set_hidden",
         "this virtual machine shows no AVX2, which most processors have; give it the host's processor",
         "qemu-system-x86_64 -cpu host");
  }
}

void judge_clock(const Processor& processor, std::vector<Problem>& problems) {
  if (!processor.clock_limit || *processor.clock_limit >= noticed_clock) return;
  warn(problems, "clock_limited",
       str("the processor may only run at ", format_fixed(100 * *processor.clock_limit, 0), " % of its fastest clock"),
       str("echo ", processor.fastest_clock, " | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq"));
}

std::string show_largest(const Disk& disk) {
  const bool no_files = disk.all_files > 0 && disk.free_files == 0;
  return no_files ? "du --inodes -x . | sort -n | tail" : "du -xh . | sort -h | tail";
}

void judge_disk(const Disk& disk, std::vector<Problem>& problems) {
  const bool is_temporary = disk.use == "TMPDIR";
  const std::string elsewhere = is_temporary ? "export TMPDIR=/var/tmp" : "cd \"$HOME\"";
  const auto report = is_temporary ? warn : refuse;  // nothing that trains writes there
  if (!disk.is_writable) {
    return report(problems, "disk_not_writable",
                  str(disk.use, " cannot be written in ", disk.path, ": ", disk.why_not, "; take another folder"),
                  elsewhere);
  }
  const bool counts_files = disk.all_files > 0;
  if (disk.total > 0 && (disk.free < too_little_disk || (counts_files && disk.free_files == 0))) {
    return report(
        problems, "disk_full",
        disk.free < too_little_disk
            ? str("the disk for ", disk.use, " is full, ", format_bytes(disk.free), " are left in ", disk.path)
            : str("the disk for ", disk.use, " can hold no more files (", disk.path, ")"),
        is_temporary ? elsewhere : show_largest(disk));
  }
  if (is_temporary) return;
  if (disk.kind == "tmpfs" || disk.kind == "ramfs") {
    warn(problems, "disk_is_memory",
         str(disk.use, " would be in memory (", disk.path, " is a ", disk.kind,
             "): files there use memory that training needs, and are lost when the machine stops"),
         elsewhere);
  }
  if (disk.kind.starts_with("nfs") || disk.kind == "cifs" || disk.kind == "smb3" || disk.kind == "fuse.sshfs") {
    warn(problems, "disk_on_network",
         str(disk.use, " would be on a network disk (", disk.kind,
             "), where locks may not hold and a checkpoint is replaced in two steps"),
         elsewhere);
  }
}

void judge_room_for_checkpoints(const Facts& facts, std::vector<Problem>& problems) {
  if (facts.disks.empty() || facts.disks.front().total == 0 || facts.disks.front().free < too_little_disk) return;
  const std::uint64_t free = facts.disks.front().free;
  for (const Forecast& forecast : facts.forecasts) {
    if (!forecast.why_not.empty() || forecast.disk <= free) continue;
    warn(problems, "disk_too_small",
         str("the checkpoints of ", forecast.name, " take ", format_bytes(forecast.disk), ", and ", format_bytes(free),
             " are free in ", facts.disks.front().path),
         show_largest(facts.disks.front()));
  }
}

void judge_processor(const Facts& facts, std::vector<Problem>& problems) {
  judge_instructions(facts.instructions, facts.system, problems);
  if (!facts.choices.why_none.empty() && !facts.instructions.in_use.empty()) {
    refuse(problems, "nothing_computes", facts.choices.why_none, "inkling-train --version");
  }
  const Processor& processor = facts.processor;
  judge_clock(processor, problems);
  if (!facts.speed || facts.speed->products.size() < 2) return;
  const auto shares_out = [](const Forecast& forecast) { return forecast.split == "batch"; };
  // Threads that take micro-batches of their own lose little there.
  if (!facts.forecasts.empty() && std::all_of(facts.forecasts.begin(), facts.forecasts.end(), shares_out)) return;
  const ProductSpeed &one = facts.speed->products.front(), &all = facts.speed->products.back();
  const bool gains_nothing = one.threads == 1 && all.threads > 1 && all.flops < least_gain * one.flops;
  if (facts.speed->thread_start > slow_start) {
    warn(problems, "threads_wait",
         str("threads wait ", format_fixed(1000 * facts.speed->thread_start, 1),
             " ms for each other at each operation, because others take the cores; until these are done, a run whose "
             "products are split over the threads (runtime.split) is faster with one"),
         "inkling-train CONFIG --set runtime.threads=1");
  } else if (gains_nothing) {
    warn(problems, "threads_gain_nothing",
         str(all.threads, " threads multiply at ", format_fixed(all.flops / one.flops, 2),
             " times the speed of one; while others take the cores, a run whose products are split over the threads "
             "(runtime.split) is faster with one, because they wait for the slowest of them"),
         "inkling-train CONFIG --set runtime.threads=1");
  }
}

void judge_settings(const Facts& facts, std::vector<Problem>& problems) {
  const auto lacks = [](const Forecast& forecast) { return forecast.lacks_device; };
  const std::vector<Forecast>& all = facts.forecasts;
  if (all.empty() || !std::all_of(all.begin(), all.end(), lacks)) return;
  refuse(problems, "device_missing", str("no configuration has here what its settings ask for: ", all.front().why_not),
         str("inkling-doctor ", shell_word(all.front().path), " --set runtime.device=auto --set runtime.kernels=auto"));
}

void judge_memory(const Facts& facts, std::vector<Problem>& problems) {
  const std::uint64_t free = facts.memory.free().value_or(gibibyte);
  const bool is_group = facts.memory.group_free && facts.memory.group_free == facts.memory.free();
  const auto lacks = [](const Forecast& forecast) { return forecast.lacks_memory; };
  const auto works = [](const Forecast& forecast) { return forecast.why_not.empty(); };
  const std::string more = is_group && facts.system.is_container
                               ? "docker update --memory 8g --memory-swap 8g CONTAINER"
                           : is_group ? "systemd-run --user --scope -p MemoryMax=8G inkling-train CONFIG"
                                      : "ps -eo pid,rss,comm --sort -rss | head";
  const std::vector<Forecast>& all = facts.forecasts;
  if (std::any_of(all.begin(), all.end(), lacks) && std::none_of(all.begin(), all.end(), works)) {
    refuse(problems, "memory_too_small",
           str("no configuration fits into the ", format_bytes(free), " of memory that are free",
               is_group ? " below the control group's limit" : ""),
           more);
  } else if (free < gibibyte) {
    warn(problems, "memory_low",
         str("only ", format_bytes(free), " of memory are free", is_group ? " below the control group's limit" : ""),
         more);
  }
  for (const Forecast& forecast : facts.forecasts) {
    if (forecast.fits_with.empty()) continue;
    warn(problems, "config_too_large",
         str(forecast.name, " does not fit into the memory that is free; with these settings it does"),
         str("inkling-train ", shell_word(forecast.path), forecast.fits_with));
  }
  const Environment& environment = facts.environment;
  if (environment.address_space && facts.memory.total && *environment.address_space < 2 * *facts.memory.total) {
    warn(problems, "limit_of_addresses",
         str("this shell limits a program to ", format_bytes(*environment.address_space), " of address space"),
         "ulimit -v unlimited");
  }
  if (environment.file_size && *environment.file_size < 8 * gibibyte) {
    warn(problems, "limit_of_files",
         str("this shell lets no program write a file of more than ", format_bytes(*environment.file_size)),
         "ulimit -f unlimited");
  }
}

void judge_disks(const Facts& facts, std::vector<Problem>& problems) {
  for (auto disk = facts.disks.begin(); disk != facts.disks.end(); ++disk) {
    const auto is_same = [&](const Disk& before) {
      return before.total == disk->total && before.free == disk->free && before.is_writable == disk->is_writable;
    };
    if (std::none_of(facts.disks.begin(), disk, is_same)) judge_disk(*disk, problems);  // each disk is named once
  }
  judge_room_for_checkpoints(facts, problems);
}

void judge_load(const Facts& facts, std::vector<Problem>& problems) {
  constexpr double in_the_way = 0.25;  // of a core
  constexpr double noticed = 0.05;     // of an inkling-train that is not stopped
  constexpr std::size_t most = 3;      // who are named
  std::size_t named = 0;
  double seen = 0.0;
  for (const Program& program : facts.load.programs) {
    seen += program.cores;
    const std::string who = str(program.name, " (process ", program.process, ")");
    const std::string sudo = program.is_ours ? "" : "sudo ";
    if (!program.run_folder.empty() && program.cores >= noticed) {
      warn(problems, "another_run",
           str(who, " trains in ", program.run_folder, " and takes ", format_fixed(program.cores, 1),
               " cores; this command makes it save and end, and it resumes when it is started again"),
           str(sudo, "kill -INT ", program.process));
    } else if (program.cores >= in_the_way && named < most) {
      ++named;
      warn(problems, "busy_program", str(who, " takes ", format_fixed(program.cores, 1), " cores"),
           str(sudo, "renice -n 19 -p ", program.process));
    }
  }
  if (const double rest = facts.load.busy - seen; rest > 2 * in_the_way) {
    warn(problems, "short_programs",
         str("programs that come and go, or cannot be seen from here, take ", format_fixed(rest, 1), " cores"), "top");
  }
  if (facts.load.stolen > in_the_way) {
    warn(problems, "stolen_time",
         str("other virtual machines on this host took ", format_fixed(facts.load.stolen, 1),
             " cores just now; times vary, so measure more than once"),
         "inkling-doctor --measure");
  }
}

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
      {"ATEN_CPU_CAPABILITY", "limits which instructions LibTorch uses"},
      {"ONEDNN_MAX_CPU_ISA", "limits which instructions LibTorch uses"},
      {"MKL_ENABLE_INSTRUCTIONS", "limits which instructions LibTorch's matrix products use"},
      {"MKL_CBWR", "makes LibTorch's matrix products slower, and the same on all processors"},
      {"CUDA_LAUNCH_BLOCKING", "makes the program wait for each of the GPU's kernels"},
  }};
  for (const Effect& effect : effects) {
    const std::string* const value = find_variable(facts.environment, effect.name);
    if (value == nullptr) continue;
    warn(problems, "variable_set", str(effect.name, " is ", quote(*value), ", which ", effect.text),
         str("unset ", effect.name));
  }
}

bool is_utf8(std::string locale) {
  std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) { return std::tolower(c); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

void judge_graphics(const Facts& facts, std::vector<Problem>& problems) {
  const Graphics& graphics = facts.graphics;
  if (graphics.gpus.empty()) {
    if (is_expected(graphics)) problems.push_back(why_no_gpu(facts));
    return;
  }
  for (const Gpu& gpu : graphics.gpus) {
    if (gpu.free >= gpu.memory / 2) continue;
    warn(problems, "gpu_busy",
         str(format_bytes(gpu.free), " of ", format_bytes(gpu.memory), " are free on ", gpu.name,
             "; this shows who has the rest"),
         "nvidia-smi");
  }
}

void judge_software(const Facts& facts, std::vector<Problem>& problems) {
  const Libraries& libraries = facts.libraries;
  if (!libraries.torch_loaded.empty() && libraries.torch_loaded != libraries.torch_built) {
    warn(problems, "torch_version",
         str("LibTorch ", libraries.torch_loaded, " is loaded from ", libraries.torch_folder,
             ", and inkling was built for ", libraries.torch_built),
         libraries.from_library_path ? "unset LD_LIBRARY_PATH" : install_torch(libraries));
  }
  if (libraries.openmp.size() > 1) {
    const bool is_preloaded = find_variable(facts.environment, "LD_PRELOAD") != nullptr;
    warn(problems, "two_openmp",
         str(libraries.openmp.size(),
             " OpenMP libraries are loaded, whose threads are in each other's way: ", join(libraries.openmp, ", ")),
         is_preloaded ? "unset LD_PRELOAD" : "unset LD_LIBRARY_PATH");
  }
  judge_variables(facts, problems);
  if (!is_utf8(facts.environment.locale)) {
    warn(problems, "locale",
         str("the locale ", facts.environment.locale.empty() ? "is not set" : facts.environment.locale,
             facts.environment.locale.empty() ? "" : " is not UTF-8",
             ", so a terminal may show letters beyond ASCII wrongly"),
         "export LC_ALL=C.UTF-8");
  }
}

}  // namespace

std::vector<Problem> judge(const Facts& facts) {
  std::vector<Problem> problems;
  for (const auto part :
       {judge_processor, judge_settings, judge_memory, judge_disks, judge_graphics, judge_software, judge_load}) {
    part(facts, problems);
  }
  std::stable_partition(problems.begin(), problems.end(),
                        [](const Problem& problem) { return problem.severity == Severity::cannot; });
  return problems;
}

}  // namespace inkling::doctor
