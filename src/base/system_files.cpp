#include "base/system_files.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

constexpr std::size_t largest_text = std::size_t{4} << 20, length_of_read = 4096;

std::string without_frame(std::string_view text) {
  constexpr std::string_view frame = " \t\"'";
  const std::size_t first = text.find_first_not_of(frame);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(frame) - first + 1));
}

std::string remedy(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there or write to another disk, then run again";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and of its folders";
    case EROFS:
      return "write to a folder that is not read-only";
    case ENOENT:
    case ENOTDIR:
      return "check that the folder exists and that the name is spelled right";
    case EISDIR:
      return "it is a folder; give the name of a file";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case ELOOP:
      return "its symbolic links lead in a circle; give the name of a file";
    case EIO:
      return "the disk reports a fault; check it";
    case EFBIG:
      return "the file is larger than this disk or its limit (ulimit -f) allows";
    default:
      return "check the disk and the path";
  }
}

// Whether the name is at fault, and not the machine.
bool is_wrong_name(int code) {
  return code == ENOENT || code == ENOTDIR || code == EISDIR || code == ELOOP || code == ENAMETOOLONG ||
         code == ENXIO || code == ENODEV;  // the last two: a socket, a device without a driver
}

std::string reason(int code) { return errno_text(code) + "; " + remedy(code); }

}  // namespace

std::optional<std::string> SystemFiles::text(const std::filesystem::path& path) const {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(place(path), ignored)) return std::nullopt;
  std::ifstream file(place(path), std::ios::binary);
  if (!file) return std::nullopt;
  std::string found;  // such files have no size, and most are short
  while (file && found.size() < largest_text) {
    const std::size_t begin = found.size();
    found.resize(begin + length_of_read);
    file.read(found.data() + begin, length_of_read);
    found.resize(begin + static_cast<std::size_t>(file.gcount()));
  }
  return found;
}

std::vector<std::string> SystemFiles::lines(const std::filesystem::path& path) const {
  std::vector<std::string> all;
  std::istringstream stream(text(path).value_or(""));
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::string SystemFiles::line(const std::filesystem::path& path) const {
  const std::string found = text(path).value_or("");
  return found.substr(0, found.find('\n'));
}

std::optional<std::uint64_t> SystemFiles::number(const std::filesystem::path& path, std::string_view key) const {
  std::istringstream stream(text(path).value_or(""));
  stream.imbue(std::locale::classic());
  std::uint64_t number = 0;
  if (key.empty()) return stream >> number ? std::optional(number) : std::nullopt;
  for (std::string word; stream >> word;) {
    if (word == key) return stream >> number ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

std::string SystemFiles::field(const std::filesystem::path& path, std::string_view key) const {
  for (const std::string& line : lines(path)) {
    if (!line.starts_with(key)) continue;
    const std::size_t mark = line.find_first_not_of(" \t", key.size());
    if (mark != std::string::npos && (line[mark] == ':' || line[mark] == '=')) {
      return without_frame(std::string_view(line).substr(mark + 1));
    }
  }
  return "";
}

std::vector<std::string> SystemFiles::names(const std::filesystem::path& folder) const {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(place(folder), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    found.push_back(entry->path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool SystemFiles::has(const std::filesystem::path& path) const {
  std::error_code ignored;
  return std::filesystem::exists(place(path), ignored);
}

std::string SystemFiles::link(const std::filesystem::path& path) const {
  std::error_code ignored;
  return std::filesystem::read_symlink(place(path), ignored).string();
}

// /proc/self/cgroup has lines "0::/path" (version 2) and "4:memory:/path" or "4:cpu,cpuacct:/path" (version 1), and
// each group is in those above it.
std::vector<ControlGroup> control_groups(const SystemFiles& files, std::string_view resource) {
  std::vector<ControlGroup> groups;
  for (const std::string& line : files.lines("proc/self/cgroup")) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = str(",", line.substr(first + 1, second - first - 1), ",");
    const bool is_version2 = line.starts_with("0::");
    if (!is_version2 && controllers.find(str(",", resource, ",")) == std::string::npos) continue;
    const std::string root = is_version2 ? "sys/fs/cgroup" : str("sys/fs/cgroup/", resource);
    for (std::string path = line.substr(second + 1);;) {
      groups.push_back({root + path, is_version2});
      if (path.empty()) break;
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  }
  return groups;
}

std::string errno_text(int code) { return std::generic_category().message(code); }

bool has_no_locks(int code) { return code == ENOLCK || code == ENOSYS || code == ENOTSUP || code == EINVAL; }

void throw_write_error(const std::string& verb, const std::filesystem::path& path, int code) {
  throw Error::environment(str("cannot ", verb, " ", path.string(), ": ", reason(code)));
}

void throw_read_error(const std::filesystem::path& path, int code) {
  const ErrorKind kind = is_wrong_name(code) ? ErrorKind::input : ErrorKind::environment;
  throw Error(kind, str("cannot read ", path.string(), ": ", reason(code)));
}

}  // namespace inkling
