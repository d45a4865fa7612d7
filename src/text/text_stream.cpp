#include "text/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty())
      throw Error::input("a text to stop at is empty, and every text holds the empty one; leave it out");
  }
}

// Returns how many bytes at the end of waiting_ may be the beginning of a stop string.
std::size_t StopFilter::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, waiting_.size()); length > longest; --length) {
      if (std::string_view(waiting_).substr(waiting_.size() - length) == std::string_view(stop).substr(0, length)) {
        longest = length;
      }
    }
  }
  return longest;
}

std::string StopFilter::push(std::string_view piece) {
  if (found_) return {};
  waiting_ += piece;
  std::size_t start = 0;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = waiting_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < start)) {
      start = at;
      end = stop_end;
    }
  }
  found_ = end != std::string::npos;
  std::string certain = waiting_.substr(0, found_ ? start : waiting_.size() - held_back());
  waiting_.erase(0, found_ ? waiting_.size() : certain.size());
  return certain;
}

std::string StopFilter::finish() { return std::exchange(waiting_, {}); }

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
