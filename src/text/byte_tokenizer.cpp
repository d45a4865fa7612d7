#include <string>

#include "base/hash.h"
#include "text/hugging_face_files.h"
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

  std::vector<AddedToken> special_tokens() const override {
    if (!with_separator_) return {};
    return {{Token{byte_count}, separator_name}};
  }

  void check(std::string_view) const override {}

  void encode_part(std::string_view part, bool, std::vector<Token>& tokens) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(part.data());
    tokens.insert(tokens.end(), bytes, bytes + part.size());
  }

  std::string decode(Token token) const override {
    require_token(token, vocab_size());
    return token < byte_count ? std::string(1, static_cast<char>(token)) : std::string();
  }

  void save(const std::filesystem::path& folder) const override {
    write_description(folder, description());
    const auto name = with_separator_ ? std::optional<std::string>(separator_name) : std::nullopt;
    write_hugging_face_files(folder, print_byte_tokenizer(separator()), {name, name});
  }
  std::string hash() const override { return hash_text(print_description(description())); }

 private:
  TokenizerDescription description() const { return {.kind = kind(), .separator = with_separator_}; }

  bool with_separator_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer(bool with_separator) {
  return std::make_unique<ByteTokenizer>(with_separator);
}

extern const TokenizerFunctions byte_tokenizer;
const TokenizerFunctions byte_tokenizer = {
    .build = [](const TokenizerConfig&, const ReadParts&,
                bool with_separator) { return make_byte_tokenizer(with_separator); },
    .open = [](const std::filesystem::path&,
               const TokenizerDescription& description) { return make_byte_tokenizer(description.separator); },
};

}  // namespace inkling
