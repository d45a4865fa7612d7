// The text of source files as a stream of parts that a tokenizer takes, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/hash.h"
#include "data/source.h"
#include "formats/compressed_file.h"

namespace inkling {

enum class Split { train, validation };

// A file and where it is cut: what begins before byte `train_bytes` of its text is for training, the rest for
// validation.
struct PlannedFile {
  SourceFile file;
  std::uint64_t train_bytes = 0;
};

// How many bytes of text a file has at most: how many it has, but of a compressed one that is known only when it has
// been read to its end.
std::uint64_t most_text_bytes(const SourceFile& file);

struct Place {
  const std::filesystem::path* path = nullptr;
  std::uint64_t line = 0;    // from 1; 0 if the text is not a line of the file
  bool one_line = false;     // the text is all from this line: that of a .jsonl
  std::uint64_t before = 0;  // bytes of the line in front of the text

  std::string text() const;  // "notes.txt:12", "fables.grammar"
};

// Where a part of the text begins.
struct PartOfText {
  Split split;
  std::string_view text;
  Place place;
};

// What a reader of text is told, in the order of the text, and how it is cut.
struct TextVisitor {
  std::function<std::size_t(std::string_view, bool)> part_length;  // as Tokenizer::part_length()
  std::function<void(const PartOfText&)> part;
  std::function<void(Split, const Place&)> end_document;  // after the last part of a document (never an empty one)
  std::function<void(std::uint64_t)> advance;             // bytes of the file read since the last call
  std::function<void(const Place&, std::size_t)> lone_surrogates;  // so many in a line of JSON became U+FFFD
  std::string separator = {};  // a document ends where this stands, which is no part of it; empty: nowhere
};

// Counts these halves of surrogate pairs over all files, for one warning.
struct LoneSurrogates {
  std::uint64_t count = 0;
  std::string first;  // "a.jsonl:12"

  void add(const Place& place, std::size_t more);
  void warn() const;  // if there are any
};

// Reads a text or a file of JSON once, from its beginning to its end, and returns the hash of its bytes (of a
// compressed file: as they are on the disk). A byte order mark at the beginning of a file does not count as text.
// Between two separators, and between one and an end of the text, lies a document, unless there is nothing but white
// space, of a text file less than 16 MiB, so that no more is held in memory. A document that is cut between the splits
// ends in both. Throws Error input for a file that begins as something that is no text, and with file and line for a
// document of JSON that is not an object with a string in `jsonl_field` (or, in .json, a string).
std::string visit_file(const PlannedFile& planned, const std::string& jsonl_field, const TextVisitor& visitor);

// Does the same for a text that is in memory already, which begins at `place`.
void visit_text(Split split, std::string_view text, Place place, const TextVisitor& visitor);

// Calls take(), which may throw Error input for a text that a tokenizer cannot take, and puts file and line in front of
// its message: those of the first line of `part` for which check(line) throws, too.
void take_part(const PartOfText& part, const std::function<void()>& take,
               const std::function<void(std::string_view)>& check);

// A source file, decompressed where it is compressed, read once from front to back.

// Keeps what the consumer has not taken yet.
class FileStream {
 public:
  // `advance` is told how many bytes of the file were read since its last call. The stream then begins behind a byte
  // order mark. Throws Error input for a file that begins as something that is no text (refuse_foreign_front()).
  FileStream(const SourceFile& source, std::function<void(std::uint64_t)> advance);

  // Bytes at hand, from offset() on.
  std::string_view view() const { return std::string_view(buffer_).substr(taken_); }
  std::uint64_t offset() const { return read_ - view().size(); }
  bool at_end() const { return at_end_; }
  void take(std::size_t bytes) { taken_ += bytes; }

  void read_more();  // adds the next chunk to what is at hand

  // Of the file, as it is on the disk, once it has been read to its end.
  std::string hash() const { return compressed_ ? compressed_->hash() : hasher_.hex(); }

 private:
  std::uint64_t bytes_of_file() const { return compressed_ ? compressed_->bytes_read() : read_; }

  std::optional<InputFile> plain_;  // one of the two
  std::optional<CompressedFile> compressed_;
  std::function<void(std::uint64_t)> advance_;
  Hasher hasher_;
  std::string buffer_;
  std::size_t taken_ = 0;
  std::uint64_t read_ = 0;  // bytes of text
  std::uint64_t told_ = 0;  // bytes of the file that advance() knows of
  bool at_end_ = false;
};

// A document in a file of JSON: the string in one field of an object.

// The value of the outermost object's `field`. Everything else on the line is checked to be JSON and passed over.
// Throws Error input at `place` for a line that is not JSON (with the column) or not an object, and for a field that is
// missing (naming those that are there), given twice or not a string.
std::string read_json_field(std::string_view line, const std::string& field, const Place& place);

// Does the same with a value of a .json file (JsonElements), which begins at `place` and may also be a string.
std::string read_json_element(std::string_view element, const std::string& field, const Place& place);

// The values in a .json file of texts, one after another, in bounded memory however long the file is.

// This is far above any document that people train on, and low enough to hold it several times over below 1 GiB.
inline constexpr std::size_t longest_document = std::size_t{128} << 20;

// The members of the file's list, [ … ], or, where it does not begin with one, the values that follow each other in it:
// lines of JSON, or objects over several lines.
class JsonElements {
 public:
  JsonElements(FileStream& stream, const std::filesystem::path& path) : stream_(stream), path_(path) {}

  struct Element {
    std::string_view text;     // valid until the next call; whether it is JSON is for its reader to check
    std::uint64_t begin, end;  // in the file's text: from the value's first byte to that of the next, or to the end
    std::uint64_t line;        // where it begins, from 1
  };

  // None at the end. Throws Error input, with the line, where a list has anything but commas between its members or
  // does not end, and for a value of more than `longest_document` bytes.
  std::optional<Element> next();

 private:
  bool has(std::size_t at);  // reads on until there is a byte `at` in view(); false where the file ends before it
  std::size_t spaces_from(std::size_t at);
  std::size_t length_of_value();
  std::size_t separators_from(std::size_t at);
  void take(std::size_t bytes);
  [[noreturn]] void refuse(std::size_t at, std::string_view what) const;

  FileStream& stream_;
  const std::filesystem::path& path_;
  std::uint64_t line_ = 1;
  std::size_t given_ = 0;  // bytes of the last element, which are still in view()
  bool begun_ = false, in_list_ = false, ended_ = false;
};

}  // namespace inkling
