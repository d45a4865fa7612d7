// Text for a terminal: how many columns it takes, and what may be sent there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace inkling {

// What characters a terminal shows.
enum class Charset { ascii, utf8 };

// What the environment says of it: LC_ALL, else LC_CTYPE, else LANG.
Charset charset_of_environment();

// How many columns a character takes at most. Terminals differ over emoji and marks that join others: this is the
// widest of their answers, so a line that fits by this count never wraps.
std::size_t columns_of(char32_t code_point);

// The same of a text; a byte that is not UTF-8 counts as one column.
std::size_t columns_of(std::string_view text);

// How many bytes of `text`, whole characters, fit into so many columns from its beginning.
std::size_t bytes_that_fit(std::string_view text, std::size_t columns);

// `text` if it fits into so many columns, else its beginning with "…" ("~" in ASCII) as the last column.
std::string shortened(std::string_view text, std::size_t columns, Charset charset);

// `text` in one line that a terminal shows and does not act on: spaces for white space, and U+FFFD ("?" in ASCII) for
// other control characters, for what turns the direction of writing, for bytes that are not UTF-8, and in ASCII for
// every other character.
std::string printable(std::string_view text, Charset charset);

// The columns and rows of the terminal behind a file descriptor; 0 where it is none or does not know.
struct TerminalSize {
  std::size_t columns = 0, rows = 0;
  bool operator==(const TerminalSize&) const = default;
};
TerminalSize terminal_size(int descriptor);

}  // namespace inkling
