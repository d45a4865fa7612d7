#include "text/text_cuts.h"

#include "base/random.h"
#include "base/strings.h"

namespace inkling {

std::size_t cut_within(std::string_view text, std::size_t limit) {
  // The white space begins the next piece: sentencepiece's words carry the space in front of them.
  const std::size_t space = text.find_last_of(" \t\r\v\f", limit);
  if (space != std::string_view::npos && space > 0) return space;
  const std::size_t start = character_start(text, limit);
  // A character that begins farther away is not UTF-8, and then any place is as good as another.
  return start > 0 && limit - start <= 4 ? start : limit;
}

std::size_t next_line_length(std::string_view text, bool more_may_follow) {
  const std::size_t newline = text.substr(0, max_line_bytes).find('\n');
  if (newline != std::string_view::npos) return newline + 1;
  if (text.size() > max_line_bytes) return cut_within(text, max_line_bytes);
  return more_may_follow ? 0 : text.size();
}

std::size_t next_lines_length(std::string_view text, bool more_may_follow) {
  if (text.size() <= part_bytes) return more_may_follow ? 0 : text.size();
  const std::size_t newline = text.rfind('\n', part_bytes - 1);
  return newline == std::string_view::npos ? next_line_length(text, more_may_follow) : newline + 1;
}

namespace {

constexpr std::size_t longest_character = 4;  // in bytes

// The bytes of the character that begins at `at`. What is not UTF-8 gives some number, too.
std::uint64_t character_at(std::string_view text, std::size_t at) {
  std::uint64_t bytes = static_cast<unsigned char>(text[at]);
  for (std::size_t i = at + 1; i < text.size() && i < at + longest_character && continues_character(text[i]); ++i) {
    bytes = bytes << 8 | static_cast<unsigned char>(text[i]);
  }
  return bytes;
}

std::uint64_t neighbours(std::string_view text, std::size_t left, std::size_t right) {
  return character_at(text, left) << 32 | character_at(text, right);
}

}  // namespace

PieceCuts::PieceCuts(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    if (piece.type == PieceType::text || piece.type == PieceType::user_defined) add(piece.bytes);
  }
}

PieceCuts::PieceCuts(std::span<const std::string> texts) {
  for (const std::string& text : texts) add(text);
}

void PieceCuts::add(std::string_view piece) {
  for (std::size_t left = 0, right = 1; right < piece.size(); ++right) {
    if (continues_character(piece[right])) continue;
    joined_.insert(neighbours(piece, left, right));
    left = right;
  }
}

std::size_t PieceCuts::last_cut(std::string_view text, std::size_t limit) const {
  for (std::size_t right = character_start(text, limit); right > 0;) {
    const std::size_t left = character_start(text, right - 1);
    if (!joined_.contains(neighbours(text, left, right))) return right;
    right = left;
  }
  return 0;
}

std::size_t PieceCuts::part_length(std::string_view text, bool more_may_follow) const {
  // The character behind the cut has to be there as a whole.
  if (text.size() < part_bytes + longest_character) return more_may_follow ? 0 : text.size();
  const std::size_t cut = last_cut(text, part_bytes);
  return cut > 0 ? cut : cut_within(text, part_bytes);
}

std::size_t PieceCuts::stretch_length(std::string_view part) const {
  for (std::size_t limit = 2048; limit < part.size(); limit *= 2) {
    if (const std::size_t cut = last_cut(part, limit)) return cut;
  }
  return part.size();
}

LineSample::LineSample(std::uint64_t seed, std::uint64_t max_bytes)
    : key_(random_key(seed, Purpose::tokenizer_sample, 0)), max_bytes_(max_bytes) {}

void LineSample::add(std::string_view line) {
  const std::uint64_t number = random_bits(key_, line_count_++);
  if (number > threshold_) return;
  text_ += line;
  lines_.push_back({number, static_cast<std::uint32_t>(line.size())});
  while (taken() > max_bytes_ && threshold_ > 0) drop_half();
}

void LineSample::drop_half() {
  threshold_ >>= 1;
  std::size_t from = 0, to = 0, kept = 0;
  for (const Line& line : lines_) {
    if (line.number <= threshold_) {
      text_.replace(to, line.length, text_, from, line.length);
      to += line.length;
      lines_[kept++] = line;
    }
    from += line.length;
  }
  text_.resize(to);
  lines_.resize(kept);
}

}  // namespace inkling
