#include "base/system_files.h"

#include <algorithm>
#include <fstream>
#include <sstream>

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

}  // namespace inkling
