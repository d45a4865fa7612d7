// find_libraries() and find_environment() of machine.h.
#include <ATen/Version.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <sstream>

#include "backend/choose.h"
#include "base/strings.h"
#include "doctor/machine.h"

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

}  // namespace inkling::doctor
