// The files behind data.source: found, told apart by kind, and identified so that a change is noticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compressed_file.h"

namespace inkling {

// Told by the name's ending; for text and .jsonl, by what it is without .gz or .zst.
enum class FileKind {
  text,     // one document
  jsonl,    // *.jsonl: a JSON object a line, one document each
  grammar,  // *.grammar: expanded into stories, one document each
  tokens,   // *.bin: token shards, used where they are
};

// What tells a file that has changed from one that has not, without reading it.
struct FileStamp {
  std::uint64_t size = 0;     // bytes
  std::int64_t mtime_ns = 0;  // since 1970
  std::uint64_t inode = 0;

  bool operator==(const FileStamp&) const = default;
};

struct SourceFile {
  std::filesystem::path path;
  FileKind kind = FileKind::text;
  Compression compression = Compression::none;
  FileStamp stamp;
};

// One entry of data.source or data.validation_source.
struct Source {
  std::string name;  // as the settings write it
  std::vector<SourceFile> files;

  std::uint64_t size() const;  // bytes of all files
};

// A file as it is now. Throws Error input if it is missing or not a regular file.
SourceFile examine_file(const std::filesystem::path& path);

// Throws Error input if the file's name says that it is an archive of files (.tar, compressed or not, .tgz, .tzst), a
// Python pickle, or a model's weights (.safetensors): they would be read as text.
void refuse_no_text(const SourceFile& file);

// Finds the files of every entry. An entry may be a shell pattern (*, ?, […]), which stands for everything that it
// matches. A folder stands for the regular files below it, sorted by path; hidden files and folders, empty files and
// folders that inkling-prepare has made are passed over, and links to folders are not followed. Throws Error input
// naming `setting` for an entry that does not exist (with the nearest name that does) or holds no text.
std::vector<Source> list_sources(const std::vector<std::string>& entries, std::string_view setting);

}  // namespace inkling
