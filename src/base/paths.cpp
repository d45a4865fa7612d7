#include "base/paths.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/strings.h"
#include "base/system_files.h"

namespace inkling {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code code;
  const bool there = fs::exists(path, code);
  if (code) throw_read_error(path, code.value());
  return there;
}

bool is_folder(const fs::path& path) {
  std::error_code code;
  return is_there(path) && fs::is_directory(path, code);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  fs::directory_iterator entry(folder, code);
  if (code.value() == ENOENT || code.value() == ENOTDIR) return names;
  while (!code && entry != fs::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(code);
  }
  if (code) throw_read_error(folder, code.value());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

bool is_inside(const fs::path& file, const fs::path& folder) { return file == folder / file.filename(); }

bool is_file_name(std::string_view name) {
  constexpr std::string_view separators("/\0", 2);
  return !name.empty() && name != "." && name != ".." && name.find_first_of(separators) == std::string_view::npos;
}

std::optional<fs::path> nearest_beside(const fs::path& path, std::string_view extension) {
  std::vector<std::string> names;
  try {
    names = names_in(folder_of(path));
  } catch (const Error&) {
    return std::nullopt;  // it is only a hint
  }
  std::erase_if(names, [&](const std::string& name) { return !name.ends_with(extension); });
  const auto nearest = nearest_name(path.filename().string(), names);
  return nearest ? std::optional(path.parent_path() / *nearest) : std::nullopt;
}

std::filesystem::path own_folder() {
  std::error_code ignored;
  Dl_info self{};
  // For a program the loader has only the name by which it was called.
  const bool found = dladdr(reinterpret_cast<const void*>(&own_folder), &self) != 0 && self.dli_fname != nullptr;
  if (found && std::string_view(self.dli_fname).ends_with(".so")) {
    return std::filesystem::canonical(self.dli_fname, ignored).parent_path();
  }
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::filesystem::path installed_share() {
  std::error_code ignored;
  const std::filesystem::path folder = own_folder();
  // Programs are in bin/ and in lib/inkling/.
  for (const std::filesystem::path& prefix : {folder.parent_path(), folder.parent_path().parent_path()}) {
    if (std::filesystem::is_directory(prefix / "share/inkling/configs", ignored)) return prefix / "share/inkling";
  }
  return {};
}

namespace {

constexpr std::time_t grace_seconds = 60;  // longer than any writer takes from creating to locking

std::string temporary_prefix(const fs::path& path) { return str(".", path.filename().string(), ".tmp-"); }

bool is_abandoned(const fs::path& temporary) {
  const int descriptor = ::open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat status{};
  const bool old = ::fstat(descriptor, &status) == 0 && status.st_mtime < std::time(nullptr) - grace_seconds;
  const bool free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  ::close(descriptor);
  return old && free;
}

}  // namespace

fs::path temporary_name(const fs::path& path, int attempt) {
  return folder_of(path) / str(temporary_prefix(path), ::getpid(), "-", attempt);
}

void lock_temporary(int descriptor) {
  // On a file system without locks the minute's grace is the only protection; that is not a reason to refuse to write.
  (void)::flock(descriptor, LOCK_EX | LOCK_NB);
}

void remove_everything(const fs::path& path) {
  std::error_code ignored;  // what cannot be tidied up does not matter to the writer
  fs::remove_all(path, ignored);
}

void remove_abandoned(const fs::path& path, void (*remove)(const fs::path&)) {
  std::error_code ignored;
  const std::string prefix = temporary_prefix(path);
  for (fs::directory_iterator entry(folder_of(path), ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->path().filename().string().starts_with(prefix) && is_abandoned(entry->path())) {
      remove(entry->path());
    }
  }
}

fs::path replaced_name(const fs::path& path) {
  return folder_of(path) / str(".", path.filename().string(), ".replaced");
}

void restore_replaced(const fs::path& folder) {
  const fs::path path = without_slash(folder);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored)) || !fs::is_directory(replaced_name(path), ignored)) return;
  // If the writer is alive and has gone on, this fails, as it should: a rename never replaces a folder that holds
  // something.
  fs::rename(replaced_name(path), path, ignored);
}

}  // namespace inkling
