// The text of a YAML file by line and column, with the checks that need the text itself rather than its structure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.h"

namespace inkling {

class YamlText {
 public:
  // Throws an Error input with the place for text that is too large, is not UTF-8, or holds control characters, tabs in
  // the indentation or directives. CR LF becomes LF, and a byte order mark is removed.
  YamlText(std::string_view text, std::string_view name);

  std::string_view contents() const { return contents_; }

  // Lines and columns count from 0 here and columns are bytes, as yaml-cpp has them.
  std::string place(int line, int column) const;  // "name:line:column" for people: from 1, in characters
  char at(int line, int column) const;            // '\n' past the end

  // Says whether the value that begins here is plain or quoted. Throws an Error input if it does not end on the same
  // line: yaml-cpp would fold such lines into one text, and takes the end of the file for a closing quote.
  YamlNode::Kind check_scalar(int line, int column, std::string_view value) const;

 private:
  std::size_t offset(int line, int column) const;
  void check_lines() const;

  std::string contents_;
  std::string name_;
  std::vector<std::size_t> line_starts_;
};

}  // namespace inkling
