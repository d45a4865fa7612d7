#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "base/strings.h"
#include "text/hugging_face_files.h"
#include "text/text_cuts.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr std::size_t code_point_count = 0x110000;
constexpr std::size_t page_size = 256;

// Finds the token of a code point in two steps, by pages of 256 neighbours, of which only those in use take room. Most
// texts touch a handful of pages, so the table stays in the fastest cache, whatever the script.
class CodePointTable {
 public:
  static constexpr Token absent = ~Token{0};

  CodePointTable() : tokens_(page_size, absent) {}  // page 0 stays empty: all unused pages are this one

  Token find(char32_t code_point) const {
    return tokens_[page_of_[code_point / page_size] * page_size + code_point % page_size];
  }

  void insert(char32_t code_point, Token token) {
    std::uint16_t& page = page_of_[code_point / page_size];
    if (page == 0) {
      page = static_cast<std::uint16_t>(tokens_.size() / page_size);
      tokens_.resize(tokens_.size() + page_size, absent);
    }
    tokens_[page * page_size + code_point % page_size] = token;
  }

 private:
  std::array<std::uint16_t, code_point_count / page_size> page_of_{};
  std::vector<Token> tokens_;
};

class CharTokenizer final : public Tokenizer {
 public:
  // `code_points` are ascending.
  CharTokenizer(std::vector<char32_t> code_points, bool with_separator)
      : code_points_(std::move(code_points)), with_separator_(with_separator) {
    for (std::size_t i = 0; i < code_points_.size(); ++i) table_.insert(code_points_[i], static_cast<Token>(i));
  }

  std::string kind() const override { return "char"; }
  std::uint64_t vocab_size() const override { return code_points_.size() + (with_separator_ ? 1 : 0); }

  std::optional<Token> separator() const override {
    return with_separator_ ? std::optional<Token>(static_cast<Token>(code_points_.size())) : std::nullopt;
  }

  std::vector<AddedToken> special_tokens() const override {
    if (!with_separator_) return {};
    return {{*separator(), separator_name}};
  }

  void check(std::string_view text) const override {
    require_utf8(text);
    std::vector<char32_t> unknown;
    for (std::size_t offset = 0; offset < text.size();) {
      const char32_t code_point = decode_utf8(text, offset);
      if (table_.find(code_point) != CodePointTable::absent) continue;
      if (std::find(unknown.begin(), unknown.end(), code_point) == unknown.end()) unknown.push_back(code_point);
    }
    if (!unknown.empty()) refuse_characters(unknown);
  }

  void encode_part(std::string_view part, bool, std::vector<Token>& tokens) const override {
    require_utf8(part);
    const std::size_t before = tokens.size();
    tokens.resize(before + part.size());  // a character has at least one byte
    Token* out = tokens.data() + before;
    Token all = 0;  // every bit set in any token: `absent` has the highest, which no token has
    for (std::size_t offset = 0; offset < part.size(); ++out) {
      const auto byte = static_cast<unsigned char>(part[offset]);
      *out = table_.find(byte < 0x80 ? (++offset, byte) : decode_utf8(part, offset));
      all |= *out;
    }
    const bool every_character_known = all != CodePointTable::absent;
    tokens.resize(every_character_known ? static_cast<std::size_t>(out - tokens.data()) : before);
    if (!every_character_known) check(part);
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    std::string character;
    if (token < code_points_.size()) append_utf8(character, code_points_[token]);
    return character;
  }

  void save(const std::filesystem::path& folder) const override {
    write_description(folder, description());
    const auto name = with_separator_ ? std::optional<std::string>(separator_name) : std::nullopt;
    write_hugging_face_files(folder, print_char_tokenizer(code_points_, separator()), {name, name});
  }
  std::string hash() const override { return hash_text(print_description(description())); }

 private:
  TokenizerDescription description() const {
    std::string characters;
    for (const char32_t code_point : code_points_) append_utf8(characters, code_point);
    return {.kind = kind(), .separator = with_separator_, .characters = characters};
  }

  std::vector<char32_t> code_points_;
  CodePointTable table_;
  bool with_separator_;
};

}  // namespace

CharVocabularyBuilder::CharVocabularyBuilder() : seen_(code_point_count) {}

void CharVocabularyBuilder::add(std::string_view lines) {
  require_utf8(lines);
  for (std::size_t offset = 0; offset < lines.size();) seen_[decode_utf8(lines, offset)] = true;
}

std::unique_ptr<Tokenizer> CharVocabularyBuilder::finish(bool with_separator) const {
  std::vector<char32_t> code_points;
  for (std::size_t code_point = 0; code_point < seen_.size(); ++code_point) {
    if (seen_[code_point]) code_points.push_back(static_cast<char32_t>(code_point));
  }
  if (code_points.empty()) {
    throw Error::input("there is no text to take a vocabulary from: the sources are empty; check data.source");
  }
  return std::make_unique<CharTokenizer>(std::move(code_points), with_separator);
}

static std::unique_ptr<Tokenizer> open_char_tokenizer(const std::filesystem::path& folder,
                                                      const TokenizerDescription& description) {
  const auto path = description_path(folder);
  if (!description.characters || description.characters->empty()) refuse_tokenizer(path, "\"characters\" is missing");
  std::vector<char32_t> code_points;
  for (std::size_t offset = 0; offset < description.characters->size();) {
    code_points.push_back(decode_utf8(*description.characters, offset));
  }
  if (std::adjacent_find(code_points.begin(), code_points.end(), std::greater_equal<>()) != code_points.end()) {
    refuse_tokenizer(path, "\"characters\" is not in ascending order");
  }
  return std::make_unique<CharTokenizer>(std::move(code_points), description.separator);
}

static std::unique_ptr<Tokenizer> build_char_tokenizer(const TokenizerConfig&, const ReadParts& read,
                                                       bool with_separator) {
  CharVocabularyBuilder builder;
  read("collecting characters", next_lines_length, [&](std::string_view lines, bool) { builder.add(lines); });
  return builder.finish(with_separator);
}

extern const TokenizerFunctions char_tokenizer;
const TokenizerFunctions char_tokenizer = {.build = build_char_tokenizer, .open = open_char_tokenizer};

}  // namespace inkling
