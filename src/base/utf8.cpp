// The UTF-8 functions of base/strings.h: the well-formed sequences of RFC 3629, table by table.
#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace inkling {

namespace {

unsigned char byte_at(std::string_view text, std::size_t offset) { return static_cast<unsigned char>(text[offset]); }

// How many bytes a character that begins with this byte takes; 0 if none begins with it.
std::size_t length_from_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;  // a continuation byte, or an overlong form of ASCII
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;  // f5 and above lie past U+10FFFF
}

// The second byte also rules out overlong forms, surrogates and code points past U+10FFFF.
bool is_second_byte(unsigned char lead, unsigned char second) {
  if (lead == 0xe0) return second >= 0xa0 && second <= 0xbf;
  if (lead == 0xed) return second >= 0x80 && second <= 0x9f;
  if (lead == 0xf0) return second >= 0x90 && second <= 0xbf;
  if (lead == 0xf4) return second >= 0x80 && second <= 0x8f;
  return continues_character(static_cast<char>(second));
}

// How many of the first `available` bytes at `offset` could be one character: its prefix that is not ill-formed.
std::size_t well_formed_prefix(std::string_view text, std::size_t offset, std::size_t available) {
  const unsigned char lead = byte_at(text, offset);
  std::size_t count = 1;
  while (count < available) {
    const std::size_t next = offset + count;
    if (!(count == 1 ? is_second_byte(lead, byte_at(text, next)) : continues_character(text[next]))) break;
    ++count;
  }
  return count;
}

bool eight_ascii_bytes(std::string_view text, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, text.data() + offset, sizeof word);
  return (word & 0x8080808080808080ULL) == 0;
}

}  // namespace

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

std::uint64_t count_characters(std::string_view text) {
  return text.size() - static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), continues_character));
}

std::size_t character_start(std::string_view text, std::size_t offset) {
  while (offset > 0 && offset < text.size() && continues_character(text[offset])) --offset;
  return offset;
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    if (text.size() - offset >= 8 && eight_ascii_bytes(text, offset)) {
      offset += 8;
      continue;
    }
    const std::size_t length = length_from_lead(byte_at(text, offset));
    if (length == 0 || length > text.size() - offset) return offset;
    if (well_formed_prefix(text, offset, length) < length) return offset;
    offset += length;
  }
  return std::nullopt;
}

char32_t decode_utf8(std::string_view text, std::size_t& offset) {
  const unsigned char lead = byte_at(text, offset);
  const std::size_t length = length_from_lead(lead);
  char32_t code_point = length == 1 ? lead : lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) code_point = code_point << 6 | (byte_at(text, offset + i) & 0x3fU);
  offset += length;
  return code_point;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto continuation = [&](int shift) { text += static_cast<char>(0x80 | (code_point >> shift & 0x3f)); };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xc0 | code_point >> 6);
    continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xe0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xf0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::size_t incomplete_utf8_suffix(std::string_view text) {
  for (std::size_t count = 1; count <= 3 && count <= text.size(); ++count) {
    const std::size_t offset = text.size() - count;
    if (continues_character(text[offset])) continue;
    const bool more_to_come = length_from_lead(byte_at(text, offset)) > count;
    return more_to_come && well_formed_prefix(text, offset, count) == count ? count : 0;
  }
  return 0;
}

std::string without_control_characters(std::string_view text) {
  std::string shown;
  for (std::size_t offset = 0; offset < text.size();) {
    const char32_t character = decode_utf8(text, offset);
    const bool is_control = character < 0x20 || (character >= 0x7f && character < 0xa0);
    if (is_control && character != '\n' && character != '\t') {
      shown += "\\x" + hexadecimal(character, 2);
    } else {
      append_utf8(shown, character);
    }
  }
  return shown;
}

}  // namespace inkling
