#include "config/tokenizer_settings.h"
#include "tests/text/text_testing.h"

namespace inkling {
namespace {

// Unigram and BPE must keep the same promises.
class Sentencepiece : public testing::TestWithParam<PieceModel> {
 protected:
  TokenizerConfig settings() const { return {.vocab_size = 330, .model_type = GetParam()}; }

  // There is room for a piece of several letters: BPE gets there letter by letter, and each step is a piece of its own.
  TokenizerConfig roomy_settings() const {
    TokenizerConfig roomy = settings();
    if (roomy.model_type == PieceModel::bpe) roomy.vocab_size = 400;
    return roomy;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, Sentencepiece, testing::Values(PieceModel::unigram, PieceModel::bpe),
                         [](const auto& model) { return std::string(word_of(model.param)); });

void expect_return(const Tokenizer& tokenizer, const std::string& text) {
  EXPECT_EQ(decode(tokenizer, encode(tokenizer, text)), text);
}

TEST_P(Sentencepiece, EveryTextReturns) {
  const auto tokenizer = train(settings(), sample_text(200), true);
  EXPECT_TRUE(rc::check([&] {
    // Pieces of the training text among anything at all, so that long pieces meet strange neighbours.
    std::string text;
    const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
        any_text(),
        rc::gen::element<std::string>("the Animal", "  tired", "café\n", "</s>", "<unk>", "<0x0A>", "\t\t")));
    for (const auto& part : parts) text += part;
    const auto tokens = encode(*tokenizer, text);
    RC_ASSERT(decode(*tokenizer, tokens) == text);
    for (const Token token : tokens) RC_ASSERT(token < tokenizer->vocab_size() && token != *tokenizer->separator());
  }));
}

TEST_P(Sentencepiece, WhiteSpaceAndCaseSurvive) {
  const auto tokenizer = train(settings(), sample_text(200), false);
  for (const char* text :
       {" ", "   ", " a", "a ", "  a  b  ", "\n", "\n\n", "\t", "\r\n", "a\tb", "ABC abc", "\xc2\xa0x", "ﬁ ① Å Å é é",
        "\xef\xbb\xbf"
        "bom",
        ""}) {
    expect_return(*tokenizer, text);
  }
  expect_return(*tokenizer, std::string("\0a\0", 3));
}

TEST_P(Sentencepiece, SpacesReturnWhereTheTrainingTextHadNone) {
  std::string text = sample_text(200);
  std::erase(text, ' ');
  const auto tokenizer = train({.vocab_size = 330, .model_type = GetParam()}, text, false);
  expect_return(*tokenizer, "the  Animal was\n too ");
}

TEST_P(Sentencepiece, TextWithItsOwnSignForTheSpaceReturnsToo) {
  const auto tokenizer = train(settings(), sample_text(200) + "the ▁ sign▁\n", false);
  for (const char* text : {"▁", "▁▁", " ▁ ", "a▁b ▁c", "▁the", "the▁\n", "▅ ▁▅"}) expect_return(*tokenizer, text);
}

TEST_P(Sentencepiece, TextWithItsOwnSignForTheSpaceIsWarnedAboutWithACount) {
  testing::internal::CaptureStderr();
  train(settings(), sample_text(200) + "▁a▁b\n▁\n", false);
  const auto printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(printed, "U+2581") && contains(printed, " 3 times")) << printed;
}

TEST_P(Sentencepiece, TrainingPrintsNothing) {
  testing::internal::CaptureStderr();
  train(settings(), sample_text(200), false);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_P(Sentencepiece, LongWordsArePieces) {
  const auto tokenizer = train(roomy_settings(), sample_text(400), false);
  EXPECT_EQ(encode(*tokenizer, " because").size(), 1u);
  EXPECT_EQ(encode(*tokenizer, "\n").size(), 1u);
}

TEST_P(Sentencepiece, TheSameTextGivesTheSameModel) {
  const auto text = sample_text(300);
  const auto once = train(settings(), text, true), again = train(settings(), text, true);
  EXPECT_EQ(once->hash(), again->hash());
  EXPECT_NE(once->hash(), train(settings(), text, false)->hash());
}

TEST_P(Sentencepiece, ALargeTextIsSampledTheSameWayEveryTime) {
  const auto text = sample_text(1000);
  const auto hash = train(settings(), text, false, 8000)->hash();
  EXPECT_EQ(train(settings(), text, false, 8000)->hash(), hash);
  EXPECT_NE(train(settings(), text, false)->hash(), hash);
}

TEST_P(Sentencepiece, LinesTheLibraryWouldDropAreTrainedOn) {
  std::string long_line = sample_text(300);
  for (char& c : long_line) c = c == '\n' ? ' ' : c;
  ASSERT_GT(long_line.size(), 10000u);
  EXPECT_EQ(encode(*train(roomy_settings(), long_line, false), " because").size(), 1u);
  std::string with_signs = sample_text(300);
  for (auto at = with_signs.find('\n'); at != std::string::npos; at = with_signs.find('\n', at + 7)) {
    with_signs.insert(at, "▅▁");  // U+2585, at which the library drops a sentence
  }
  EXPECT_EQ(encode(*train(roomy_settings(), with_signs, false), " because").size(), 1u);
}

TEST_P(Sentencepiece, AVocabularyTooLargeForTheTextNamesTheLargest) {
  auto large = settings();
  large.vocab_size = 30000;
  const auto text = sample_text(100);
  const auto message = input_error([&] { train(large, text, false); });
  const std::string mark = "write ";
  ASSERT_TRUE(contains(message, mark) && contains(message, "30000")) << message;
  large.vocab_size = std::stoull(message.substr(message.find(mark) + mark.size()));
  EXPECT_EQ(train(large, text, false)->vocab_size(), large.vocab_size) << message;
}

TEST_P(Sentencepiece, AVocabularyTooSmallForTheCharactersNamesTheSmallest) {
  auto small = settings();
  small.vocab_size = 260;
  const auto text = sample_text(100);
  const auto message = input_error([&] { train(small, text, false); });
  const std::string mark = "write ";
  ASSERT_TRUE(contains(message, mark) && contains(message, "260 is too small")) << message;
  small.vocab_size = std::stoull(message.substr(message.find(mark) + mark.size()));
  EXPECT_EQ(train(small, text, false)->vocab_size(), small.vocab_size) << message;
}

// Each of these makes the library end its process, or make sentences out of nothing.
TEST_P(Sentencepiece, HopelessTextsAreRefusedAndNotFatal) {
  const std::string nul(3, '\0');
  for (const std::string& text : {std::string(), std::string("\t\t\t"), nul, std::string("▁▅"), std::string("a"),
                                  std::string(18, 'a'), std::string("\n")}) {
    input_error([&] { train(settings(), text, true); });
  }
}

TEST_P(Sentencepiece, InvalidUtf8IsRefusedWithItsPlace) {
  SentencepieceTrainer trainer(settings());
  EXPECT_TRUE(contains(input_error([&] { trainer.add("abcd\xed\xa0\x80"); }), "byte 4 (0xED)"));
  const auto tokenizer = train(settings(), sample_text(200), false);
  std::vector<Token> tokens = {5};
  EXPECT_TRUE(contains(input_error([&] { tokenizer->encode_part("ab\xff", true, tokens); }), "byte 2 (0xFF)"));
  EXPECT_EQ(tokens, std::vector<Token>{5});
}

TEST_P(Sentencepiece, AForeignTokenIsRefusedAndUnknownIsVisible) {
  const auto tokenizer = train(settings(), sample_text(200), true);
  EXPECT_TRUE(contains(input_error([&] { tokenizer->decode(330); }), "token 330"));
  input_error([&] { tokenizer->decode(~Token{0}); });
  EXPECT_EQ(tokenizer->vocab_size(), 330u);
  EXPECT_EQ(tokenizer->decode(0), "\xef\xbf\xbd");
  EXPECT_EQ(tokenizer->decode(*tokenizer->separator()), "");
}

}  // namespace
}  // namespace inkling
