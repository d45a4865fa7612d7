// A source file, decompressed where it is compressed, read once from front to back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/hash.h"
#include "data/source.h"
#include "formats/compressed_file.h"

namespace inkling {

// Keeps what the consumer has not taken yet.
class FileStream {
 public:
  // `advance` is told how many bytes of the file were read since its last call. The stream then begins behind a byte
  // order mark. Throws Error input for a file that begins as something that is no text (refuse_foreign_front()).
  FileStream(const SourceFile& source, std::function<void(std::uint64_t)> advance);

  // Bytes at hand, from offset() on.
  std::string_view view() const { return std::string_view(buffer_).substr(taken_); }
  std::uint64_t offset() const { return read_ - view().size(); }
  bool at_end() const { return at_end_; }
  void take(std::size_t bytes) { taken_ += bytes; }

  void read_more();  // adds the next chunk to what is at hand

  // Of the file, as it is on the disk, once it has been read to its end.
  std::string hash() const { return compressed_ ? compressed_->hash() : hasher_.hex(); }

 private:
  std::uint64_t bytes_of_file() const { return compressed_ ? compressed_->bytes_read() : read_; }

  std::optional<InputFile> plain_;  // one of the two
  std::optional<CompressedFile> compressed_;
  std::function<void(std::uint64_t)> advance_;
  Hasher hasher_;
  std::string buffer_;
  std::size_t taken_ = 0;
  std::uint64_t read_ = 0;  // bytes of text
  std::uint64_t told_ = 0;  // bytes of the file that advance() knows of
  bool at_end_ = false;
};

}  // namespace inkling
