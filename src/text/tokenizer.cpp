#include "text/tokenizer.h"

#include "base/error.h"
#include "base/strings.h"
#include "text/build_tokenizer.h"
#include "text/line_cuts.h"
#include "text/open_tokenizer.h"

namespace inkling {

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text) {
  tokenizer.check(text);  // the whole text at once, so that the error names what is wrong in every line
  std::vector<Token> tokens;
  while (!text.empty()) {
    const std::size_t length = next_line_length(text);
    tokenizer.encode_line(text.substr(0, length), tokens);
    text.remove_prefix(length);
  }
  return tokens;
}

std::string decode(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) text += tokenizer.decode(token);
  return text;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  const TokenizerJson fields = read_tokenizer_json(folder);
  if (fields.kind == "byte") return make_byte_tokenizer(fields.separator);
  if (fields.kind == "char") return open_char_tokenizer(folder, fields);
  if (fields.kind == "sentencepiece") return open_sentencepiece_tokenizer(folder, fields);
  refuse_tokenizer(tokenizer_json_path(folder),
                   str("its kind is ", quote(fields.kind), "; known are byte, char, sentencepiece"));
}

}  // namespace inkling
