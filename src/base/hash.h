// Content identity: XXH3 with 128 bits, as 32 hexadecimal digits (`xxh128sum` prints the same).
// It tells files apart; it does not protect against a forger.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace inkling {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  std::string hex() const;  // of everything so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_text(std::string_view text);

// Streaming; calls after_block() for each MiB. Throws Error input as for InputFile.
std::string hash_file(const std::filesystem::path& path, const std::function<void()>& after_block = {});

}  // namespace inkling
