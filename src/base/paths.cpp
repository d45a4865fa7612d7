#include "base/paths.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/strings.h"

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

}  // namespace inkling
