// Small text functions: joining, numbers as text and back, the nearest known name, UTF-8.
#pragma once

#include <cstdint>
#include <locale>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// The arguments written one after the other, numbers as everywhere and not by the locale of the program that links the
// library: str("line ", 2000, ": ", message).
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return out.str();
}

std::string join(std::span<const std::string> words, std::string_view separator);

std::string format_fixed(double value, int decimals);  // 1.50
std::string format_count(std::uint64_t count);         // 1,003,854
std::string format_bytes(std::uint64_t bytes);         // "12.3 MiB"
std::string format_duration(double seconds);           // "1:02:03", "4:05", "12 s"

// The shortest decimal text that reads back as exactly this double ("0.001", "1e-08", "3").
std::string format_shortest(double value);

// The number with zeros in front, so that it has at least so many digits: "000012", and "00ff" or "00FF".
enum class Letters { lower_case, upper_case };
std::string padded(std::uint64_t number, std::size_t digits);
std::string hexadecimal(std::uint64_t number, std::size_t digits, Letters letters = Letters::lower_case);

// Returns the number that `digits` is; none if it holds anything else (a sign, a space), is empty or does not fit.
std::optional<std::int64_t> whole_number(std::string_view digits, int base = 10);

// The known name nearest to `word` by edit distance, if it is near enough to be a likely slip.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> known);

// U+FEFF, with which some programs begin a file. It is no text.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// The offset of the first byte that is not part of well-formed UTF-8 (RFC 3629); none if there is no such byte.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// Reads one code point at `offset`, which must be inside well-formed UTF-8, and moves `offset` past it.
char32_t decode_utf8(std::string_view text, std::size_t& offset);
void append_utf8(std::string& text, char32_t code_point);

// Whether the byte belongs to a UTF-8 character that begins before it. Every other byte begins a character.
bool continues_character(char byte);
std::uint64_t count_characters(std::string_view text);

// The offset at which the character begins that has a byte at `offset`, which may also be the end of `text`.
std::size_t character_start(std::string_view text, std::size_t offset);

// How many bytes at the end of `text` begin a UTF-8 character that is not complete yet (0 to 3).
std::size_t incomplete_utf8_suffix(std::string_view text);

// `text` in double quotes, with quotes, backslashes, control characters and bytes that are not UTF-8 escaped: for
// messages. (Its name is not "quoted", because a call with a std::string would find std::quoted instead.)
std::string quote(std::string_view text);

// `word` as one argument of a command for a shell: as it is, or in single quotes.
std::string shell_word(std::string_view word);

}  // namespace inkling
