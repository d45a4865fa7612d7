#include "formats/compressed_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"
#include "formats/decompressor.h"

namespace inkling {

namespace {

constexpr std::size_t compressed_chunk = std::size_t{256} << 10;

std::unique_ptr<Decompressor> decompressor_for(const fs::path& path) {
  switch (compression_of(path)) {
    case Compression::gzip:
      return make_gzip_decompressor();
    case Compression::zstd:
      return make_zstd_decompressor();
    case Compression::none:
      break;
  }
  throw Error::internal(str(path.string(), " has no name of a compressed file"));
}

}  // namespace

Compression compression_of(const fs::path& path) {
  const std::string ending = ending_of(path);
  if (ending == ".gz") return Compression::gzip;
  return ending == ".zst" ? Compression::zstd : Compression::none;
}

fs::path decompressed_name(const fs::path& path) {
  return compression_of(path) == Compression::none ? path : fs::path(path).replace_extension();
}

CompressedFile::CompressedFile(const fs::path& path)
    : file_(path), decompressor_(decompressor_for(path)), buffer_(compressed_chunk) {
  refill();
  begin_member();
}

CompressedFile::~CompressedFile() = default;

std::size_t CompressedFile::read(std::span<std::byte> text) {
  std::size_t given = 0;
  while (given < text.size() && (!between_members_ || begin_member())) {
    const Decompressor::Step step = decompressor_->step(waiting_, text.subspan(given));
    if (!step.problem.empty()) refuse(step.problem);
    waiting_ = waiting_.subspan(step.taken);
    given += step.given;
    text_bytes_ += step.given;
    between_members_ = step.member_ended;
    const bool starved = step.taken == 0 && step.given == 0 && !step.member_ended;
    if (starved && !waiting_.empty()) refuse("is damaged (its text goes nowhere); fetch it or compress it again");
    if (starved && !refill()) {
      refuse(str("breaks off after ", offset_,
                 " bytes, in the middle of its text; it was cut short, make or fetch it "
                 "again"));
    }
  }
  return given;
}

// Returns whether there is a member to go on with: if not, the text has ended.
bool CompressedFile::begin_member() {
  while (waiting_.size() < Decompressor::sign_bytes && refill()) {
  }
  if (waiting_.empty() && offset_ > 0) return false;
  between_members_ = false;
  if (waiting_.size() >= Decompressor::sign_bytes &&
      decompressor_->is_sign(waiting_.first<Decompressor::sign_bytes>())) {
    return true;
  }
  const std::uint64_t at = offset_ - waiting_.size();
  if (at == 0) {
    refuse(str("is not compressed by ", decompressor_->name(),
               ", as its name says; give it its right name, or "
               "compress it"));
  }
  refuse(str("goes on at byte ", at, ", behind its text, with something that is not of ", decompressor_->name(),
             "; it was damaged or something was appended, make or fetch it again"));
}

// Reads on, behind what is waiting; false at the end of the file.
bool CompressedFile::refill() {
  std::copy(waiting_.begin(), waiting_.end(), buffer_.begin());
  const std::span<std::byte> room = std::span(buffer_).subspan(waiting_.size());
  const std::size_t count = file_.read_some(offset_, room);
  hasher_.update(room.first(count));
  offset_ += count;
  waiting_ = std::span(buffer_).first(waiting_.size() + count);
  return count > 0;
}

void CompressedFile::refuse(const std::string& problem) const {
  throw Error::input(str(file_.path().string(), ": ", problem,
                         text_bytes_ > 0 ? str(" (", format_count(text_bytes_), " bytes of text came before)") : ""));
}

}  // namespace inkling
