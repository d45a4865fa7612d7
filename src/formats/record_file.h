// TFRecord, in which TensorBoard reads events (tensorflow/core/lib/io/record_writer.h). A record is, with numbers
// little-endian:
//
//   uint64  length of the data in bytes
//   uint32  masked CRC-32C of these 8 bytes
//   bytes   the data
//   uint32  masked CRC-32C of the data
//
// A file is records one after the other, without a header, so that it can be cut off after any of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace inkling {

// Returns CRC-32C (Castagnoli; RFC 3720, appendix B.4), and TFRecord's mask of it: turned right by 15 bits, plus a
// constant, because a CRC of data that hold their own CRC says little.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// Returns the record that holds `data`.
std::string record_of(std::string_view data);

// A record in a file, by its bytes.
struct RecordPlace {
  std::uint64_t data = 0, length = 0;
  std::uint64_t end() const { return data + length + sizeof(std::uint32_t); }
};

// Returns where the data lie of the record that begins at `offset`; none at the end of the file, and where it ends
// within the record or the length is damaged. The data are not read.
std::optional<RecordPlace> find_record(const InputFile& file, std::uint64_t offset);

}  // namespace inkling
