#include "data/source.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/error.h"
#include "base/file_errors.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/strings.h"
#include "data/dataset_manifest.h"
#include "formats/pickle.h"

namespace inkling {

namespace {

FileKind kind_of(const fs::path& path) {
  const std::string extension = decompressed_name(path).extension().string();
  if (extension == ".jsonl") return FileKind::jsonl;
  if (extension == ".grammar") return FileKind::grammar;
  if (extension == ".bin") return FileKind::tokens;
  return FileKind::text;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// What to do about a path that does not exist.
std::string missing_remedy(const fs::path& path, std::string_view setting) {
  const std::string another = str(", or give --set ", setting, "=PATH");
  if (path.filename() == "shakespeare.txt") return str("scripts/fetch-shakespeare fetches it", another);
  if (const auto nearest = nearest_beside(path)) return str("did you mean ", nearest->string(), "?");
  if (path.is_absolute()) return str("write the path of a text file or of a folder of them", another);
  std::error_code ignored;
  return str("write a path that starts from ", fs::current_path(ignored).string(), another);
}

std::vector<SourceFile> list_folder(const fs::path& folder) {
  std::vector<SourceFile> files;
  fs::recursive_directory_iterator entry(folder), end;
  for (; entry != end; ++entry) {
    if (entry->is_directory()) {
      if (entry->is_symlink()) continue;
      if (is_hidden(entry->path()) || is_dataset_folder(entry->path())) entry.disable_recursion_pending();
    } else if (!is_hidden(entry->path()) && entry->is_regular_file()) {
      SourceFile file = examine_file(entry->path());
      if (file.stamp.size > 0) files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& left, const SourceFile& right) {
    return left.path.generic_string() < right.path.generic_string();
  });
  return files;
}

// The paths an entry stands for: itself, or what a pattern like "shards/train_*.bin" matches, sorted.
std::vector<fs::path> paths_of(const std::string& entry, std::string_view setting) {
  std::error_code code;
  if (fs::exists(entry, code)) return {entry};
  if (entry.find_first_of("*?[") == std::string::npos) {
    throw Error::input(str(setting, ": ", entry, " does not exist: ", missing_remedy(entry, setting)));
  }
  glob_t matches{};
  std::vector<fs::path> paths;
  if (::glob(entry.c_str(), 0, nullptr, &matches) == 0)
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) throw Error::input(str(setting, ": nothing matches the pattern ", entry, ": check its spelling"));
  return paths;
}

Source list_source(const std::string& entry, std::string_view setting) {
  Source source{entry, {}};
  try {
    for (const fs::path& path : paths_of(entry, setting)) {
      std::vector<SourceFile> files = fs::is_directory(path) ? list_folder(path) : std::vector{examine_file(path)};
      std::move(files.begin(), files.end(), std::back_inserter(source.files));
    }
  } catch (const fs::filesystem_error& error) {
    throw Error::input(str(setting, ": cannot list ", error.path1().string(), ": ", error.code().message(),
                           "; change its permissions or name the files one by one"));
  }
  if (source.files.empty()) {
    throw Error::input(str(setting, ": the folder ", entry, " holds no text: hidden and empty files do not count"));
  }
  if (source.size() == 0) throw Error::input(str(entry, ":1: the file is empty: put text into it or name another"));
  return source;
}

}  // namespace

std::uint64_t Source::size() const {
  std::uint64_t total = 0;
  for (const SourceFile& file : files) total += file.stamp.size;
  return total;
}

SourceFile examine_file(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw_read_error(path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error::input(
        str(path.string(), " is not a regular file: it is read more than once, so save it as a file first"));
  }
  const FileStamp stamp{
      .size = static_cast<std::uint64_t>(status.st_size),
      .mtime_ns = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec,
      .inode = static_cast<std::uint64_t>(status.st_ino)};
  return {path, kind_of(path), compression_of(path), stamp};
}

void refuse_no_text(const SourceFile& file) {
  if (is_named_pickle(file.path)) refuse_pickle(file.path);
  const std::string name = file.path.string(), ending = decompressed_name(file.path).extension().string();
  if (ending == ".tar" || ending == ".tgz" || ending == ".tzst") {
    throw Error::input(str(name, " is an archive of files: unpack it and name its folder or its files"));
  }
  if (ending == ".safetensors") throw Error::input(str(name, " holds a model's weights, not text: name the text"));
}

std::vector<Source> list_sources(const std::vector<std::string>& entries, std::string_view setting) {
  std::vector<Source> sources;
  for (const std::string& entry : entries) sources.push_back(list_source(entry, setting));
  return sources;
}

}  // namespace inkling
