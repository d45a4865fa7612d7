// What gzip and zstd have in common: members, each beginning with a sign, whose bytes become bytes of text.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace inkling {

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

std::unique_ptr<Decompressor> make_gzip_decompressor();
std::unique_ptr<Decompressor> make_zstd_decompressor();

}  // namespace inkling
