// safetensors: a JSON header that names tensors, then their bytes. Reading checks the whole header: every byte of the
// file is accounted for before any is used. Format: https://github.com/huggingface/safetensors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace inkling {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", "I64", ...: the format's own words
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // byte offsets relative to the data that follows the header
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  // bytes from the start of the file
};

// Checks everything that the reference reader checks, and also refuses duplicate names. It takes time n log n and
// memory of a few times the header, whatever the header holds. `head` is the beginning of the file, at least 8 bytes
// and the header. Throws Error input naming `path`.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_size,
                                           const std::filesystem::path& path);

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  const TensorEntry* find(std::string_view name) const;                  // nullptr if absent
  void read(const TensorEntry& tensor, std::span<std::byte> out) const;  // out.size() == tensor.bytes()

 private:
  InputFile file_;
  SafetensorsHeader header_;
  std::vector<const TensorEntry*> by_name_;
};

struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;  // contiguous, row-major, little-endian
  // Where they are not at hand, and only their number counts above: returns them when the file comes to them, in its
  // own order. They must stay until the next tensor is fetched.
  std::function<std::span<const std::byte>()> fetch = {};
};

// Writes atomically, in the reference writer's order (dtype alignment descending, then name). Throws Error internal if
// sizes, shapes, dtypes or names do not fit together, and Error environment if the disk refuses.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

// The element types of safetensors, for the files that read and write it.

struct SafetensorsDtype {
  std::string_view name;
  std::uint64_t bits;  // of one element
};

// They are in the order of the reference implementation's enumeration, by which its writer sorts (from the end).
inline constexpr std::array safetensors_dtypes = {
    SafetensorsDtype{"BOOL", 8},        SafetensorsDtype{"F4", 4},          SafetensorsDtype{"F6_E2M3", 6},
    SafetensorsDtype{"F6_E3M2", 6},     SafetensorsDtype{"U8", 8},          SafetensorsDtype{"I8", 8},
    SafetensorsDtype{"F8_E5M2", 8},     SafetensorsDtype{"F8_E4M3", 8},     SafetensorsDtype{"F8_E8M0", 8},
    SafetensorsDtype{"F8_E4M3FNUZ", 8}, SafetensorsDtype{"F8_E5M2FNUZ", 8}, SafetensorsDtype{"I16", 16},
    SafetensorsDtype{"U16", 16},        SafetensorsDtype{"F16", 16},        SafetensorsDtype{"BF16", 16},
    SafetensorsDtype{"I32", 32},        SafetensorsDtype{"U32", 32},        SafetensorsDtype{"F32", 32},
    SafetensorsDtype{"C64", 64},        SafetensorsDtype{"F64", 64},        SafetensorsDtype{"I64", 64},
    SafetensorsDtype{"U64", 64},
};

// The position in the list above, or its size if the name is unknown.
constexpr std::size_t safetensors_dtype_rank(std::string_view name) {
  std::size_t rank = 0;
  while (rank < safetensors_dtypes.size() && safetensors_dtypes[rank].name != name) ++rank;
  return rank;
}

inline constexpr std::uint64_t max_safetensors_header = 100'000'000;  // bytes of JSON

}  // namespace inkling
