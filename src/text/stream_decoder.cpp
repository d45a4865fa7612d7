#include "text/stream_decoder.h"

#include "base/strings.h"

namespace inkling {

namespace {

constexpr std::string_view replacement_character = "\xef\xbf\xbd";  // U+FFFD

// The length of the ill-formed bytes at the front of `bytes` that one U+FFFD stands for: as many as began a character
// (Unicode, chapter 3.9, "substitution of maximal subparts").
std::size_t ill_formed_length(std::string_view bytes) {
  std::size_t length = 1;
  while (length < bytes.size() && incomplete_utf8_suffix(bytes.substr(0, length + 1)) == length + 1) ++length;
  return length;
}

}  // namespace

std::string StreamDecoder::push(Token token) {
  const std::string bytes = tokenizer_.decode(token);
  if (bytes.empty()) return {};
  waiting_ += std::string_view(bytes).substr(bytes.starts_with(prefix_) ? prefix_.size() : 0);
  prefix_ = {};
  std::string_view rest = waiting_;
  std::string text;
  while (const auto invalid = find_invalid_utf8(rest)) {
    text += rest.substr(0, *invalid);
    rest.remove_prefix(*invalid);
    if (incomplete_utf8_suffix(rest) == rest.size()) {
      waiting_ = std::string(rest);
      return text;
    }
    text += replacement_character;
    rest.remove_prefix(ill_formed_length(rest));
  }
  text += rest;
  waiting_.clear();
  return text;
}

std::string StreamDecoder::finish() {
  const bool unfinished = !waiting_.empty();
  waiting_.clear();
  prefix_ = tokenizer_.prefix();
  return std::string(unfinished ? replacement_character : "");
}

}  // namespace inkling
