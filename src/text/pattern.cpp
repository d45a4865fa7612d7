#include "text/pattern.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "text/unicode.h"

namespace inkling {

UnicodeClasses::UnicodeClasses() {
  std::vector<CharacterClass> all(code_point_count, CharacterClass::other);
  for (const UnicodeRange& range : unicode_ranges) {
    std::fill(all.begin() + range.first, all.begin() + range.last + 1, range.character_class);
  }
  std::map<std::vector<CharacterClass>, std::uint16_t> pages;
  for (std::size_t i = 0; i < page_of_.size(); ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * page_size);
    std::vector<CharacterClass> page(begin, begin + page_size);
    const auto [found, is_new] = pages.try_emplace(std::move(page), static_cast<std::uint16_t>(pages.size()));
    if (is_new) classes_.insert(classes_.end(), found->first.begin(), found->first.end());
    page_of_[i] = found->second;
  }
}

const UnicodeClasses& UnicodeClasses::table() {
  static const UnicodeClasses classes;
  return classes;
}

namespace {

// The classes of ASCII characters, and one more value for the bytes of all other characters.
constexpr auto not_ascii = static_cast<CharacterClass>(4);

constexpr std::array<CharacterClass, 256> make_byte_classes() {
  std::array<CharacterClass, 256> classes{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned letter = byte | 0x20;
    classes[byte] = byte >= 0x80                                    ? not_ascii
                    : letter >= 'a' && letter <= 'z'                ? CharacterClass::letter
                    : byte >= '0' && byte <= '9'                    ? CharacterClass::number
                    : byte == ' ' || (byte >= '\t' && byte <= '\r') ? CharacterClass::white_space
                                                                    : CharacterClass::other;
  }
  return classes;
}
constexpr std::array<CharacterClass, 256> byte_classes = make_byte_classes();

CharacterClass byte_class(char byte) { return byte_classes[static_cast<unsigned char>(byte)]; }

unsigned bits(char byte) { return static_cast<unsigned char>(byte); }

// How many bytes the character has that begins at `at`, in well-formed UTF-8.
std::ptrdiff_t character_length(const char* at) {
  const unsigned lead = bits(*at);
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

char32_t code_point(const char* at) {
  const unsigned lead = bits(at[0]);
  if (lead < 0x80) return lead;
  const unsigned second = bits(at[1]) & 0x3f;
  if (lead < 0xe0) return (lead & 0x1f) << 6 | second;
  const unsigned third = bits(at[2]) & 0x3f;
  if (lead < 0xf0) return (lead & 0x0f) << 12 | second << 6 | third;
  return (lead & 0x07) << 18 | second << 12 | third << 6 | (bits(at[3]) & 0x3f);
}

bool ends_line(char byte) { return byte == '\r' || byte == '\n'; }

// Where the last character of [begin, end) begins.
const char* last_character(const char* end) {
  do --end;
  while (continues_character(*end));
  return end;
}

}  // namespace

PatternScanner::PatternScanner(Pattern pattern, std::string_view text)
    : pattern_(pattern), classes_(UnicodeClasses::table()), at_(text.data()), end_(text.data() + text.size()) {}

std::span<const char* const> PatternScanner::next() {
  std::size_t count = 0;
  const auto fill = [&](auto word) {
    while (at_ != end_ && count < ends_.size()) ends_[count++] = at_ = word(at_);
  };
  switch (pattern_) {
    case Pattern::gpt2:
      fill([&](const char* at) { return gpt2_word(at); });
      break;
    case Pattern::cl100k:
      fill([&](const char* at) { return cl100k_word(at, true, 3); });
      break;
    case Pattern::llama3:
      fill([&](const char* at) { return cl100k_word(at, false, 3); });
      break;
    case Pattern::qwen2:
      fill([&](const char* at) { return cl100k_word(at, false, 1); });
      break;
    case Pattern::smollm2:
      fill([&](const char* at) { return word_between_numbers(at, true); });
      break;
    case Pattern::numbers:
      fill([&](const char* at) { return word_between_numbers(at, false); });
      break;
  }
  return std::span(ends_).first(count);
}

inline CharacterClass PatternScanner::class_at(const char* at) const {
  const CharacterClass known = byte_class(*at);
  return known != not_ascii ? known : classes_.of(code_point(at));
}

inline const char* PatternScanner::past_run(const char* at, CharacterClass wanted) const {
  while (at != end_) {
    const CharacterClass known = byte_class(*at);
    if (known == wanted) {
      ++at;
    } else if (known == not_ascii && classes_.of(code_point(at)) == wanted) {
      at += character_length(at);
    } else {
      break;
    }
  }
  return at;
}

// The end of the contraction whose apostrophe is at `at`; null if it is none. With either_case 'S is one too, and so is
// the long s, U+017F, of which S is the upper case.
const char* PatternScanner::contraction(const char* at, bool either_case) const {
  const auto letter = [&](std::ptrdiff_t i) -> char {
    if (at + i >= end_) return 0;
    const char byte = at[i];
    return either_case && byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte;
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e')) return at + 3;
  return either_case && first == '\xc5' && second == '\xbf' ? at + 3 : nullptr;
}

inline const char* PatternScanner::gpt2_word(const char* at) const {
  const char* const begin = at;
  if (*at == '\'') {
    if (const char* const past = contraction(at, false)) return past;
  }
  if (*at == ' ' && at + 1 != end_) ++at;
  const CharacterClass kind = class_at(at);
  if (kind != CharacterClass::white_space) return past_run(at + character_length(at), kind);
  const char* const past = past_run(at, CharacterClass::white_space);
  if (past == end_) return past;
  const char* const last = last_character(past);  // goes with the next word if it is a space
  return last == begin ? past : last;
}

const char* PatternScanner::word_between_numbers(const char* at, bool each_digit) {
  if (class_at(at) == CharacterClass::number) {
    return each_digit ? at + character_length(at) : past_run(at, CharacterClass::number);
  }
  if (number_ == nullptr || number_ <= at) {
    for (number_ = at; number_ != end_ && class_at(number_) != CharacterClass::number;) {
      number_ += character_length(number_);
    }
  }
  const char* const text_end = std::exchange(end_, number_);
  const char* const past = gpt2_word(at);
  end_ = text_end;
  return past;
}

inline const char* PatternScanner::cl100k_word(const char* at, bool final_space_is_one_word, int most_digits) const {
  if (*at == '\'') {
    if (const char* const past = contraction(at, true)) return past;
  }
  const CharacterClass kind = class_at(at);
  const char* const second = at + character_length(at);
  if (kind == CharacterClass::letter) return past_run(second, kind);
  if (kind == CharacterClass::number) {
    const char* past = second;
    for (int i = 1; i < most_digits && past != end_ && class_at(past) == kind; ++i) past += character_length(past);
    return past;
  }
  const CharacterClass behind = second == end_ ? CharacterClass::white_space : class_at(second);
  if (behind == CharacterClass::letter && !ends_line(*at)) return past_run(second, behind);
  if (kind == CharacterClass::other || (*at == ' ' && behind == CharacterClass::other)) {
    return std::find_if_not(past_run(second, CharacterClass::other), end_, ends_line);
  }
  const char* const past = past_run(second, CharacterClass::white_space);
  if (past == end_ && final_space_is_one_word) return past;
  for (const char* last = past; last != at; --last) {
    if (ends_line(last[-1])) return last;
  }
  if (past == end_) return past;
  const char* const last = last_character(past);
  return last == at ? past : last;
}

std::size_t last_boundary(std::string_view text, std::size_t limit) {
  const UnicodeClasses& classes = UnicodeClasses::table();
  // The class of the character that begins at `place`; none where no whole and well-formed character does.
  const auto class_of = [&](std::size_t place) -> std::optional<CharacterClass> {
    const auto length = static_cast<std::size_t>(character_length(text.data() + place));
    const std::string_view character = text.substr(place, length);
    if (character.size() < length || find_invalid_utf8(character)) return std::nullopt;
    return classes.of(code_point(character.data()));
  };
  std::optional<CharacterClass> right;
  for (std::size_t place = std::min(limit + 1, text.size()); place-- > 0;) {
    if (continues_character(text[place])) continue;
    const std::optional<CharacterClass> left = class_of(place);
    const std::size_t behind = place + (left ? static_cast<std::size_t>(character_length(text.data() + place)) : 0);
    if (left && right && behind <= limit) {
      const bool ends_run = (*left == CharacterClass::letter || *left == CharacterClass::number) && left != right;
      if (ends_run || (*left != CharacterClass::white_space && text[behind] == ' ')) return behind;
    }
    right = left;
  }
  return 0;
}

}  // namespace inkling
