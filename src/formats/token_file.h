// Token shards: a header of 256 int32 (1,024 bytes), then the tokens. llm.c and modded-nanogpt read the uint16 kind.
// nanoGPT's train.bin has no header: it is tokens of 16 bits from its first byte to its last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/files.h"

namespace inkling {

using Token = std::uint32_t;

// How many bytes a token takes on disk.
enum class TokenWidth : int { u16 = 2, u32 = 4 };

// The narrowest width that holds ids below vocab_size.
TokenWidth token_width_for(std::uint64_t vocab_size);

// What a shard begins with. A file without a header says nothing about itself, so the settings must.
enum class TokenLayout { with_header, headerless };

inline constexpr std::uint64_t max_tokens_per_shard = 1'000'000'000;

// Writes one shard atomically.
class TokenShardWriter {
 public:
  TokenShardWriter(const std::filesystem::path& path, TokenWidth width);
  void append(std::span<const Token> tokens);  // Error internal past max_tokens_per_shard or if an id does not fit
  std::uint64_t count() const { return count_; }
  void commit();  // completes the header; the file appears

 private:
  OutputFile file_;
  TokenWidth width_;
  std::uint64_t count_ = 0;
  std::vector<std::uint16_t> narrowed_;  // the last append in 16 bits, kept for its memory
};

// One shard opened for reading with pread. The header is checked against the file's size.
class TokenShard {
 public:
  // Throws Error input if it is not a shard of this layout (naming data.headerless where the other one is likely) or
  // was cut short.
  explicit TokenShard(const std::filesystem::path& path, TokenLayout layout = TokenLayout::with_header);

  const std::filesystem::path& path() const { return file_.path(); }
  TokenWidth width() const { return width_; }
  std::uint64_t count() const { return count_; }
  void read(std::uint64_t first, std::span<Token> out) const;  // Error internal past the end

  // Throws Error input, naming the place in the file, if one of `tokens`, read from token number `first` on, is
  // vocab_size or more.
  void require_below(std::uint64_t vocab_size, std::uint64_t first, std::span<const Token> tokens) const;

 private:
  InputFile file_;
  TokenWidth width_ = TokenWidth::u16;
  std::uint64_t first_byte_ = 0;  // of the tokens
  std::uint64_t count_ = 0;

  std::uint64_t byte_of(std::uint64_t number) const;  // where this token is in the file
};

// Several shards read as one sequence of tokens below vocab_size.
class TokenSequence {
 public:
  TokenSequence(const std::vector<std::filesystem::path>& shards, std::uint64_t vocab_size,
                TokenLayout layout = TokenLayout::with_header);

  std::uint64_t count() const { return total_; }
  // Throws Error internal past the end, and Error input for a token of vocab_size or more, because kernels use tokens
  // as row numbers.
  void read(std::uint64_t first, std::span<Token> out) const;

 private:
  std::vector<TokenShard> shards_;
  std::vector<std::uint64_t> starts_;  // of each shard, in tokens
  std::uint64_t total_ = 0;
  std::uint64_t vocab_size_;
};

}  // namespace inkling
