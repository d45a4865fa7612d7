// A document in a file of JSON: the string in one field of an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/source_reader.h"

namespace inkling {

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
