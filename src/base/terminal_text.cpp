#include "base/terminal_text.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>

#include "base/strings.h"

namespace inkling {
namespace {

struct CodePoints {
  char32_t first, last;
};

bool is_among(char32_t code_point, const CodePoints* ranges, std::size_t count) {
  const CodePoints* const end = ranges + count;
  const CodePoints* const range =
      std::lower_bound(ranges, end, code_point, [](const CodePoints& r, char32_t c) { return r.last < c; });
  return range != end && range->first <= code_point;
}

// What some terminal shows in two columns: East Asian wide and fullwidth characters, and all that may be an emoji.
// The ranges are generous, since a character that is counted too wide only leaves a column free.
constexpr std::array wide = std::to_array<CodePoints>({
    {0x1100, 0x115f}, {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23cf, 0x23cf},   {0x23e9, 0x23fa},   {0x25fb, 0x25fe},
    {0x2600, 0x27bf}, {0x2934, 0x2935},   {0x2b05, 0x2b07},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b55},   {0x2e80, 0xa4cf},
    {0xa960, 0xa97f}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},
    {0xffe0, 0xffe6}, {0x16fe0, 0x1b2ff}, {0x1d300, 0x1d376}, {0x1f000, 0x1faff}, {0x20000, 0x3fffd},
});

// What every terminal lays over the character before.
constexpr std::array marks = std::to_array<CodePoints>({{0x0300, 0x036f}, {0x1ab0, 0x1ace}, {0x20d0, 0x20f0}});

// Characters without a shape of their own that change how others are shown: the direction of writing (with which one
// text can look like another), where lines end, invisible joiners and tags.
constexpr std::array formatting = std::to_array<CodePoints>({
    {0x00ad, 0x00ad},
    {0x061c, 0x061c},
    {0x180e, 0x180e},
    {0x200b, 0x200c},
    {0x200e, 0x200f},
    {0x2028, 0x202e},
    {0x2060, 0x206f},
    {0xfeff, 0xfeff},
    {0xfff9, 0xfffb},
    {0xe0000, 0xe0fff},
});

bool is_control(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
         is_among(code_point, formatting.data(), formatting.size());
}

// Calls visit(code point or none, offset, bytes) for each character; a byte that belongs to none is visited alone.
template <class Visit>
void visit_characters(std::string_view text, Visit visit) {
  for (std::size_t offset = 0; offset < text.size();) {
    const std::size_t valid = offset + find_invalid_utf8(text.substr(offset)).value_or(text.size() - offset);
    while (offset < valid) {
      const std::size_t begin = offset;
      const char32_t code_point = decode_utf8(text, offset);
      if (!visit(std::optional(code_point), begin, offset - begin)) return;
    }
    if (offset == text.size()) return;
    if (!visit(std::optional<char32_t>(), offset, 1)) return;
    ++offset;
  }
}

}  // namespace

Charset charset_of_environment() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string letters;
    for (const char* c = value; *c != '\0'; ++c) {
      if (*c != '-') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
    return letters.find("utf8") != std::string::npos ? Charset::utf8 : Charset::ascii;
  }
  return Charset::ascii;
}

std::size_t columns_of(char32_t code_point) {
  if (code_point < 0x300) return 1;
  if (is_among(code_point, marks.data(), marks.size())) return 0;
  return is_among(code_point, wide.data(), wide.size()) ? 2 : 1;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  visit_characters(text, [&](std::optional<char32_t> code_point, std::size_t, std::size_t) {
    columns += code_point ? columns_of(*code_point) : 1;
    return true;
  });
  return columns;
}

std::size_t bytes_that_fit(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0, taken = 0;
  visit_characters(text, [&](std::optional<char32_t> code_point, std::size_t offset, std::size_t length) {
    taken += code_point ? columns_of(*code_point) : 1;
    if (taken > columns) return false;
    bytes = offset + length;
    return true;
  });
  return bytes;
}

std::string shortened(std::string_view text, std::size_t columns, Charset charset) {
  if (bytes_that_fit(text, columns) == text.size()) return std::string(text);
  if (columns == 0) return "";
  return std::string(text.substr(0, bytes_that_fit(text, columns - 1))) + (charset == Charset::utf8 ? "…" : "~");
}

std::string printable(std::string_view text, Charset charset) {
  std::string out;
  visit_characters(text, [&](std::optional<char32_t> code_point, std::size_t offset, std::size_t length) {
    const bool space = code_point && *code_point >= '\t' && *code_point <= '\r';
    if (space) {
      out += ' ';
    } else if (!code_point || is_control(*code_point) || (charset == Charset::ascii && *code_point >= 0x80)) {
      out += charset == Charset::utf8 ? "\xef\xbf\xbd" : "?";
    } else {
      out += text.substr(offset, length);
    }
    return true;
  });
  return out;
}

TerminalSize terminal_size(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace inkling
