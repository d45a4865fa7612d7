// A page of 80 columns that is written from top to bottom: headings, labelled entries, rows of a table, commands.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace inkling::doctor {

class Page {
 public:
  static constexpr std::size_t columns = 80;

  void heading(std::string_view text);
  // "  label           text that goes on
  //                    below itself": control characters and bytes that are not UTF-8 are shown as "?".
  void entry(std::string_view label, std::string_view text);
  void note(std::string_view text, std::string_view mark = "");  // over the whole width, behind "  mark "
  void command(std::string_view text);  // "    $ text"; goes on behind a backslash, words stay whole

  // A cell each in columns of these widths, the first to the left and the others to the right.
  void row(std::span<const std::string> cells, std::span<const std::size_t> widths);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace inkling::doctor
