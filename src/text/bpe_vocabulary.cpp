#include "text/bpe_vocabulary.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/strings.h"

namespace inkling {

namespace {

constexpr char32_t first_moved = 0x100;

constexpr bool is_own_sign(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Signs {
  std::array<char32_t, 256> of_byte{};
  std::array<int, 512> byte_of{};  // -1: no byte's sign
};

constexpr Signs make_signs() {
  Signs signs;
  for (int& byte : signs.byte_of) byte = -1;
  char32_t next = first_moved;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t sign = is_own_sign(byte) ? static_cast<char32_t>(byte) : next++;
    signs.of_byte[byte] = sign;
    signs.byte_of[sign] = static_cast<int>(byte);
  }
  return signs;
}
constexpr Signs byte_signs = make_signs();

}  // namespace

std::string bytes_to_signs(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, byte_signs.of_byte[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> signs_to_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t offset = 0; offset < text.size();) {
    const char32_t sign = decode_utf8(text, offset);
    if (sign >= byte_signs.byte_of.size() || byte_signs.byte_of[sign] < 0) return std::nullopt;
    bytes += static_cast<char>(byte_signs.byte_of[sign]);
  }
  return bytes;
}

std::string bytes_by_sign() {
  std::string bytes(256, 0);
  std::iota(bytes.begin(), bytes.end(), 0);
  std::sort(bytes.begin(), bytes.end(), [](char a, char b) {
    return byte_signs.of_byte[static_cast<unsigned char>(a)] < byte_signs.of_byte[static_cast<unsigned char>(b)];
  });
  return bytes;
}

}  // namespace inkling
