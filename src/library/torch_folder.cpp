#include "library/torch_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

fs::path from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path home() { return from_environment("HOME"); }

// The names in a folder that begin so, newest Python first ("python3.11" after "python3.9" as text, hence by length);
// none if it cannot be read, which then holds nothing for us.
std::vector<std::string> names_beginning(const fs::path& folder, std::string_view beginning) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(beginning)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end(), [](const std::string& left, const std::string& right) {
    return left.size() != right.size() ? left.size() > right.size() : left > right;
  });
  return names;
}

// The version of the LibTorch in a folder, which Python's package keeps in version.py, and LibTorch's archive in
// build-version. None if there is no LibTorch.
std::optional<std::string> version_in(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "lib/libtorch_cpu.so", ignored)) return std::nullopt;
  std::string line;
  if (std::ifstream archive(folder / "build-version"); std::getline(archive, line)) return line;
  std::ifstream package(folder / "version.py");
  while (std::getline(package, line)) {
    const std::size_t begin = line.find('\''), end = line.rfind('\'');
    if (line.starts_with("__version__") && begin < end) return line.substr(begin + 1, end - begin - 1);
  }
  return "of an unknown version";
}

// Whether "2.11.0+cpu" is 2.11.0.
bool is_version(std::string_view found, std::string_view wanted) { return found.substr(0, found.find('+')) == wanted; }

class Search {
 public:
  explicit Search(std::string_view version) : version_(version) {}

  // Looks into a folder of Python packages.
  void look_in(const fs::path& packages) {
    if (!found_.folder.empty() || std::ranges::find(found_.looked_in, packages) != found_.looked_in.end()) return;
    found_.looked_in.push_back(packages);
    const fs::path folder = packages / "torch";
    const auto version = version_in(folder);
    if (!version) return;
    if (is_version(*version, version_)) {
      found_.folder = folder;
    } else {
      found_.other_versions.push_back(str(folder.string(), " (", *version, ")"));
    }
  }

  // Looks into all folders of Python packages below /usr, a virtual environment and the like.
  void look_below(const fs::path& prefix) {
    for (const char* const lib : {"lib", "lib64"}) {  // the latter on Fedora and its kin
      for (const std::string& python : names_beginning(prefix / lib, "python3")) look_in_python(prefix / lib / python);
    }
  }

  // Looks where the Pythons of $PATH have their packages.
  void look_on_path() {
    const std::string path = from_environment("PATH");
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find(':', begin), path.size());
      const fs::path folder = path.substr(begin, end - begin);
      begin = end + 1;
      for (const char* const python : {"python3", "python"}) look_beside(folder, python);
    }
  }

  TorchSearch take() { return std::move(found_); }

 private:
  void look_in_python(const fs::path& python) {
    for (const char* const packages : {"site-packages", "dist-packages"}) {
      std::error_code ignored;
      if (fs::is_directory(python / packages, ignored)) look_in(python / packages);
    }
  }

  void look_beside(const fs::path& folder, const char* python) {
    std::error_code ignored;
    if (!folder.is_absolute() || ::access((folder / python).c_str(), X_OK) != 0) return;
    look_below(folder.parent_path());
    // A link leads to the Python itself; pyenv has scripts instead, beside the folder of its Pythons.
    const fs::path target = fs::canonical(folder / python, ignored);
    if (!target.empty()) look_below(target.parent_path().parent_path());
    if (folder.filename() != "shims") return;
    const fs::path versions = folder.parent_path() / "versions";
    for (const std::string& version : names_beginning(versions, "3")) look_below(versions / version);
  }

  std::string_view version_;
  TorchSearch found_;
};

fs::path cache() {
  if (const fs::path named = from_environment("INKLING_CACHE"); !named.empty()) return named;
  if (const fs::path named = from_environment("XDG_CACHE_HOME"); !named.empty()) return named / "inkling";
  return home().empty() ? "" : home() / ".cache/inkling";
}

// The folder that INKLING_TORCH names: the package, or the one that holds it.
fs::path named_torch(const fs::path& named, std::string_view version) {
  for (const fs::path& folder : {named, named / "torch"}) {
    const auto found = version_in(folder);
    if (!found) continue;
    if (is_version(*found, version)) return fs::absolute(folder);
    throw Error::environment(str("INKLING_TORCH is ", named.string(), ", and its LibTorch is ", *found, ", not ",
                                 version,
                                 ", for which inkling was compiled; name another folder, or unset INKLING_TORCH"));
  }
  throw Error::environment(str("INKLING_TORCH is ", named.string(),
                               ", which holds no lib/libtorch_cpu.so; name the folder of Python's package torch ",
                               version, ", or unset INKLING_TORCH"));
}

// The command that installs LibTorch where it will be found.
std::string installing_command(std::string_view version) {
  const fs::path environment = from_environment("VIRTUAL_ENV");
  if (!environment.empty()) return str("python3 -m pip install torch==", version);
  // A virtual environment of its own works for everybody: many systems refuse pip beside their own packages.
  const std::string torch = (cache().empty() ? fs::path("/opt/inkling") : cache()) / "torch";
  return str("python3 -m venv ", shell_word(torch), " && ", shell_word(torch + "/bin/pip"),
             " install torch==", version);
}

}  // namespace

TorchSearch find_torch(std::string_view version, const fs::path& root) {
  if (const fs::path named = from_environment("INKLING_TORCH"); !named.empty()) {
    return {.folder = named_torch(named, version), .other_versions = {}, .looked_in = {named}};
  }
  Search search(version);
  for (const char* const active : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const fs::path prefix = from_environment(active); !prefix.empty()) search.look_below(prefix);
  }
  search.look_on_path();
  if (!home().empty()) search.look_below(home() / ".local");
  for (const char* const prefix : {"usr/local", "usr", "opt/inkling/torch"}) search.look_below(root / prefix);
  if (!cache().empty()) {
    for (const std::string& environment : names_beginning(cache(), "")) search.look_below(cache() / environment);
  }
  return search.take();
}

fs::path require_torch(std::string_view who, std::string_view version, const fs::path& root) {
  const TorchSearch search = find_torch(version, root);
  if (!search.folder.empty()) return search.folder;
  std::string message =
      str(who, " needs LibTorch ", version, ", which comes with Python's package torch and was not found.");
  if (!search.other_versions.empty()) {
    message += str("\n  other versions, which do not fit: ", join(search.other_versions, ", "));
  }
  std::vector<std::string> places;
  for (const fs::path& folder : search.looked_in) places.push_back(folder.string());
  message += str("\n  looked in: ", places.empty() ? "no Python packages were found" : join(places, ", "));
  message += str("\n  to install it: ", installing_command(version));
  message += "\n  or, where it is elsewhere: INKLING_TORCH=/path/to/torch";
  throw Error::environment(message);
}

}  // namespace inkling
