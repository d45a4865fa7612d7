// The one file that sees zlib.
#define ZLIB_CONST  // what it reads is const
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "base/error.h"
#include "base/strings.h"
#include "formats/decompressor.h"

namespace inkling {

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

}  // namespace

std::unique_ptr<Decompressor> make_gzip_decompressor() { return std::make_unique<GzipDecompressor>(); }

}  // namespace inkling
