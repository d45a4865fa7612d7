#include "text/tokenizer.h"

#include "base/error.h"
#include "base/strings.h"
#include "text/foreign_tokenizer.h"
#include "text/line_cuts.h"
#include "text/tokenizer_kind.h"

namespace inkling {

// A line for each kind, in the order of TokenizerKind.
extern const TokenizerFunctions byte_tokenizer, char_tokenizer, sentencepiece_tokenizer, bpe_tokenizer;
static constexpr const TokenizerFunctions* tokenizer_kinds[] = {
    &byte_tokenizer,
    &char_tokenizer,
    &sentencepiece_tokenizer,
    &bpe_tokenizer,
};

static const TokenizerFunctions& functions_of(TokenizerKind kind) {
  return *tokenizer_kinds[static_cast<std::size_t>(kind)];
}

std::size_t Tokenizer::part_length(std::string_view text, bool more_may_follow) const {
  return next_lines_length(text, more_may_follow);
}

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text) {
  tokenizer.check(text);  // the whole text at once, so that the error names what is wrong in every part
  std::vector<Token> tokens;
  while (!text.empty()) {
    const std::size_t length = tokenizer.part_length(text);
    tokenizer.encode_part(text.substr(0, length), tokens);
    text.remove_prefix(length);
  }
  return tokens;
}

std::string decode(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) text += tokenizer.decode(token);
  return text;
}

bool holds_tokenizer(const std::filesystem::path& folder) {
  return holds_description(folder) || holds_foreign_tokenizer(folder);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  if (!holds_description(folder) && holds_foreign_tokenizer(folder)) return open_foreign_tokenizer(folder);
  const TokenizerDescription description = read_description(folder);
  const auto& words = words_of<TokenizerKind>;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (description.kind == words[i]) return tokenizer_kinds[i]->open(folder, description);
  }
  refuse_tokenizer(description_path(folder), str("its kind is ", quote(description.kind), "; known are ",
                                                 join(std::vector<std::string>(words.begin(), words.end()), ", ")));
}

std::unique_ptr<Tokenizer> build_tokenizer(const TokenizerConfig& config, const ReadParts& read, bool with_separator) {
  return functions_of(config.kind).build(config, read, with_separator);
}

bool tokenizer_learns(const TokenizerConfig& config) { return functions_of(config.kind).learns(config); }

}  // namespace inkling
