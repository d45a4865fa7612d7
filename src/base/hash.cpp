#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <vector>

#include "base/files.h"
#include "base/strings.h"

namespace inkling {

struct Hasher::State {
  XXH3_state_t xxh3;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }

Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

void Hasher::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::string Hasher::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return hexadecimal(hash.high64, 16) + hexadecimal(hash.low64, 16);
}

std::string hash_text(std::string_view text) {
  Hasher hasher;
  hasher.update(text);
  return hasher.hex();
}

std::string hash_file(const std::filesystem::path& path, const std::function<void()>& after_block) {
  const InputFile file(path);
  Hasher hasher;
  std::vector<std::byte> buffer(1 << 20);
  std::uint64_t offset = 0;
  while (const std::size_t count = file.read_some(offset, buffer)) {
    hasher.update(std::span(buffer).first(count));
    offset += count;
    if (after_block) after_block();
  }
  return hasher.hex();
}

}  // namespace inkling
