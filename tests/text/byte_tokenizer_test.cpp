#include "tests/text/text_testing.h"

namespace inkling {
namespace {

TEST(ByteTokenizer, EveryByteStringReturns) {
  const auto tokenizer = make_byte_tokenizer(false);
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, all_bytes)), all_bytes);
  EXPECT_TRUE(rc::check([&](const std::string& text) {
    const auto tokens = encode(*tokenizer, text);
    RC_ASSERT(tokens.size() == text.size());
    RC_ASSERT(decode(*tokenizer, tokens) == text);
  }));
}

TEST(ByteTokenizer, TokensAreTheBytesAndTheSeparatorComesAfterThem) {
  const auto tokenizer = make_byte_tokenizer(true);
  EXPECT_EQ(encode(*tokenizer, "a\xff"), (std::vector<Token>{97, 255}));
  EXPECT_EQ(tokenizer->vocab_size(), 257u);
  EXPECT_EQ(tokenizer->separator(), Token{256});
  EXPECT_EQ(tokenizer->decode(256), "");
  EXPECT_EQ(make_byte_tokenizer(false)->vocab_size(), 256u);
  EXPECT_EQ(make_byte_tokenizer(false)->separator(), std::nullopt);
}

TEST(ByteTokenizer, AForeignTokenIsRefusedWithItsNumber) {
  const auto message = input_error([] { make_byte_tokenizer(false)->decode(256); });
  EXPECT_TRUE(contains(message, "token 256")) << message;
  input_error([] { make_byte_tokenizer(true)->decode(~Token{0}); });
}

TEST(ByteTokenizer, LinesAreAppendedToWhatIsThere) {
  const auto tokenizer = make_byte_tokenizer(false);
  std::vector<Token> tokens = {7};
  tokenizer->encode_part("b\n", false, tokens);
  tokenizer->encode_part("", true, tokens);
  EXPECT_EQ(tokens, (std::vector<Token>{7, 98, 10}));
}

}  // namespace
}  // namespace inkling
