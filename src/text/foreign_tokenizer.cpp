#include "text/foreign_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/json_fields.h"
#include "text/bpe_tokenizer.h"
#include "text/foreign_sentencepiece.h"
#include "text/special_tokens.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

namespace fs = std::filesystem;

// tokenizer.json of Llama 2 and its like is a translation of tokenizer.model, which inkling does not read.
bool is_byte_level(const fs::path& path) {
  const JsonFields json(path, "fetch the tokenizer again");
  return json.has("decoder") && json.section("decoder").optional_text("type") == "ByteLevel";
}

std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& folder) {
  auto model = make_sentencepiece_model(folder, read_small_file(folder / sentencepiece_file_name));
  SentencepieceRules rules;
  refuse_other_tokens(folder, model->pieces());
  rules.added = read_added_tokens(folder, model->pieces());
  rules.prefix_space = read_prefix_space(folder).value_or(model->file().add_dummy_prefix);
  const std::vector<AddedToken> special = special_tokens(*model, rules.added);
  rules.separator = read_separator(folder, special, "</s>");
  const FirstToken first = read_first_token(folder, special, "<s>");
  if (first.wanted.value_or(true)) rules.first_token = first.bos;
  return make_foreign_sentencepiece(std::move(model), std::move(rules));
}

std::unique_ptr<Tokenizer> open_bpe(const fs::path& folder) {
  BpeVocabulary vocabulary = read_configured_bpe(folder);
  const FirstToken first = read_first_token(folder, vocabulary.added, "");
  if (first.wanted) vocabulary.first_token = *first.wanted ? first.bos : std::nullopt;
  const std::optional<Token> separator = read_separator(folder, vocabulary.added, "");
  try {
    return make_bpe_tokenizer(std::move(vocabulary), separator);
  } catch (const Error& error) {
    throw Error::input(str(folder.string(), ": its tokenizer cannot be used: ", error.message()));
  }
}

}  // namespace

bool holds_foreign_tokenizer(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  return has("tokenizer.json") || has(sentencepiece_file_name) || (has("vocab.json") && has("merges.txt")) ||
         (has("encoder.json") && has("vocab.bpe"));
}

std::unique_ptr<Tokenizer> open_foreign_tokenizer(const fs::path& folder) {
  const fs::path json = folder / "tokenizer.json";
  const bool has_model = fs::exists(folder / sentencepiece_file_name);
  return has_model && !(fs::exists(json) && is_byte_level(json)) ? open_sentencepiece(folder) : open_bpe(folder);
}

}  // namespace inkling
