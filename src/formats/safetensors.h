// safetensors: a JSON header that names tensors, then their bytes. Reading checks the whole header: every byte of the
// file is accounted for before any is used. Format: https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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
};

// Writes atomically, in the reference writer's order (dtype alignment descending, then name). Throws Error internal if
// sizes, shapes, dtypes or names do not fit together, and Error environment if the disk refuses.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace inkling
