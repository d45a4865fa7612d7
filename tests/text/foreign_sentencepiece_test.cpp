// Folders made elsewhere that hold a sentencepiece model.
#include "text/foreign_tokenizer.h"

#include <chrono>
#include <cmath>

#include "tests/text/sentencepiece_testing.h"
#include "text/text_cuts.h"
#include "text/text_stream.h"

namespace inkling {
namespace {

constexpr Token eos = 1, bos = 340;  // of model_like_llama()

class ForeignSentencepiece : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> open(const std::string& model) const {
    folder_.write("tokenizer.model", model);
    return load_tokenizer(folder_.path());
  }
  std::unique_ptr<Tokenizer> open_with(const std::string& file, const std::string& json) const {
    folder_.write(file, json);
    auto tokenizer = open(model_like_llama());
    fs::remove(folder_ / file);
    return tokenizer;
  }
  std::string refusal(const std::string& model) const {
    return input_error([&] { open(model); });
  }
  std::string refusal_with(const std::string& file, const std::string& json) const {
    const std::string message = input_error([&] { open_with(file, json); });
    fs::remove(folder_ / file);
    return message;
  }

  TemporaryFolder folder_;
};

// inkling's own tokenizer of the same model has the same pieces, and no prefix.
TEST_F(ForeignSentencepiece, DocumentsBeginWithTheSpaceOfADummyPrefix) {
  for (const PieceModel type : {PieceModel::bpe, PieceModel::unigram}) {
    const auto own = train({.vocab_size = 340, .model_type = type}, sample_text(200), true);
    const auto tokenizer = open(model_like_llama(type));
    EXPECT_EQ(tokenizer->prefix(), " ");
    for (const std::string text : {"the Animal", " the", "\u2581 it", "\u00fcber\u4e2d", "a\tb", "</s><s><unk>"}) {
      EXPECT_EQ(encode(*tokenizer, text), encode(*own, " " + text)) << text;
      EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), " " + text);
    }
    EXPECT_TRUE(encode(*tokenizer, "").empty());
    std::vector<Token> tokens;
    tokenizer->encode_part("the Animal", false, tokens);
    EXPECT_EQ(tokens, encode(*own, "the Animal")) << "not at the beginning of a document";
  }
  EXPECT_EQ(open(model_like_llama() + normalizer_flag(3, 0))->prefix(), "");
  EXPECT_EQ(open_with("tokenizer_config.json", R"({"add_prefix_space": false})")->prefix(), "");
}

TEST_F(ForeignSentencepiece, TextThatIsMadeLosesThePrefixOfItsDocumentAlone) {
  const auto tokenizer = open(model_like_llama());
  const std::vector<Token> tokens = encode(*tokenizer, "the moon");
  const auto streamed = [&](StreamDecoder& decoder) {
    std::string text = decoder.push(bos);
    for (const Token token : tokens) text += decoder.push(token);
    return text + decoder.finish();
  };
  StreamDecoder beginning(*tokenizer, true), going_on(*tokenizer, false);
  EXPECT_EQ(streamed(beginning), "the moon");
  EXPECT_EQ(streamed(beginning), "the moon") << "the next document";
  EXPECT_EQ(streamed(going_on), " the moon");
}

TEST_F(ForeignSentencepiece, PromptsAndDocumentsHaveTheTokensThatTheFolderNames) {
  const auto plain = open(model_like_llama());
  EXPECT_EQ(plain->vocab_size(), 341u);
  EXPECT_EQ(plain->separator(), eos) << "</s>, if no file says otherwise";
  EXPECT_EQ(plain->first_token(), bos) << "as LlamaTokenizer has it";
  const auto first = [&](const std::string& json) { return open_with("tokenizer_config.json", json)->first_token(); };
  EXPECT_EQ(first(R"({"add_bos_token": false})"), std::nullopt);
  EXPECT_EQ(first(R"({"add_bos_token": true, "bos_token": {"content": "</s>"}})"), eos);
  EXPECT_EQ(first(R"({"bos_token": null})"), std::nullopt);
  const auto last = [&](const char* file, const std::string& json) { return open_with(file, json)->separator(); };
  EXPECT_EQ(last("tokenizer_config.json", R"({"eos_token": "<s>"})"), bos);
  EXPECT_EQ(last("special_tokens_map.json", R"({"eos_token": {"content": "<s>"}})"), bos);
  EXPECT_EQ(last("config.json", R"({"eos_token_id": 340})"), bos);
  EXPECT_EQ(last("config.json", R"({"eos_token_id": 300})"), std::nullopt) << "a piece of text";
  EXPECT_EQ(last("config.json", R"({"eos_token_id": [300, 340, 1]})"), bos);
  EXPECT_EQ(last("tokenizer_config.json", R"({"eos_token": null})"), std::nullopt);
  EXPECT_TRUE(contains(refusal_with("tokenizer_config.json", R"({"add_eos_token": true})"),
                       "tokenizer_config.json: add_eos_token is true, and must be false"));
}

TEST_F(ForeignSentencepiece, TokensAreAddedBehindThePieces) {
  const auto decoder = [](const std::string& fields) { return "{\"added_tokens_decoder\": {" + fields + "}}"; };
  const auto tokenizer = open_with("tokenizer_config.json", decoder(R"("1": {"content": "</s>", "special": true},
                                          "343": {"content": "<pad>", "special": true})"));
  EXPECT_EQ(tokenizer->vocab_size(), 344u);
  EXPECT_EQ(tokenizer->decode(342), "") << "a number that no token has";
  EXPECT_EQ(tokenizer->decode(343), "");
  EXPECT_EQ(open_with("added_tokens.json", R"({"<pad>": 341})")->vocab_size(), 342u);
  const auto refused = [&](const std::string& fields) {
    const std::string message = refusal_with("tokenizer_config.json", decoder(fields));
    EXPECT_TRUE(contains(message, "tokenizer_config.json: ")) << message;
    return message;
  };
  EXPECT_TRUE(contains(refused(R"("343": {"content": "a", "special": false})"), "343 is not \"special\""));
  EXPECT_TRUE(contains(refused(R"("1": {"content": "<eos>"})"), "1, \"<eos>\", is \"</s>\" in tokenizer.model"));
  EXPECT_TRUE(contains(refused(R"("342": {"content": "a", "special": true}, "343": {"content": "a", "special": true})"),
                       "has the number 342 elsewhere"));
  EXPECT_TRUE(contains(refused(R"("x": {"content": "a"})"), "added_tokens_decoder.x is"));
  EXPECT_TRUE(contains(refused(R"("99999999": {"content": "a"})"), "from 0 to 2097151"));
  EXPECT_TRUE(contains(refusal_with("added_tokens.json", R"({"a": 342, "b": 342})"), "is \"a\" elsewhere"));
  EXPECT_TRUE(contains(refusal_with("added_tokens.json", R"({"a": "342"})"), "a is \"342\", and must be"));
}

// In milliseconds; they took a minute while each was compared with all others.
TEST_F(ForeignSentencepiece, ManyAddedTokensAreReadInTimeInProportion) {
  std::string json = "{", ends;
  for (int i = 0; i < 80000; ++i) {
    json += (i > 0 ? ", \"<" : "\"<") + std::to_string(i) + ">\": " + std::to_string(1000 + i);
    ends += std::to_string(200000 + i) + ", ";
  }
  folder_.write("added_tokens.json", json + "}");
  folder_.write("config.json", "{\"eos_token_id\": [" + ends + "1001]}");
  const auto begin = std::chrono::steady_clock::now();
  const auto tokenizer = open(model_like_llama());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  EXPECT_EQ(tokenizer->vocab_size(), 81000u);
  EXPECT_EQ(tokenizer->separator(), 1001u);
}

TEST_F(ForeignSentencepiece, WhatInklingDoesNotComputeIsNamed) {
  const std::string model = model_like_llama();
  const auto field = [&](const std::string& more) {
    const std::string message = refusal(model + more);
    EXPECT_TRUE(contains(message, "tokenizer.model: ")) << message;
    return message;
  };
  EXPECT_TRUE(contains(field(normalizer_flag(4, 1)), "normalizer_spec.remove_extra_whitespaces is true"));
  EXPECT_TRUE(contains(field(normalizer_flag(5, 0)), "normalizer_spec.escape_whitespaces is false"));
  EXPECT_TRUE(contains(field(proto_bytes(3, proto_bytes(2, "map"))), "normalizer_spec.precompiled_charsmap is given"));
  EXPECT_TRUE(contains(field(trainer_flag(24, 1)), "trainer_spec.treat_whitespace_as_suffix is true"));
  EXPECT_TRUE(contains(field(trainer_flag(3, 3)), "trainer_spec.model_type is 3, and must be 1 (UNIGRAM) or 2 (BPE)"));
  EXPECT_TRUE(contains(field(piece("x", unused)), "pieces[341].type is 5 (UNUSED)"));
  EXPECT_TRUE(contains(field(piece("x", ProtoType{9})), "pieces[341].type is 9"));
  EXPECT_TRUE(contains(field(piece("", normal)), "pieces[341].piece is empty"));
  EXPECT_TRUE(contains(field(piece("\xff", normal)), "pieces[341].piece is \"\\xff\", and must be UTF-8"));
  EXPECT_TRUE(contains(field(piece(std::string("a\0b", 3), normal)), "must be UTF-8 without NUL"));
  EXPECT_TRUE(contains(field(piece("x", normal, std::numeric_limits<float>::quiet_NaN())), "[341].score is not a"));
  EXPECT_TRUE(contains(field(piece("<0x1>", ProtoType{6})), "pieces[341].piece is \"<0x1>\", and a byte is"));
  EXPECT_TRUE(contains(field(piece("<s>", control)), "pieces: <s> is already defined"));
  EXPECT_TRUE(contains(field("\x0a\x7fx"), "the model ends 126 bytes too early"));
  EXPECT_TRUE(contains(field("\x0b"), "a field of a kind that no model has, 3"));
  EXPECT_TRUE(contains(refusal(""), "tokenizer.model: "));
}

TEST_F(ForeignSentencepiece, AModelWithoutBytesNamesTheCharactersItLacks) {
  const std::string head = normalizer_flag(4, 0) + dummy_prefix + trainer_flag(3, 2) + piece("<unk>", unknown);
  EXPECT_TRUE(contains(refusal(head + piece("a", normal)), "no token for \" \" (U+0020)")) << "the prefix";
  const auto tokenizer = open(head + piece("\u2581", normal) + piece("a", normal) + piece("\u2581a", normal, 1));
  EXPECT_EQ(encode(*tokenizer, "a a"), (std::vector<Token>{3, 3}));
  const std::string message = input_error([&] { encode(*tokenizer, "abc\u2581"); });
  EXPECT_TRUE(contains(message, "no token for \"b\" (U+0062), \"c\" (U+0063), \"\u2581\" (U+2581)")) << message;
}

TEST_F(ForeignSentencepiece, BpeOfTokenizerJsonGoesBeforeTheModel) {
  folder_.write("tokenizer.json", R"({"model": {"type": "Unigram"}})");
  EXPECT_EQ(open(model_like_llama())->kind(), "sentencepiece");
  folder_.write("tokenizer.json", R"({"decoder": {"type": "ByteLevel"}, "model": {"type": "BPE"}})");
  const std::string message = refusal(model_like_llama());
  EXPECT_TRUE(contains(message, "pre_tokenizer is null or has no step, and must be")) << message;
  EXPECT_TRUE(contains(message, "Without tokenizer.json in the folder, tokenizer.model is taken")) << message;
}

TEST_F(ForeignSentencepiece, IsSavedWithAllThatItsFolderSaid) {
  folder_.write("added_tokens.json", R"({"<pad>": 345})");
  for (const char* config : {R"({})", R"({"add_bos_token": false})", R"({"add_prefix_space": false})",
                             R"({"eos_token": "<pad>"})", R"({"eos_token": null})"}) {
    const TemporaryFolder saved;
    folder_.write("tokenizer_config.json", config);
    const auto tokenizer = open(model_like_llama());
    tokenizer->save(saved.path());
    const auto again = load_tokenizer(saved.path());
    EXPECT_EQ(again->hash(), tokenizer->hash()) << config;
    EXPECT_EQ(again->first_token(), tokenizer->first_token()) << config;
    EXPECT_EQ(again->separator(), tokenizer->separator()) << config;
    EXPECT_EQ(again->prefix(), tokenizer->prefix()) << config;
    EXPECT_EQ(again->vocab_size(), 346u);
    EXPECT_EQ(encode(*again, sample_text(3)), encode(*tokenizer, sample_text(3)));
  }
}

// A file of 0.5 MB, whose list of merges would have 331 MB.
TEST_F(ForeignSentencepiece, AModelWithTooManyMergesIsSavedWithoutHuggingFacesFiles) {
  const auto long_proto = [](int field, const std::string& bytes) {
    const auto low = static_cast<char>((bytes.size() & 0x7f) | 0x80), high = static_cast<char>(bytes.size() >> 7);
    return std::string(1, static_cast<char>(field << 3 | 2)) + low + high + bytes;
  };
  std::string model = model_like_llama();
  for (std::size_t length = 8; length <= 1000; ++length)
    model += long_proto(1, long_proto(1, std::string(length, 'Q')));
  const TemporaryFolder saved;
  const auto tokenizer = open(model);
  testing::internal::CaptureStderr();
  tokenizer->save(saved.path());
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(warning, "tokenizer.model: its pieces can be merged in so many ways")) << warning;
  EXPECT_FALSE(fs::exists(saved / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(saved / "tokenizer_config.json"));
  const auto again = load_tokenizer(saved.path());
  EXPECT_EQ(again->hash(), tokenizer->hash());
  EXPECT_EQ(encode(*again, sample_text(3)), encode(*tokenizer, sample_text(3)));
}

TEST_F(ForeignSentencepiece, ASavedOneThatContradictsItsModelIsRefused) {
  const TemporaryFolder saved;
  open(model_like_llama())->save(saved.path());
  const std::string json = read_file(saved / "inkling_tokenizer.json");
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = json;
    text.replace(text.find(from), from.size(), to);
    saved.write("inkling_tokenizer.json", text);
    const std::string message = input_error([&] { load_tokenizer(saved.path()); });
    EXPECT_TRUE(contains(message, "inkling_tokenizer.json: ")) << message;
    return message;
  };
  EXPECT_TRUE(contains(refused("\"separator_token\": 1", "\"separator_token\": 9"), "the separator token, 9, is none"));
  EXPECT_TRUE(contains(refused("\"first_token\": 340", "\"first_token\": 341"), "the first token, 341, is none"));
  EXPECT_TRUE(contains(refused("\"prefix_space\"", "\"added_tokens\": {\"x\": 7}, \"prefix_space\""),
                       "the added token \"x\" has the number of another, 7"));
  EXPECT_TRUE(contains(refused("\"separator\": true", "\"separator\": false"), "\"separator_token\" is not what"));
  EXPECT_TRUE(contains(refused("\"separator_token\": 1,", ""), "\"separator_token\" is not what"));
}

// A text of pieces, of what joins pieces, and of anything.
rc::Gen<std::string> text_of_pieces() {
  const auto part = rc::gen::oneOf(
      rc::gen::element<std::string>("the Animal", "  tired", "caf\u00e9", "\n\n", " ", "<tag>", "a\nb", "\u4e2d\u6587"),
      any_text());
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(part), [](const std::vector<std::string>& parts) {
    std::string text;
    for (const auto& one : parts) text += one;
    return text;
  });
}

// With pieces that hold line ends, and spaces behind other characters.
std::string model_with_odd_pieces(PieceModel type) {
  return model_like_llama(type) + piece("<tag>", user_defined) + piece("\n\n", user_defined) +
         piece("d\u2581t", normal, -3) + piece("e\n", normal, -2) + piece("\u4e2d\u6587", normal, -4);
}

// The library's score of unigram tokens, summed without rounding. No piece makes up for an unknown character, which is
// spelled in bytes.
double score_of(const SentencepieceModel& model, const std::vector<Token>& tokens) {
  double score = 0;
  for (const Token token : tokens) {
    const Piece& piece = model.pieces()[token];
    score += piece.type == PieceType::text ? piece.score : piece.type == PieceType::user_defined ? -0.1 : -1000;
  }
  return score;
}

TEST(PieceCuts, TheTokensOfBothSidesAreThoseOfTheWhole) {
  for (const PieceModel type : {PieceModel::bpe, PieceModel::unigram}) {
    const SentencepieceModel model(model_with_odd_pieces(type));
    const PieceCuts cuts(model.pieces());
    std::size_t cut_texts = 0;
    const auto encoded = [&](std::string_view text) {
      std::vector<Token> tokens;
      model.encode(text, tokens);
      return tokens;
    };
    EXPECT_TRUE(rc::check([&] {
      const std::string text = *text_of_pieces();
      RC_PRE(!text.empty());
      const std::size_t cut = cuts.last_cut(text, *rc::gen::inRange<std::size_t>(0, text.size()));
      if (cut == 0) return;
      ++cut_texts;
      std::vector<Token> tokens = encoded(std::string_view(text).substr(0, cut));
      const std::vector<Token> rest = encoded(std::string_view(text).substr(cut));
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      const std::vector<Token> whole = encoded(text);
      if (tokens == whole) return;
      // Between best ways of the same score the rounding decides, which is another behind another text.
      RC_ASSERT(type == PieceModel::unigram);
      RC_ASSERT(std::abs(score_of(model, tokens) - score_of(model, whole)) < 1e-3);
    }));
    EXPECT_GT(cut_texts, 0u);  // some text was cut
  }
}

TEST(PieceCuts, ALongTextHasTheTokensOfOneCall) {
  const std::string serialized = model_with_odd_pieces(PieceModel::bpe);
  const SentencepieceModel model(serialized);
  const auto tokenizer =
      make_foreign_sentencepiece(std::make_unique<SentencepieceModel>(serialized), {.prefix_space = true});
  const std::string text = sample_text(15000);
  ASSERT_GT(text.size(), 2 * part_bytes);
  std::vector<Token> whole;
  model.encode(" " + text, whole);
  EXPECT_EQ(encode(*tokenizer, text), whole);
}

TEST(PieceCuts, PartsAreTheSameHoweverTheTextIsRead) {
  const SentencepieceModel model(model_with_odd_pieces(PieceModel::bpe));
  const PieceCuts cuts(model.pieces());
  // Where there is no place to cut, at white space, or between characters.
  for (const std::string& unit : {std::string("the Animal\n"), std::string("\u4e2d\u6587"), std::string("e\n")}) {
    std::string text;
    while (text.size() < 2 * part_bytes + 10) text += unit;
    const std::size_t length = cuts.part_length(text, false);
    EXPECT_LE(length, part_bytes);
    EXPECT_GT(length, part_bytes - 100);
    for (std::size_t known = part_bytes - 5; known < part_bytes + 10; ++known) {
      const std::size_t early = cuts.part_length(std::string_view(text).substr(0, known), true);
      EXPECT_TRUE(early == 0 || early == length) << known;
    }
    EXPECT_EQ(cuts.part_length("abc", false), 3u);
    EXPECT_EQ(cuts.part_length("abc", true), 0u);
  }
  const std::string no_utf8(2 * part_bytes, '\x80');
  EXPECT_GT(cuts.part_length(no_utf8, true), 0u);
}

}  // namespace
}  // namespace inkling
