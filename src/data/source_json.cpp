#include "data/source_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

bool JsonElements::has(std::size_t at) {
  if (at > longest_document) {
    refuse(0, str("a value of more than ", format_bytes(longest_document),
                  ", and each is one document; if the texts are inside it, write them one a line, as jq -c '.NAME[]' "
                  "does"));
  }
  while (at >= stream_.view().size() && !stream_.at_end()) stream_.read_more();
  return at < stream_.view().size();
}

std::size_t JsonElements::spaces_from(std::size_t at) {
  while (has(at) && is_json_space(stream_.view()[at])) ++at;
  return at;
}

// Of the value at the beginning of view(): up to the bracket or quote that closes it or, if it is a number or a word,
// up to what ends it. One that the file's end cuts short has all the rest.
std::size_t JsonElements::length_of_value() {
  std::size_t depth = 0, at = 0;
  bool in_string = false;
  for (; has(at); ++at) {
    const char c = stream_.view()[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
      if (c == '"' && depth == 0) return at + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth <= 1) return depth == 0 ? at : at + 1;
      --depth;
    } else if (depth == 0 && (c == ',' || is_json_space(c))) {
      return at;
    }
  }
  return stream_.view().size();
}

// Returns where the next value begins, or the file ends.
std::size_t JsonElements::separators_from(std::size_t at) {
  at = spaces_from(at);
  if (!in_list_) return at;
  if (!has(at)) refuse(at, "the list breaks off: there is no ] at its end; make or fetch the file again");
  const char c = stream_.view()[at];
  if (c != ',' && c != ']')
    refuse(at, "this is not JSON: between members of a list there is a comma, and ] behind them");
  at = spaces_from(at + 1);
  if (c == ']' && has(at)) refuse(at, "this is not JSON: something follows the list");
  ended_ = c == ']';
  return at;
}

std::optional<JsonElements::Element> JsonElements::next() {
  take(given_);
  if (!begun_) {
    begun_ = true;
    take(spaces_from(0));
    in_list_ = has(0) && stream_.view()[0] == '[';
    if (in_list_) take(1);
    take(spaces_from(0));
    if (in_list_ && has(0) && stream_.view()[0] == ']') separators_from(0);
  }
  given_ = 0;
  if (ended_ || (!in_list_ && !has(0))) return std::nullopt;
  const std::size_t length = length_of_value();
  if (length == 0) refuse(0, "this is not JSON: a value is missing");
  given_ = separators_from(length);
  const std::uint64_t begin = stream_.offset();
  return Element{stream_.view().substr(0, length), begin, begin + given_, line_};
}

void JsonElements::take(std::size_t bytes) {
  const std::string_view text = stream_.view().substr(0, bytes);
  line_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  stream_.take(bytes);
}

void JsonElements::refuse(std::size_t at, std::string_view what) const {
  const std::string_view text = stream_.view().substr(0, at);
  const auto line = line_ + static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  throw Error::input(str(path_.string(), ":", line, ": ", what));
}

}  // namespace inkling
