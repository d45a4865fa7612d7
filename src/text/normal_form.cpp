#include "text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

int combining_class(utf8proc_int32_t code_point) { return utf8proc_get_property(code_point)->combining_class; }

// Appends what the character is made of, in Unicode's full canonical decomposition.
void decompose(char32_t code_point, std::vector<utf8proc_int32_t>& parts) {
  std::array<utf8proc_int32_t, 16> buffer{};  // the longest has 4
  int last_boundary = 0;
  const auto decomposing = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), buffer.data(),
                                                         buffer.size(), decomposing, &last_boundary);
  if (count < 0 || count > static_cast<utf8proc_ssize_t>(buffer.size())) {
    throw Error::internal(str("utf8proc cannot decompose U+", hexadecimal(code_point, 4)));
  }
  parts.insert(parts.end(), buffer.begin(), buffer.begin() + count);
}

// Brings marks that stand side by side into their canonical order. The library's own way takes the square of their
// number.
void sort_marks(std::vector<utf8proc_int32_t>& parts) {
  for (auto begin = parts.begin(); begin != parts.end();) {
    const auto end = std::find_if(begin, parts.end(), [](auto part) { return combining_class(part) == 0; });
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end == parts.end() ? end : end + 1;
  }
}

// Appends the form NFC of a text.
void compose_into(std::string_view text, std::string& composed) {
  std::vector<utf8proc_int32_t> parts;
  for (std::size_t offset = 0; offset < text.size();) decompose(decode_utf8(text, offset), parts);
  sort_marks(parts);
  // utf8proc 2.8 takes U+11A7 for the missing last part of a Korean syllable and drops it, so it never sees one inside.
  for (auto begin = parts.begin(); begin != parts.end();) {
    const auto end = std::find(begin + 1, parts.end(), 0x11a7);
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        &*begin, end - begin, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (count < 0) throw Error::internal(str("utf8proc: ", utf8proc_errmsg(count)));
    for (auto part = begin; part != begin + count; ++part) append_utf8(composed, static_cast<char32_t>(*part));
    begin = end;
  }
}

// What some character is made of behind its first part, ascending. None from U+30000 on is made of several.
std::vector<char32_t> find_later_parts() {
  std::vector<char32_t> later;
  std::vector<utf8proc_int32_t> parts;
  for (char32_t code_point = 0; code_point < 0x30000; ++code_point) {
    if (code_point >= 0xd800 && code_point < 0xe000) continue;  // surrogates are no characters
    parts.clear();
    decompose(code_point, parts);
    later.insert(later.end(), parts.begin() + 1, parts.end());
  }
  std::sort(later.begin(), later.end());
  later.erase(std::unique(later.begin(), later.end()), later.end());
  return later;
}

// Whether the byte begins a character that may combine with what is in front of it: from U+0300 on.
bool may_combine(char byte) { return static_cast<unsigned char>(byte) >= 0xcc; }

}  // namespace

std::string compose(std::string_view text) {
  std::string composed;
  while (!text.empty()) {
    const auto far = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), may_combine) - text.begin());
    if (far == text.size()) return composed += text;
    const std::size_t begin = far > 0 ? character_start(text, far - 1) : 0;
    std::size_t end = far;
    while (end < text.size() && (may_combine(text[end]) || continues_character(text[end]))) ++end;
    composed += text.substr(0, begin);  // the form NFC already, and nothing combines across its ends
    compose_into(text.substr(begin, end - begin), composed);
    text.remove_prefix(end);
  }
  return composed;
}

bool begins_anew(char32_t code_point) {
  static const std::vector<char32_t> later_parts = find_later_parts();
  std::vector<utf8proc_int32_t> parts;
  decompose(code_point, parts);
  const auto first = static_cast<char32_t>(parts.front());
  return combining_class(parts.front()) == 0 && !std::binary_search(later_parts.begin(), later_parts.end(), first);
}

}  // namespace inkling
