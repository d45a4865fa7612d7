#include "formats/record_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <span>

namespace inkling {
namespace {

static_assert(std::endian::native == std::endian::little);  // numbers are copied as they lie in memory

constexpr std::size_t head_bytes = sizeof(std::uint64_t) + sizeof(std::uint32_t);

// What each value of a byte makes of the remainder: the polynomial is 0x1edc6f41, with its bits reversed.
constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> table = make_table();

template <typename Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t remainder = ~0u;
  for (const char byte : bytes)
    remainder = table[(remainder ^ static_cast<unsigned char>(byte)) & 0xff] ^ (remainder >> 8);
  return ~remainder;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string record_of(std::string_view data) {
  std::string record = bytes_of(static_cast<std::uint64_t>(data.size()));
  record += bytes_of(masked_crc32c(record));
  record += data;
  return record + bytes_of(masked_crc32c(data));
}

std::optional<RecordPlace> find_record(const InputFile& file, std::uint64_t offset) {
  std::string head(head_bytes, '\0');
  if (file.read_some(offset, std::as_writable_bytes(std::span(head))) < head_bytes) return std::nullopt;
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof length);
  const std::string_view counted = std::string_view(head).substr(0, sizeof length);
  if (head.substr(sizeof length) != bytes_of(masked_crc32c(counted))) return std::nullopt;
  const RecordPlace place = {.data = offset + head_bytes, .length = length};
  const bool is_whole = length <= file.size() && place.end() <= file.size();
  return is_whole ? std::optional(place) : std::nullopt;
}

}  // namespace inkling
