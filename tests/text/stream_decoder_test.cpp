#include "text/text_stream.h"

#include "tests/text/text_testing.h"

namespace inkling {
namespace {

const auto bytes = make_byte_tokenizer(true);

// What the decoder returns for each byte, and at the end for finish().
std::vector<std::string> stream(std::string_view text) {
  StreamDecoder decoder(*bytes, true);
  std::vector<std::string> parts;
  for (const char byte : text) parts.push_back(decoder.push(static_cast<unsigned char>(byte)));
  parts.push_back(decoder.finish());
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += part;
  return text;
}

TEST(StreamDecoder, ACharacterAppearsWithItsLastByte) {
  EXPECT_EQ(stream("a€😀"), (std::vector<std::string>{"a", "", "", "€", "", "", "", "😀", ""}));
}

TEST(StreamDecoder, BytesThatCannotBecomeACharacterAppearAsReplacementsAtOnce) {
  EXPECT_EQ(stream("\xff"
                   "a"),
            (std::vector<std::string>{"\uFFFD", "a", ""}));
  EXPECT_EQ(stream("\xe2\x82"
                   "a"),
            (std::vector<std::string>{"", "", "\uFFFDa", ""}));
  EXPECT_EQ(stream("\xe2\x82"), (std::vector<std::string>{"", "", "\uFFFD"}));
  EXPECT_EQ(stream("\xed\xa0\x80"), (std::vector<std::string>{"", "\uFFFD\uFFFD", "\uFFFD", ""}));  // a surrogate
  EXPECT_EQ(joined(stream("\xf0\x9f\xc3\xa9")), "\uFFFDé");
}

TEST(StreamDecoder, WellFormedTextComesOutUnchanged) {
  EXPECT_TRUE(rc::check([] {
    const auto text = *any_text();
    RC_ASSERT(joined(stream(text)) == text);
  }));
}

TEST(StreamDecoder, EveryPartOfAnyBytesIsUtf8) {
  EXPECT_TRUE(rc::check([] {
    const auto byte = rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::element('\xe2', '\x82', '\xac', '\xf0', 'a'));
    const auto text = *rc::gen::container<std::string>(byte);
    for (const auto& part : stream(text)) RC_ASSERT(!find_invalid_utf8(part));
    StreamDecoder whole(*bytes, true);
    if (!find_invalid_utf8(text)) RC_ASSERT(joined(stream(text)) == text);
  }));
}

TEST(StreamDecoder, FinishLeavesItAsNew) {
  StreamDecoder decoder(*bytes, true);
  EXPECT_EQ(decoder.push(0xe2), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push('a'), "a");
}

TEST(StreamDecoder, TheSeparatorIsSilent) {
  StreamDecoder decoder(*bytes, true);
  EXPECT_EQ(decoder.push(256), "");
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_THROW(decoder.push(257), Error);
}

}  // namespace
}  // namespace inkling
