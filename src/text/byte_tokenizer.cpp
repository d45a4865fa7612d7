#include <string>

#include "base/files.h"
#include "base/hash.h"
#include "text/tokenizer_errors.h"
#include "text/tokenizer_kind.h"

namespace inkling {

namespace {

constexpr std::uint64_t byte_count = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(bool with_separator) : with_separator_(with_separator) {}

  std::string kind() const override { return "byte"; }
  std::uint64_t vocab_size() const override { return byte_count + (with_separator_ ? 1 : 0); }

  std::optional<Token> separator() const override {
    return with_separator_ ? std::optional<Token>(Token{byte_count}) : std::nullopt;
  }

  void check(std::string_view) const override {}

  void encode_line(std::string_view line, std::vector<Token>& tokens) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(line.data());
    tokens.insert(tokens.end(), bytes, bytes + line.size());
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    return token < byte_count ? std::string(1, static_cast<char>(token)) : std::string();
  }

  void save(const std::filesystem::path& folder) const override { write_file(tokenizer_json_path(folder), json()); }
  std::string hash() const override { return hash_text(json()); }

 private:
  std::string json() const { return print_tokenizer_json({.kind = kind(), .separator = with_separator_}); }

  bool with_separator_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer(bool with_separator) {
  return std::make_unique<ByteTokenizer>(with_separator);
}

extern const TokenizerFunctions byte_tokenizer;
const TokenizerFunctions byte_tokenizer = {
    .build = [](const TokenizerConfig&, const ReadPieces&,
                bool with_separator) { return make_byte_tokenizer(with_separator); },
    .open = [](const std::filesystem::path&,
               const TokenizerJson& fields) { return make_byte_tokenizer(fields.separator); },
};

}  // namespace inkling
