// The one file that sees zstd.
#include <zstd.h>
#include <zstd_errors.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/strings.h"
#include "formats/decompressor.h"

namespace inkling {

namespace {

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

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor() { return std::make_unique<ZstdDecompressor>(); }

}  // namespace inkling
