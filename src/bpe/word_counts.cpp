#include "bpe/word_counts.h"

#include <algorithm>
#include <cstring>

namespace inkling {

namespace {

constexpr std::size_t first_places = 1 << 16;
// Every word costs something besides its bytes.
constexpr std::size_t bytes_beside_a_word = 8;

std::uint64_t hash_of(std::string_view word) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15ULL;
  std::uint64_t hash = word.size();
  while (word.size() >= 8) {
    std::uint64_t block = 0;
    std::memcpy(&block, word.data(), 8);
    hash = (hash ^ block) * factor;
    hash ^= hash >> 29;
    word.remove_prefix(8);
  }
  std::uint64_t block = 0;
  std::memcpy(&block, word.data(), word.size());
  hash = (hash ^ block) * factor;
  return hash ^ hash >> 32;
}

}  // namespace

WordCounts::WordCounts(std::size_t most_bytes) : most_bytes_(most_bytes), places_(first_places) {}

std::size_t WordCounts::place(std::uint64_t hash, std::string_view word) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = hash & mask;
  while (places_[at] != 0) {
    const Word& known = words_[places_[at] - 1];
    if (known.hash == hash && known.length == word.size() &&
        std::memcmp(text_.data() + known.begin, word.data(), word.size()) == 0) {
      break;
    }
    at = (at + 1) & mask;
  }
  return at;
}

void WordCounts::add(std::string_view word) {
  const std::uint64_t hash = hash_of(word);
  std::size_t at = place(hash, word);
  if (places_[at] != 0) {
    ++words_[places_[at] - 1].count;
    return;
  }
  while (text_.size() + bytes_beside_a_word * words_.size() + word.size() > most_bytes_ && !words_.empty()) {
    forget_rare();
    at = place(hash, word);
  }
  words_.push_back({hash, 1, static_cast<std::uint32_t>(text_.size()), static_cast<std::uint32_t>(word.size())});
  text_ += word;
  places_[at] = static_cast<std::uint32_t>(words_.size());
  if (2 * words_.size() > places_.size()) rebuild(2 * places_.size());
}

void WordCounts::rebuild(std::size_t places) {
  places_.assign(places, 0);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::size_t at = words_[i].hash & (places - 1);
    while (places_[at] != 0) at = (at + 1) & (places - 1);
    places_[at] = static_cast<std::uint32_t>(i + 1);
  }
}

void WordCounts::forget_rare() {
  ++forgotten_count_;
  std::size_t end = 0;
  std::string text;
  for (const Word& known : words_) {
    if (known.count <= forgotten_count_) continue;
    Word kept = known;
    kept.begin = static_cast<std::uint32_t>(text.size());
    text.append(text_, known.begin, known.length);
    words_[end++] = kept;
  }
  words_.resize(end);
  text_ = std::move(text);
  rebuild(places_.size());
}

}  // namespace inkling
