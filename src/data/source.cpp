#include "data/source.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/strings.h"
#include "base/system_files.h"
#include "data/dataset_manifest.h"
#include "formats/foreign_file.h"

namespace inkling {

namespace {

FileKind kind_of(const fs::path& path) {
  const std::string extension = ending_of(decompressed_name(path));
  if (extension == ".jsonl" || extension == ".ndjson" || extension == ".jsonlines") return FileKind::jsonl;
  if (extension == ".json") return FileKind::json;
  if (extension == ".grammar") return FileKind::grammar;
  if (extension == ".bin") return FileKind::tokens;
  return FileKind::text;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// What to do about a path that does not exist.
std::string missing_remedy(const fs::path& path, std::string_view setting) {
  const std::string another = str(", or name another at ", setting);
  if (path.filename() == "shakespeare.txt") return str("scripts/fetch-shakespeare fetches it", another);
  if (const auto nearest = nearest_beside(path)) return str("did you mean ", nearest->string(), "?");
  if (path.is_absolute()) return str("write the path of a text file or of a folder of them", another);
  std::error_code ignored;
  return str("write a path that starts from ", fs::current_path(ignored).string(), another);
}

// Files that are not read, for one line about all of them.
struct PassedOver {
  std::size_t count = 0;
  std::string first;  // "letters/.git"

  void add(const fs::path& path) {
    if (count++ == 0 || path.string() < first) first = path.string();
  }
  std::string line(std::string_view from, std::string_view setting, std::string_view one,
                   std::string_view several) const {
    return str(setting, ": ", from, ": passed over ", format_count(count), count == 1 ? one : several, " (", first,
               count > 1 ? ", …)" : ")");
  }
};

void tell_of_pictures(const PassedOver& files, std::string_view from, std::string_view setting) {
  if (files.count == 0) return;
  log_warning(files.line(from, setting, " file that holds no text", " files that hold no text"));
}

struct Folder {
  std::vector<SourceFile> files;    // sorted by path
  PassedOver hidden, without_text;  // the second: pictures and the like
  PassedOver to_convert;
};

void add_file(const fs::path& path, bool raw, Folder& folder) {
  const auto foreign = raw ? std::nullopt : foreign_by_name(path);
  if (foreign) return (foreign->inside == Inside::no_text ? folder.without_text : folder.to_convert).add(path);
  if (!raw && is_named_pickle(path)) return folder.to_convert.add(path);
  SourceFile file = examine_file(path);
  file.was_found = true;
  if (file.stamp.size > 0) folder.files.push_back(std::move(file));
}

Folder list_folder(const fs::path& path, bool raw) {
  Folder folder;
  fs::recursive_directory_iterator entry(path), end;
  for (; entry != end; ++entry) {
    const bool is_folder = entry->is_directory();
    if (is_folder && entry->is_symlink()) continue;
    if (is_hidden(entry->path())) folder.hidden.add(entry->path());
    if (is_folder && (is_hidden(entry->path()) || is_dataset_folder(entry->path()))) entry.disable_recursion_pending();
    if (is_folder || is_hidden(entry->path())) continue;
    const bool leads_nowhere = entry->is_symlink() && !entry->exists();  // its text would be missed
    if (entry->is_regular_file() || leads_nowhere) add_file(entry->path(), raw, folder);
  }
  std::sort(folder.files.begin(), folder.files.end(), [](const SourceFile& left, const SourceFile& right) {
    return left.path.generic_string() < right.path.generic_string();
  });
  return folder;
}

// What a remedy writes is found beside the original, which is refused again.
constexpr std::string_view cannot_stay =
    "; then move the original out of the folder, or name the files to read one by one";

// `before` begins the message.
void refuse_found_name(const fs::path& path, const std::string& before = "") {
  try {
    refuse_foreign_name(path);
  } catch (const Error& error) {
    throw Error::input(str(before, error.message(), cannot_stay));
  }
}

void refuse_to_convert(const fs::path& path, const PassedOver& files) {
  if (files.count == 1) return refuse_found_name(files.first);
  refuse_found_name(files.first, str(path.string(), " holds ", format_count(files.count),
                                     " files that are no texts as they stand; the first: "));
}

std::vector<SourceFile> files_of_folder(const fs::path& path, const SourceOptions& options) {
  Folder folder = list_folder(path, options.raw);
  if (folder.to_convert.count > 0) refuse_to_convert(path, folder.to_convert);
  if (folder.hidden.count > 0) {
    log_info(folder.hidden.line(path.string(), options.setting, " hidden file or folder", " hidden files and folders"));
  }
  tell_of_pictures(folder.without_text, path.string(), options.setting);
  return std::move(folder.files);
}

// Such as "shards/train_*.bin". Throws Error input for what is neither that nor there.
bool is_pattern(const std::string& entry, std::string_view setting) {
  std::error_code code;
  if (fs::exists(entry, code) || fs::is_symlink(entry, code)) return false;
  if (entry.find_first_of("*?[") != std::string::npos) return true;
  throw Error::input(str(setting, ": ", entry, " does not exist: ", missing_remedy(entry, setting)));
}

std::vector<fs::path> matches_of(const std::string& entry, std::string_view setting) {
  glob_t matches{};
  std::vector<fs::path> paths;
  if (::glob(entry.c_str(), 0, nullptr, &matches) == 0)
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) throw Error::input(str(setting, ": nothing matches the pattern ", entry, ": check its spelling"));
  return paths;
}

std::vector<SourceFile> files_at(const fs::path& path, const SourceOptions& options) {
  if (fs::is_directory(path)) return files_of_folder(path, options);
  std::vector<SourceFile> files{examine_file(path)};
  if (!options.raw) refuse_foreign_name(path);
  return files;
}

std::vector<SourceFile> files_of_pattern(const std::string& pattern, const SourceOptions& options) {
  std::vector<SourceFile> files;
  PassedOver without_text;
  for (const fs::path& path : matches_of(pattern, options.setting)) {
    if (fs::is_directory(path)) {
      std::vector<SourceFile> inside = files_of_folder(path, options);
      std::move(inside.begin(), inside.end(), std::back_inserter(files));
      continue;
    }
    const auto foreign = options.raw ? std::nullopt : foreign_by_name(path);
    if (foreign && foreign->inside == Inside::no_text) {
      without_text.add(path);
      continue;
    }
    files.push_back(examine_file(path));
    files.back().was_found = true;
    if (!options.raw) refuse_found_name(path);
  }
  tell_of_pictures(without_text, pattern, options.setting);
  return files;
}

Source list_source(const std::string& entry, const SourceOptions& options) {
  const std::string_view setting = options.setting;
  Source source{entry, {}};
  try {
    source.files = is_pattern(entry, setting) ? files_of_pattern(entry, options) : files_at(entry, options);
  } catch (const fs::filesystem_error& error) {
    throw Error::input(str(setting, ": cannot list ", error.path1().string(), ": ", error.code().message(),
                           "; change its permissions or name the files one by one"));
  }
  if (source.files.empty()) {
    throw Error::input(str(setting, ": ", entry, " holds no text: hidden and empty files do not count"));
  }
  for (SourceFile& file : source.files) {
    if (options.raw) file.kind = FileKind::raw;
    file.any_encoding = options.any_encoding;
  }
  if (source.size() == 0) throw Error::input(str(entry, ":1: the file is empty: put text into it or name another"));
  return source;
}

std::string description(const fs::path& path, const ForeignFile& foreign) {
  return str(path.string(), " is ", foreign.what, ": ", foreign.remedy);
}

std::string description_with_raw(const fs::path& path, const ForeignFile& foreign) {
  return str(description(path, foreign), "; ",
             foreign.inside == Inside::characters ? "" : "with data.tokenizer.kind: byte, ",
             "data.raw: true takes every file as it is");
}

}  // namespace

std::uint64_t Source::size() const {
  std::uint64_t total = 0;
  for (const SourceFile& file : files) total += file.stamp.size;
  return total;
}

SourceFile examine_file(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    const int reason = errno;
    std::error_code none;
    const fs::path aim = fs::read_symlink(path, none);
    if (reason != ENOENT || aim.empty()) throw_read_error(path, reason);
    throw Error::input(str(path.string(), " is a link to ", aim.string(),
                           ", which does not exist: fetch the file, or remove the link"));
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error::input(
        str(path.string(), " is not a regular file: it is read more than once, so save it as a file first"));
  }
  const FileStamp stamp{
      .size = static_cast<std::uint64_t>(status.st_size),
      .mtime_ns = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec,
      .inode = static_cast<std::uint64_t>(status.st_ino)};
  return {.path = path, .kind = kind_of(path), .compression = compression_of(path), .stamp = stamp};
}

void refuse_foreign_name(const fs::path& path) {
  if (is_named_pickle(path)) refuse_pickle(path);
  if (const auto foreign = foreign_by_name(path)) throw Error::input(description_with_raw(path, *foreign));
}

void refuse_foreign_front(const SourceFile& file, std::string_view front) {
  if (file.kind == FileKind::raw) return;
  const std::string_view end = file.was_found ? cannot_stay : "";
  if (const auto foreign = foreign_by_front(file.path, front)) {
    throw Error::input(str(description_with_raw(file.path, *foreign), end));
  }
  if (file.any_encoding && file.kind == FileKind::text) return;
  if (const auto wide = wide_text(file.path, front)) throw Error::input(str(description(file.path, *wide), end));
}

std::vector<Source> list_sources(const std::vector<std::string>& entries, const SourceOptions& options) {
  std::vector<Source> sources;
  for (const std::string& entry : entries) sources.push_back(list_source(entry, options));
  return sources;
}

}  // namespace inkling
