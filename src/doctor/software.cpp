// Finds out what software a machine has: the libraries of this process, its environment, and what else runs.

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <gnu/libc-version.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/strings.h"
#include "doctor/facts.h"
#include "runtime/device.h"

namespace inkling::doctor {

namespace {

// "Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for …" -> "2024.2"; what comes behind
// "Version " or " v", up to what ends a version.
std::string version_behind(const std::string& text, std::string_view mark) {
  const std::size_t found = text.find(mark);
  if (found == std::string::npos) return "none";
  const std::size_t first = found + mark.size();
  return text.substr(first, text.find_first_not_of("0123456789.", first) - first);
}

// The paths of the libraries in this process whose names begin so.
std::vector<std::string> loaded_paths(const SystemFiles& files, std::initializer_list<std::string_view> beginnings) {
  std::set<std::string> found;
  for (const std::string& line : files.lines("proc/self/maps")) {
    const std::size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash), name = std::filesystem::path(path).filename().string();
    const bool is_asked = std::any_of(beginnings.begin(), beginnings.end(),
                                      [&](std::string_view beginning) { return name.starts_with(beginning); });
    if (is_asked) found.insert(path);
  }
  return {found.begin(), found.end()};
}

bool names_folder(const char* paths, const std::string& folder) {
  if (paths == nullptr || folder.empty()) return false;
  std::istringstream parts{std::string(paths)};
  std::error_code ignored;
  for (std::string part; std::getline(parts, part, ':');) {
    if (!part.empty() && std::filesystem::equivalent(part, folder, ignored)) return true;
  }
  return false;
}

// The version of the LibTorch in `folder`: a Python package has it in torch/version.py, an archive in build-version.
std::string version_of_torch(const SystemFiles& files, const std::filesystem::path& folder) {
  const std::string of_package = files.field(folder.parent_path() / "version.py", "__version__");
  const std::string text = of_package.empty() ? files.line(folder.parent_path() / "build-version") : of_package;
  return text.substr(0, text.find('+'));
}

std::optional<std::uint64_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// The variable as the user has it; null if it is not set. A launched program (src/apps/inkling-launch.cpp) finds
// LibTorch in a LD_LIBRARY_PATH that is its launcher's.
const char* users_value(const char* name) {
  const char* const before = std::getenv("INKLING_USERS_LIBRARY_PATH");
  if (before == nullptr || std::string_view(name) != "LD_LIBRARY_PATH") return std::getenv(name);
  return *before == '\0' ? nullptr : before;
}

constexpr double least_share = 0.05;  // of a core; what takes less is in nobody's way

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

std::filesystem::path folder_of(int process) { return std::filesystem::path("proc") / str(process); }

// A line "4711 (name that may hold anything) S 1 …": the 14th and 15th fields are ticks in the program and in the
// system for it, the 22nd is when it started.
std::optional<LoadReading::Process> read_process(const SystemFiles& files, int number) {
  const std::string line = files.text(folder_of(number) / "stat").value_or("");
  const std::size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  std::istringstream words(line.substr(close + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) words >> skipped;
  std::uint64_t in_program = 0, in_system = 0, started = 0;
  words >> in_program >> in_system;
  for (int field = 16; field < 22; ++field) words >> skipped;
  if (!(words >> started)) return std::nullopt;
  return LoadReading::Process{.process = number,
                              .started = started,
                              .ticks = in_program + in_system,
                              .name = line.substr(open + 1, close - open - 1)};
}

// A name that fits into a line, whatever a program calls itself.
std::string plain(std::string name) {
  constexpr std::size_t longest = 40;
  for (char& byte : name) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return name.size() > longest ? name.substr(0, longest - 3) + "..." : name;
}

// "python3 train.py" rather than "python3".
std::string name_of(const SystemFiles& files, const LoadReading::Process& process) {
  std::vector<std::string> words;
  std::istringstream line(files.text(folder_of(process.process) / "cmdline").value_or(""));
  for (std::string word; words.size() < 2 && std::getline(line, word, '\0');) words.push_back(word);
  if (words.empty()) return plain(process.name);
  const auto last_part = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  std::string name = last_part(words[0]);
  const bool reads_a_script = name.starts_with("python") || name == "bash" || name == "sh" || name == "perl";
  if (reads_a_script && words.size() > 1 && !words[1].starts_with('-')) name += " " + last_part(words[1]);
  return plain(name.empty() ? process.name : name);
}

// The folder whose .lock the process has open.
std::string run_folder_of(const SystemFiles& files, int process) {
  const std::filesystem::path open_files = folder_of(process) / "fd";
  for (const std::string& name : files.names(open_files)) {
    const std::filesystem::path file = files.link(open_files / name);
    if (file.filename() == ".lock") return file.parent_path().string();
  }
  return "";
}

bool may_signal(const SystemFiles& files, int process) {
  struct stat status{};
  if (::geteuid() == 0) return true;
  return ::stat(files.place(folder_of(process)).c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

}  // namespace

Libraries find_libraries(const SystemFiles& files) {
  Libraries libraries;
  libraries.torch_built = TORCH_VERSION;
  const std::vector<std::string> torch = loaded_paths(files, {"libtorch_cpu.so"});
  if (!torch.empty()) {
    const std::filesystem::path folder = std::filesystem::path(torch.front()).parent_path();
    libraries.torch_folder = folder.string();
    libraries.torch_loaded = version_of_torch(files, folder);
    libraries.from_library_path = names_folder(users_value("LD_LIBRARY_PATH"), libraries.torch_folder);
  }
  libraries.openmp = loaded_paths(files, {"libgomp", "libiomp", "libomp"});
  const std::filesystem::path cuda = cuda_library_path();
  const bool has_cuda = files.has(cuda), has_torch_cuda = files.has(libraries.torch_folder + "/libtorch_cuda.so");
  libraries.all = {{"inkling", INKLING_VERSION},
                   {"LibTorch", libraries.torch_loaded.empty() ? libraries.torch_built : libraries.torch_loaded,
                    libraries.torch_folder},
                   {"MKL", version_behind(at::get_mkl_version(), "Version ")},
                   {"oneDNN", version_behind(at::get_mkldnn_version(), " v")},
                   {"sentencepiece", INKLING_SENTENCEPIECE_VERSION},
                   {"glibc", gnu_get_libc_version()},
                   {"LibTorch's CUDA half", has_torch_cuda ? "there" : "none"},
                   {"inkling's CUDA half", has_cuda ? "there" : "none", has_cuda ? "" : cuda.string()}};
  return libraries;
}

Environment find_environment() {
  constexpr std::array known = {
      "INKLING_INSTRUCTION_SET", "OMP_NUM_THREADS",     "OMP_THREAD_LIMIT",   "OMP_DYNAMIC",
      "OMP_PROC_BIND",           "OMP_PLACES",          "OMP_WAIT_POLICY",    "GOMP_CPU_AFFINITY",
      "GOMP_SPINCOUNT",          "MKL_NUM_THREADS",     "MKL_DYNAMIC",        "MKL_CBWR",
      "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "CUDA_VISIBLE_DEVICES",
      "CUDA_LAUNCH_BLOCKING",    "LD_LIBRARY_PATH",     "LD_PRELOAD"};
  Environment environment;
  for (const char* name : known) {
    if (const char* const value = users_value(name)) environment.variables.push_back({name, value});
  }
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    environment.locale = value;
    break;
  }
  environment.address_space = limit_of(RLIMIT_AS);
  environment.file_size = limit_of(RLIMIT_FSIZE);
  return environment;
}

LoadReading read_load(const SystemFiles& files) {
  LoadReading reading;
  std::istringstream processors(files.line("proc/stat"));  // cpu user nice system idle iowait irq softirq steal …
  std::string word;
  std::uint64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
  if (processors >> word >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen) {
    reading.busy = user + nice + system + interrupts + soft;
    reading.stolen = stolen;
  }
  for (const std::string& name : files.names("proc")) {
    if (!is_number(name) || name.size() > 9) continue;
    if (auto process = read_process(files, std::stoi(name))) reading.processes.push_back(std::move(*process));
  }
  reading.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return reading;
}

Load find_load(const SystemFiles& files, const LoadReading& before, const LoadReading& after, int without) {
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK)) * std::max(after.seconds - before.seconds, 1e-3);
  const auto cores = [&](std::uint64_t from, std::uint64_t to) {
    return to > from ? static_cast<double>(to - from) / ticks : 0.0;
  };
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> ticks_before;
  for (const auto& process : before.processes) ticks_before[{process.process, process.started}] = process.ticks;
  Load load{.stolen = cores(before.stolen, after.stolen), .busy = cores(before.busy, after.busy)};
  std::istringstream(files.line("proc/loadavg")) >> load.average;
  for (const auto& process : after.processes) {
    const auto known = ticks_before.find({process.process, process.started});
    if (known == ticks_before.end()) continue;
    const double share = cores(known->second, process.ticks);
    if (process.process == without) {
      load.busy = std::max(load.busy - share, 0.0);
      continue;
    }
    const bool is_run = process.name == "inkling-train";
    if (share < least_share && !is_run) continue;
    load.programs.push_back({.process = process.process,
                             .name = name_of(files, process),
                             .cores = share,
                             .is_ours = may_signal(files, process.process),
                             .run_folder = is_run ? run_folder_of(files, process.process) : ""});
  }
  std::stable_sort(load.programs.begin(), load.programs.end(),
                   [](const Program& a, const Program& b) { return a.cores > b.cores; });
  return load;
}

}  // namespace inkling::doctor
