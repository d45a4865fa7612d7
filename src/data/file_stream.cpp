#include "data/file_stream.h"

#include <cstddef>
#include <span>
#include <utility>

#include "base/strings.h"
#include "formats/foreign_file.h"

namespace inkling {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

}  // namespace

FileStream::FileStream(const SourceFile& source, std::function<void(std::uint64_t)> advance)
    : advance_(std::move(advance)) {
  if (source.compression == Compression::none) {
    plain_.emplace(source.path);
  } else {
    compressed_.emplace(source.path);
  }
  while (view().size() < bytes_of_front && !at_end_) read_more();
  refuse_foreign_front(source, view().substr(0, bytes_of_front));
  if (view().starts_with(byte_order_mark)) take(byte_order_mark.size());
}

void FileStream::read_more() {
  buffer_.erase(0, taken_);
  taken_ = 0;
  const std::size_t kept = buffer_.size();
  buffer_.resize(kept + chunk_bytes);
  const std::span<std::byte> free(reinterpret_cast<std::byte*>(buffer_.data()) + kept, chunk_bytes);
  const std::size_t count = compressed_ ? compressed_->read(free) : plain_->read_some(read_, free);
  buffer_.resize(kept + count);
  if (plain_) hasher_.update(free.first(count));
  read_ += count;
  at_end_ = count == 0;
  if (advance_) advance_(bytes_of_file() - told_);
  told_ = bytes_of_file();
}

}  // namespace inkling
