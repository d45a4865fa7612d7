#include "formats/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/strings.h"
#include "formats/foreign_file.h"

namespace inkling {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and copied as they stand");

using Header = std::array<std::int32_t, 256>;

struct Kind {
  std::int32_t magic;
  std::int32_t version;
  TokenWidth width;
};

constexpr std::array kinds = {
    Kind{20240520, 1, TokenWidth::u16},  // GPT-2's in llm.c
    Kind{20240801, 7, TokenWidth::u32},  // Llama 3's in llm.c
};

constexpr std::uint64_t bytes_of(TokenWidth width) { return static_cast<std::uint64_t>(width); }

// What to add to a refusal of a file that may be what nanoGPT writes.
std::string headerless_hint(const InputFile& file) {
  if (file.size() == 0 || file.size() % bytes_of(TokenWidth::u16) != 0) return "";
  return "; if it is nothing but tokens of 16 bits, as nanoGPT's train.bin is, write data.headerless: true";
}

Header header_of(const InputFile& file) {
  Header header;
  if (file.size() < sizeof header) {
    throw Error::input(str(file.path().string(), ": holds ", file.size(), " bytes, less than the header of a token ",
                           "file; it was cut short or is not one; make it again with inkling-prepare",
                           headerless_hint(file)));
  }
  file.read_exactly(0, std::as_writable_bytes(std::span(header)));
  return header;
}

TokenWidth width_of(const Header& header, const InputFile& file) {
  const std::string path = file.path().string();
  for (const Kind& kind : kinds) {
    if (header[0] != kind.magic) continue;
    if (header[1] == kind.version) return kind.width;
    throw Error::input(str(path, ": is a token file of version ", header[1], "; inkling reads version ", kind.version,
                           "; make it again with inkling-prepare"));
  }
  throw Error::input(str(path, ": is not a token file: it begins with the number ", header[0], " instead of ",
                         kinds[0].magic, " (16-bit tokens) or ", kinds[1].magic,
                         " (32-bit tokens); make one with inkling-prepare", headerless_hint(file)));
}

std::uint64_t count_of(const Header& header, TokenWidth width, const InputFile& file) {
  const std::string path = file.path().string();
  if (header[2] < 0) throw Error::input(str(path, ": promises ", header[2], " tokens; the header is damaged"));
  const auto count = static_cast<std::uint64_t>(header[2]);
  const std::uint64_t expected = sizeof(Header) + count * bytes_of(width);
  if (file.size() == expected) return count;
  throw Error::input(str(path, ": holds ", file.size(), " bytes, but ", format_count(count), " tokens take ", expected,
                         file.size() < expected ? "; the file was cut short" : "; something was appended",
                         ", make or fetch it again"));
}

void refuse_pointer(const InputFile& file) {
  std::array<char, bytes_of_front> front;
  const std::size_t count = file.read_some(0, std::as_writable_bytes(std::span(front)));
  const auto pointer = pointer_of_git_lfs({front.data(), count});
  if (pointer) throw Error::input(str(file.path().string(), " is ", pointer->what, ": ", pointer->remedy));
}

// How many tokens a file without a header holds. One that begins as a header does is refused: its 512 numbers would be
// taken for tokens.
std::uint64_t count_headerless(const InputFile& file) {
  const std::string path = file.path().string();
  if (file.size() % bytes_of(TokenWidth::u16) != 0) {
    throw Error::input(str(path, ": holds ", file.size(),
                           " bytes, an odd number, and without a header (data.headerless) each token takes 2; the file "
                           "was cut short or holds something else, make or fetch it again"));
  }
  std::array<std::int32_t, 2> front{};
  file.read_some(0, std::as_writable_bytes(std::span(front)));
  for (const Kind& kind : kinds) {
    if (front[0] != kind.magic || front[1] != kind.version) continue;
    throw Error::input(str(path, ": begins with the header of a token file (", kind.magic, ", version ", kind.version,
                           "), and data.headerless says that there is none; write data.headerless: false"));
  }
  return file.size() / bytes_of(TokenWidth::u16);
}

}  // namespace

TokenWidth token_width_for(std::uint64_t vocab_size) {
  if (vocab_size > std::uint64_t{1} << 32) throw Error::internal(str("no token width holds ", vocab_size, " ids"));
  return vocab_size <= std::uint64_t{1} << 16 ? TokenWidth::u16 : TokenWidth::u32;
}

TokenShardWriter::TokenShardWriter(const fs::path& path, TokenWidth width) : file_(path), width_(width) {
  const Header blank{};  // commit() fills it in
  file_.write(std::as_bytes(std::span(blank)));
}

void TokenShardWriter::append(std::span<const Token> tokens) {
  if (tokens.size() > max_tokens_per_shard - count_) throw Error::internal("more tokens than a shard may hold");
  if (width_ == TokenWidth::u32) {
    file_.write(std::as_bytes(tokens));
  } else {
    narrowed_.resize(tokens.size());
    Token largest = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      largest = std::max(largest, tokens[i]);
      narrowed_[i] = static_cast<std::uint16_t>(tokens[i]);
    }
    if (largest > std::numeric_limits<std::uint16_t>::max()) {
      throw Error::internal(str("token ", largest, " does not fit into 16 bits"));
    }
    file_.write(std::as_bytes(std::span(narrowed_)));
  }
  count_ += tokens.size();
}

void TokenShardWriter::commit() {
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& one) { return one.width == width_; });
  Header header{};
  header[0] = kind->magic;
  header[1] = kind->version;
  header[2] = static_cast<std::int32_t>(count_);
  file_.write_at(0, std::as_bytes(std::span(header)));
  file_.commit();
}

TokenShard::TokenShard(const fs::path& path, TokenLayout layout) : file_(path) {
  refuse_pointer(file_);
  if (layout == TokenLayout::headerless ? is_saved_by_torch(file_) : is_pickle(file_)) refuse_pickle(path);
  if (layout == TokenLayout::headerless) {
    count_ = count_headerless(file_);
    return;
  }
  const Header header = header_of(file_);
  first_byte_ = sizeof header;
  width_ = width_of(header, file_);
  count_ = count_of(header, width_, file_);
}

std::uint64_t TokenShard::byte_of(std::uint64_t number) const { return first_byte_ + number * bytes_of(width_); }

void TokenShard::read(std::uint64_t first, std::span<Token> out) const {
  if (first > count_ || out.size() > count_ - first) {
    throw Error::internal(str("tokens ", first, " to ", first + out.size(), " of ", count_, " in ", path().string()));
  }
  std::uint64_t offset = byte_of(first);
  if (width_ == TokenWidth::u32) return file_.read_exactly(offset, std::as_writable_bytes(out));
  std::array<std::uint16_t, 4096> narrow;  // 8 KiB: stays in the first cache
  while (!out.empty()) {
    const auto chunk = std::span(narrow).first(std::min(narrow.size(), out.size()));
    file_.read_exactly(offset, std::as_writable_bytes(chunk));
    std::copy(chunk.begin(), chunk.end(), out.begin());
    out = out.subspan(chunk.size());
    offset += chunk.size_bytes();
  }
}

void TokenShard::require_below(std::uint64_t vocab_size, std::uint64_t first, std::span<const Token> tokens) const {
  Token largest = 0;  // a loop without an exit, which the compiler turns into a few instructions for many tokens
  for (const Token token : tokens) largest = std::max(largest, token);
  if (largest < vocab_size || tokens.empty()) return;
  const auto unknown = std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return token >= vocab_size; });
  const std::uint64_t number = first + static_cast<std::uint64_t>(unknown - tokens.begin());
  throw Error::input(str(path().string(), ": token number ", number, ", at byte ", byte_of(number), ", is ", *unknown,
                         ", and the vocabulary has ", vocab_size,
                         " tokens, whose ids are below that: the file is damaged or was made with another "
                         "vocabulary (data.vocab_size says which ready token files have); make or fetch it again"));
}

TokenSequence::TokenSequence(const std::vector<fs::path>& shards, std::uint64_t vocab_size, TokenLayout layout)
    : vocab_size_(vocab_size) {
  shards_.reserve(shards.size());
  for (const fs::path& path : shards) {
    starts_.push_back(total_);
    total_ += shards_.emplace_back(path, layout).count();
  }
}

void TokenSequence::read(std::uint64_t first, std::span<Token> out) const {
  if (first > total_ || out.size() > total_ - first) {
    throw Error::internal(str("tokens ", first, " to ", first + out.size(), " of a sequence of ", total_));
  }
  auto shard = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin());
  for (--shard; !out.empty(); ++shard) {
    const std::uint64_t within = first - starts_[shard];
    const std::uint64_t available = shards_[shard].count() - within;
    const auto part = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(available, out.size())));
    shards_[shard].read(within, part);
    shards_[shard].require_below(vocab_size_, within, part);
    out = out.subspan(part.size());
    first += part.size();
  }
}

}  // namespace inkling
