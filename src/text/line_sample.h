// A keyed sample of lines that fits in bounded memory, however many lines there are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// Each line has a random number of 64 bits, a function of (seed, line number). The lines kept are those whose number
// begins with k zero bits, for the smallest k at which all of them fit; k grows while the text is read, so that no line
// is read twice and the sample does not depend on where the text will end. A line counts as 4 bytes more than it has,
// because every line costs the trainer something besides its bytes, and a text of very short lines has very many of
// them.
class LineSample {
 public:
  LineSample(std::uint64_t seed, std::uint64_t max_bytes);

  void add(std::string_view line);  // at most 4 GiB

  std::size_t size() const { return lines_.size(); }  // lines
  std::uint64_t bytes() const { return text_.size(); }

  // Calls visit(line) for each line kept, in the order of the text.
  template <typename Visit>
  void for_each(Visit visit) const {
    std::string_view rest = text_;
    for (const Line& line : lines_) {
      visit(rest.substr(0, line.length));
      rest.remove_prefix(line.length);
    }
  }

 private:
  struct Line {
    std::uint64_t number;
    std::uint32_t length;
  };
  static constexpr std::uint64_t bytes_beside_a_line = 4;

  void drop_half();
  std::uint64_t taken() const { return text_.size() + bytes_beside_a_line * lines_.size(); }

  std::uint64_t key_;
  std::uint64_t max_bytes_;
  std::uint64_t line_count_ = 0;
  std::uint64_t threshold_ = ~std::uint64_t{0};  // kept: numbers up to this
  std::string text_;                             // the lines one after the other
  std::vector<Line> lines_;
};

}  // namespace inkling
