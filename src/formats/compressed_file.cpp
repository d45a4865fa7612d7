// The one file that sees zlib and zstd.
#include "formats/compressed_file.h"

#define ZLIB_CONST  // what zlib reads is const
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "base/strings.h"

namespace inkling {

// What gzip and zstd have in common: members, each beginning with a sign, whose bytes become bytes of text.
class Decompressor {
 public:
  struct Step {
    std::size_t taken = 0, given = 0;  // bytes of the file, bytes of text
    bool member_ended = false;
    std::string problem = {};  // what is wrong with the file and what to do; empty if nothing is
  };
  static constexpr std::size_t sign_bytes = 4;

  virtual ~Decompressor() = default;

  virtual std::string_view name() const = 0;
  virtual bool is_sign(std::span<const std::byte, sign_bytes> front) const = 0;  // whether a member begins so
  // Goes on in a member, or begins one behind its end. It takes or gives something if there is something to take and
  // room for text.
  virtual Step step(std::span<const std::byte> compressed, std::span<std::byte> text) = 0;
};

namespace {

class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() {
    constexpr int largest_window = 15, gzip_only = 16;
    if (::inflateInit2(&stream_, largest_window + gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecompressor() override { ::inflateEnd(&stream_); }
  GzipDecompressor(const GzipDecompressor&) = delete;
  GzipDecompressor& operator=(const GzipDecompressor&) = delete;

  std::string_view name() const override { return "gzip"; }

  bool is_sign(std::span<const std::byte, sign_bytes> front) const override {
    return front[0] == std::byte{0x1f} && front[1] == std::byte{0x8b} && front[2] == std::byte{Z_DEFLATED};
  }

  Step step(std::span<const std::byte> compressed, std::span<std::byte> text) override {
    stream_.next_in = reinterpret_cast<const Bytef*>(compressed.data());
    stream_.avail_in = limited(compressed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(text.data());
    stream_.avail_out = limited(text.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    Step step{.taken = limited(compressed.size()) - stream_.avail_in,
              .given = limited(text.size()) - stream_.avail_out};
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_STREAM_END) {
      step.member_ended = true;
      ::inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {  // the latter: nothing to take or no room
      step.problem = str("is damaged (zlib says: ", stream_.msg == nullptr ? "no more" : stream_.msg,
                         "); fetch it or compress it again");
    }
    return step;
  }

 private:
  static uInt limited(std::size_t bytes) {
    return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
  }

  z_stream stream_{};
};

// 128 MiB. A frame may ask for gigabytes, which the program zstd gives it only if told so.
constexpr int largest_window_log = 27;

std::string zstd_problem(std::size_t code) {
  switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation:
      throw std::bad_alloc();
    case ZSTD_error_frameParameter_windowTooLarge:
      return str("takes a window of more than ", std::uint64_t{1} << (largest_window_log - 20),
                 " MiB to decompress, and inkling gives it no more; compress it again with zstd --long=",
                 largest_window_log, " at most");
    case ZSTD_error_dictionary_wrong:
      return "was compressed with a dictionary, which it does not hold; compress it again without one";
    default:
      return str("is damaged (zstd says: ", ZSTD_getErrorName(code), "); fetch it or compress it again");
  }
}

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() : context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, largest_window_log);
  }

  std::string_view name() const override { return "zstd"; }

  // The library may read frames of before 2016 too, whose code nobody looks after: they have other signs.
  bool is_sign(std::span<const std::byte, sign_bytes> front) const override {
    std::uint32_t sign = 0;
    std::memcpy(&sign, front.data(), sizeof sign);
    return sign == ZSTD_MAGICNUMBER || (sign & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
  }

  Step step(std::span<const std::byte> compressed, std::span<std::byte> text) override {
    ZSTD_inBuffer in{compressed.data(), compressed.size(), 0};
    ZSTD_outBuffer out{text.data(), text.size(), 0};
    const std::size_t result = ZSTD_decompressStream(context_.get(), &out, &in);
    if (ZSTD_isError(result) != 0) return {.problem = zstd_problem(result)};
    return {.taken = in.pos, .given = out.pos, .member_ended = result == 0};
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_;
};

constexpr std::size_t compressed_chunk = std::size_t{256} << 10;

std::unique_ptr<Decompressor> decompressor_for(const fs::path& path) {
  switch (compression_of(path)) {
    case Compression::gzip:
      return std::make_unique<GzipDecompressor>();
    case Compression::zstd:
      return std::make_unique<ZstdDecompressor>();
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
