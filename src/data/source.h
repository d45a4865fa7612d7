// The files behind data.source: found, told apart by kind, and identified so that a change is noticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compressed_file.h"

namespace inkling {

// Told by the name's ending, in any case; for what may be compressed, by what it is without .gz or .zst.
enum class FileKind {
  text,     // one document
  raw,      // one document, whatever it holds: data.raw
  jsonl,    // *.jsonl, .ndjson, .jsonlines: a JSON object a line, one document each
  json,     // *.json: a list of objects or strings, or one of them after another, one document each
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
  bool any_encoding = false;  // a text may be in UTF-16 and the like, because its tokenizer takes any bytes
  bool was_found = false;     // in a folder or by a pattern, and not named by itself
};

// One entry of data.source or data.validation_source.
struct Source {
  std::string name;  // as the settings write it
  std::vector<SourceFile> files;

  std::uint64_t size() const;  // bytes of all files
};

// A file as it is now. Throws Error input if it is missing or not a regular file.
SourceFile examine_file(const std::filesystem::path& path);

// Throws Error input with what to do if the file is no text as it stands, by its name: a Python pickle, or what
// formats/foreign_file.h lists.
void refuse_foreign_name(const std::filesystem::path& path);

// The same by how its text begins, of which `front` is the first bytes_of_front bytes: also for text in UTF-16 or
// UTF-32, unless any encoding is right. Passes a raw file.
void refuse_foreign_front(const SourceFile& file, std::string_view front);

struct SourceOptions {
  std::string_view setting;  // "data.source", for messages
  bool raw = false;          // every file is of that kind, whatever its name says
  bool any_encoding = false;
};

// Finds the files of every entry. An entry may be a shell pattern (*, ?, […]), which stands for everything that it
// matches. A folder stands for the regular files below it, sorted by path. Hidden files and folders in it are passed
// over, and so is what can hold no text, such as a picture, there and among what a pattern matches, both with a line
// that counts them; so are empty files and folders that inkling-prepare has made, and links to folders are not
// followed. Throws Error input naming the setting for an entry that does not exist (with the nearest name that does) or
// holds no text, and for files that would have to be converted first: the person might miss them.
std::vector<Source> list_sources(const std::vector<std::string>& entries, const SourceOptions& options);

}  // namespace inkling
