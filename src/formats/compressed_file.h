// Text files compressed by gzip or zstd, read from front to back in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/hash.h"

namespace inkling {

enum class Compression { none, gzip, zstd };

// By the name's ending, in any case: .gz, .zst.
Compression compression_of(const std::filesystem::path& path);

// The name without that ending, which says what kind of text it is: "stories.jsonl" for "stories.jsonl.gz".
std::filesystem::path decompressed_name(const std::filesystem::path& path);

class Decompressor;

// Several gzip members or zstd frames behind each other are one text, as for zcat and zstdcat; zstd's skippable frames
// are skipped. Everything is checked that the format lets one check, the checksums too. Whatever a file says, reading
// it takes less than 1 MiB of memory, and with zstd the frame's window on top, which may have 128 MiB, the limit of the
// program zstd.
class CompressedFile {
 public:
  // Throws what InputFile throws, and Error input if the file does not begin as its name says.
  explicit CompressedFile(const std::filesystem::path& path);
  ~CompressedFile();
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;

  // Fills `text` with what follows; returns how many bytes that is, which is less only at the end. Throws Error input
  // naming the file and what to do if it is damaged, breaks off, has anything else behind its end, or needs a larger
  // window.
  std::size_t read(std::span<std::byte> text);

  std::uint64_t bytes_read() const { return offset_ - waiting_.size(); }  // of the file, to the end of the text so far
  std::string hash() const { return hasher_.hex(); }                      // of the whole file, once the text has ended

 private:
  bool begin_member();
  bool refill();
  [[noreturn]] void refuse(const std::string& problem) const;

  InputFile file_;
  std::unique_ptr<Decompressor> decompressor_;
  Hasher hasher_;
  std::vector<std::byte> buffer_;       // of the file
  std::span<const std::byte> waiting_;  // what the decompressor has not taken of it
  std::uint64_t offset_ = 0;            // in the file, behind the buffer
  std::uint64_t text_bytes_ = 0;        // so far
  bool between_members_ = true;
};

}  // namespace inkling
