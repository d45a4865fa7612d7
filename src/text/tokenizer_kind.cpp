#include "text/tokenizer_kind.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace inkling {

namespace {

constexpr std::size_t characters_named = 10;

// "é" (U+00E9)
std::string describe(char32_t code_point) {
  std::string character;
  append_utf8(character, code_point);
  return str(quote(character), " (U+", hexadecimal(code_point, 4, Letters::upper_case), ")");
}

}  // namespace

void require_utf8(std::string_view text) {
  const auto offset = find_invalid_utf8(text);
  if (!offset) return;
  const auto byte = static_cast<unsigned char>(text[*offset]);
  throw Error::input(str("not UTF-8 at byte ", *offset, " (0x", hexadecimal(byte, 2, Letters::upper_case),
                         "): convert the text (iconv -f LATIN1 -t UTF-8, say) or choose data.tokenizer.kind: byte"));
}

void require_token(Token token, std::uint64_t vocab_size) {
  if (token < vocab_size) return;
  throw Error::input(str("token ", token, " is not in the vocabulary, whose tokens are 0 to ", vocab_size - 1,
                         ": were these tokens made with another tokenizer?"));
}

void refuse_characters(std::span<const char32_t> code_points) {
  std::vector<std::string> names;
  for (const char32_t code_point : code_points.first(std::min(code_points.size(), characters_named))) {
    names.push_back(describe(code_point));
  }
  std::string more;
  if (code_points.size() > characters_named) more = str(" and ", code_points.size() - characters_named, " more");
  throw Error::input(str("no token for ", join(names, ", "), more,
                         ": the text this vocabulary was made from does not have ",
                         code_points.size() == 1 ? "it; leave it out" : "them; leave them out",
                         ", or train with data.tokenizer.kind: sentencepiece or byte, which can spell everything"));
}

}  // namespace inkling
