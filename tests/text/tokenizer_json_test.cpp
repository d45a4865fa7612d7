// What tokenizer.json may do to a text before its words are merged: each form by a case of its own, with what is
// refused. scripts/check-tokenizers compares every form with the library tokenizers.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/files.h"
#include "tests/text/text_testing.h"
#include "text/bpe_encoder.h"
#include "text/bpe_files.h"
#include "text/bpe_trainer.h"
#include "text/normal_form.h"
#include "text/prompts.h"
#include "text/tokenizer.h"

namespace inkling {
namespace {

TEST(NormalForm, IsUnicodes) {
  EXPECT_EQ(compose("plain text\n"), "plain text\n");
  EXPECT_EQ(compose("e\u0301a"), "\u00e9a");
  EXPECT_EQ(compose("\u212b\u2126"), "\u00c5\u03a9") << "signs that are letters";
  EXPECT_EQ(compose("\u1100\u1161\u11a8"), "\uac01") << "a syllable by its parts";
  EXPECT_EQ(compose("\uac00\u11a7\u1100\u1161\u11a7"), "\uac00\u11a7\uac00\u11a7")
      << "the vowel before the first last part";
  EXPECT_EQ(compose("q\u0307\u0323"), "q\u0323\u0307") << "marks in their order";
  EXPECT_EQ(compose("\u0958"), "\u0915\u093c") << "is never composed";
  EXPECT_EQ(compose("\u0301"), "\u0301");
  EXPECT_EQ(compose(""), "");
}

// Letters, the marks that combine with them, and parts of syllables.
rc::Gen<std::string> marked_text() {
  const auto code_point =
      rc::gen::oneOf(rc::gen::element<char32_t>(U'a', U'e', U' ', U'\n', U'q', 0x915, 0x4e2d, 0x212b),
                     rc::gen::element<char32_t>(0x301, 0x323, 0x327, 0x338, 0x93c, 0x345),
                     rc::gen::element<char32_t>(0x1100, 0x1161, 0x11a8, 0xac00), any_code_point());
  return rc::gen::map(rc::gen::container<std::vector<char32_t>>(code_point), utf8);
}

TEST(NormalForm, OfBothSidesOfAPlaceThatBeginsAnewIsThatOfTheWhole) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *marked_text();
    RC_ASSERT(compose(compose(text)) == compose(text));
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t place = at;
      if (!begins_anew(decode_utf8(text, at))) continue;
      RC_ASSERT(compose(text.substr(0, place)) + compose(text.substr(place)) == compose(text));
    }
  }));
  for (const char32_t combining : {0x301, 0x1161, 0x11a8, 0x93c, 0x345, 0x9be}) EXPECT_FALSE(begins_anew(combining));
  for (const char32_t apart : {0x20, 0xe9, 0x4e2d, 0xac00, 0x3042, 0x1f600}) EXPECT_TRUE(begins_anew(apart));
}

// A vocabulary of characters: those of "abé ", and what merges make of them.
BpeVocabulary of_characters(CharacterRules rules = {.space_signs = true}) {
  BpeVocabulary vocabulary;
  vocabulary.characters = rules;
  vocabulary.tokens = {"a", "b", "\u00e9", " "};
  return vocabulary;
}

void add_merge(BpeVocabulary& vocabulary, Token left, Token right) {
  const std::string made = vocabulary.tokens[left] + vocabulary.tokens[right];
  const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), made);
  vocabulary.merges.push_back({left, right, static_cast<Token>(found - vocabulary.tokens.begin())});
  if (found == vocabulary.tokens.end()) vocabulary.tokens.push_back(made);
}

TEST(CharacterBpe, MergesAsDefined) {
  EXPECT_TRUE(rc::check([] {
    BpeVocabulary vocabulary = of_characters();
    for (int i = *rc::gen::inRange(0, 25); i > 0; --i) {
      const auto any = rc::gen::inRange<Token>(0, static_cast<Token>(vocabulary.tokens.size()));
      const Token left = *any, right = *any;
      const auto is_it = [&](const Merge& merge) { return merge.left == left && merge.right == right; };
      if (std::none_of(vocabulary.merges.begin(), vocabulary.merges.end(), is_it)) add_merge(vocabulary, left, right);
    }
    const BpeEncoder encoder(vocabulary);
    const std::string text =
        utf8(*rc::gen::container<std::vector<char32_t>>(rc::gen::element<char32_t>(U'a', U'b', 0xe9, U' ')));
    std::vector<Token> tokens, defined;
    encoder.encode(text, tokens);
    encoder.merge_word(text, defined);
    RC_ASSERT(tokens == defined);
  }));
}

// The bytes come first, as in Llama 2: each stands for what a character of ASCII does, too.
TEST(CharacterBpe, SpellsWhatHasNoTokenByBytesThatNeverMerge) {
  BpeVocabulary vocabulary;
  auto& spelled = vocabulary.characters.emplace(CharacterRules{.space_signs = true}).byte_tokens.emplace();
  for (Token byte = 0; byte < 256; ++byte) {
    spelled[byte] = byte;
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  }
  for (const char* text : {"a", "b", "\u00e9", " ", "ab"}) vocabulary.tokens.emplace_back(text);
  vocabulary.merges = {{256, 257, 260}};
  const BpeEncoder encoder(vocabulary);
  std::vector<Token> tokens;
  encoder.encode("ab\u00e9c a\u2581", tokens);
  EXPECT_EQ(tokens, (std::vector<Token>{260, 258, 'c', 259, 256, 0xe2, 0x96, 0x81}));
}

// The tokenizer of a folder with this tokenizer.json.
std::unique_ptr<Tokenizer> opened(const BpeVocabulary& vocabulary) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", print_bpe_json(vocabulary));
  auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(print_bpe_json(read_bpe(folder / "tokenizer.json")), print_bpe_json(vocabulary))
      << "is read as it is written";
  return tokenizer;
}

TEST(CharacterBpe, PutsASpaceInFrontAsItsRulesSay) {
  const AddedToken name{.token = 4, .name = "<x>", .special = false, .normalized = false};
  const auto tokens = [&](PrefixSpace prefix, const char* text) {
    BpeVocabulary vocabulary = of_characters({.space_signs = true, .prefix = prefix});
    vocabulary.added = {name};
    vocabulary.tokens.emplace_back();
    return encode(*opened(vocabulary), text);
  };
  using enum PrefixSpace;
  using Tokens = std::vector<Token>;
  EXPECT_EQ(tokens(never, "a"), Tokens({0}));
  EXPECT_EQ(tokens(first_unless_there, "a<x>b"), Tokens({3, 0, 4, 1}));
  EXPECT_EQ(tokens(first_unless_there, " a"), Tokens({3, 0}));
  EXPECT_EQ(tokens(first_unless_there, "<x>a"), Tokens({4, 0}));
  EXPECT_EQ(tokens(all_unless_there, "a<x>b"), Tokens({3, 0, 4, 3, 1}));
  EXPECT_EQ(tokens(all_unless_there, " a<x> b"), Tokens({3, 0, 4, 3, 1}));
  EXPECT_EQ(tokens(all, "a<x> b"), Tokens({3, 0, 4, 3, 3, 1}));
  EXPECT_EQ(tokens(all, " a"), Tokens({3, 3, 0}));
  EXPECT_EQ(tokens(all, ""), Tokens());
}

// In a prompt that names special tokens, the space stands where tokenizers puts it.
TEST(CharacterBpe, PutsASpaceBehindSpecialTokensAsItsRulesSay) {
  const auto tokens = [](PrefixSpace prefix, const char* prompt) {
    BpeVocabulary vocabulary = of_characters({.space_signs = true, .prefix = prefix});
    vocabulary.added = {{4, "<s>"}, {5, "[x]"}};
    vocabulary.tokens.resize(6);
    vocabulary.first_token = 4;
    return encode_prompt(*opened(vocabulary), prompt, NamesInPrompt::tokens);
  };
  using enum PrefixSpace;
  using Tokens = std::vector<Token>;
  EXPECT_EQ(tokens(first_unless_there, "a[x]b"), Tokens({4, 3, 0, 5, 1}));
  EXPECT_EQ(tokens(first_unless_there, "<s>a"), Tokens({4, 0}));
  EXPECT_EQ(tokens(all_unless_there, "<s>a[x] b"), Tokens({4, 3, 0, 5, 3, 1}));
  EXPECT_EQ(tokens(all, "<s>a[x] b"), Tokens({4, 3, 0, 5, 3, 3, 1}));
}

TEST(CharacterBpe, RefusesWhatItCannotSpell) {
  BpeVocabulary vocabulary = of_characters();
  EXPECT_TRUE(contains(input_error([&] { encode(*opened(vocabulary), "a\nb"); }), "no token for \"\\n\" (U+000A)"));
}

BpeVocabulary of_bytes(Pattern pattern) {
  BpeTrainer trainer(pattern);
  trainer.add(sample_text(20));
  BpeVocabulary vocabulary = trainer.finish(300);
  vocabulary.added = {{300, "<|end|>"},
                      {.token = 301, .name = "<think>", .special = false, .normalized = false},
                      {.token = 302, .name = "</think>", .special = false, .normalized = true}};
  vocabulary.tokens.resize(303);
  return vocabulary;
}

TEST(AddedTokens, ThatAreNotSpecialAreTokensInTextsAndAreShown) {
  const auto tokenizer = opened(of_bytes(Pattern::qwen2));
  const std::vector<Token> tokens = encode(*tokenizer, "<think>the</think><|end|>");
  EXPECT_EQ(tokens.front(), 301u);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), Token{302}), 1);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), Token{300}), 0) << "its name is text";
  EXPECT_EQ(decode(*tokenizer, tokens), "<think>the</think><|end|>");
  ASSERT_EQ(tokenizer->special_tokens().size(), 1u);
  EXPECT_EQ(tokenizer->decode(300), "");
}

TEST(AddedTokens, AreLookedForBeforeOrBehindTheNormalForm) {
  BpeVocabulary vocabulary = of_bytes(Pattern::gpt2);
  vocabulary.composes = true;
  const auto tokenizer = opened(vocabulary);
  const auto has = [&](const char* text, Token token) {
    const std::vector<Token> tokens = encode(*tokenizer, text);
    return std::count(tokens.begin(), tokens.end(), token) == 1;
  };
  EXPECT_TRUE(has("<think>\u0338", 301)) << "in the text as it came";
  EXPECT_FALSE(has("</think>\u0338", 302)) << "the last sign is another one in the form NFC";
  EXPECT_TRUE(has("</think>e\u0301", 302));
}

// Names and characters that combine lie across every place where a text could be cut otherwise.
TEST(AddedTokens, AndNormalFormAreThoseOfTheWholeTextInItsParts) {
  BpeVocabulary vocabulary = of_bytes(Pattern::smollm2);
  vocabulary.composes = true;
  const auto tokenizer = opened(vocabulary);
  for (const char* repeated : {"the<think> e\u0301\u0323 </think>1", "<think>", "x \u0301", " \u1100\u1161 "}) {
    std::string text;
    while (text.size() < 3 * part_bytes) text += repeated;
    std::size_t parts = 0;
    for (std::string_view rest = text; !rest.empty(); ++parts) {
      const std::size_t length = tokenizer->part_length(rest);
      const std::size_t early = tokenizer->part_length(rest, true);
      EXPECT_TRUE(early == 0 || early == length) << repeated;
      rest.remove_prefix(length);
    }
    EXPECT_EQ(parts > 1, repeated != std::string("<think>")) << repeated << ": no place in it is a boundary";
    // The whole at once, as one part, beside its parts.
    std::vector<Token> whole;
    tokenizer->encode_part(text, true, whole);
    EXPECT_EQ(encode(*tokenizer, text), whole) << repeated;
  }
}

// What transformers saves of a tokenizer of inkling's own is its tokenizer.json, and tokenizer_config.json.
TEST(TokenizerJson, AloneOpensEveryKindOfOurs) {
  const std::string corpus = sample_text(200);
  const std::unique_ptr<Tokenizer> kinds[] = {char_tokenizer_of(corpus, true), train({.vocab_size = 340}, corpus, true),
                                              train({.vocab_size = 340, .model_type = PieceModel::bpe}, corpus, true),
                                              opened(of_bytes(Pattern::llama3))};
  for (const auto& kind : kinds) {
    const TemporaryFolder folder;
    kind->save(folder.path());
    fs::remove(folder / "tokenizer.model");
    fs::remove(folder / "inkling_tokenizer.json");
    const auto again = load_tokenizer(folder.path());
    const std::string text = sample_text(7);
    EXPECT_EQ(encode(*again, text), encode(*kind, text)) << kind->kind();
    EXPECT_EQ(decode(*again, encode(*again, text)), text) << kind->kind();
    EXPECT_EQ(again->separator(), kind->separator()) << kind->kind();
    EXPECT_EQ(again->vocab_size(), kind->vocab_size()) << kind->kind();
  }
}

// What stands beside vocab.json and merges.txt, and in tokenizer_config.json, of tokens that are not special.
TEST(AddedTokens, OfOlderFoldersAreSpecialWhereTheyHaveARole) {
  const TemporaryFolder folder, plain;
  BpeVocabulary vocabulary = of_bytes(Pattern::gpt2);
  vocabulary.added.clear();
  vocabulary.tokens.resize(300);
  nlohmann::ordered_json vocab = nlohmann::ordered_json::object();
  std::string merges = "#version: 0.2\n";
  for (std::size_t i = 0; i < 300; ++i) vocab[bytes_to_signs(vocabulary.tokens[i])] = i;
  for (const Merge& merge : vocabulary.merges) {
    merges +=
        bytes_to_signs(vocabulary.tokens[merge.left]) + " " + bytes_to_signs(vocabulary.tokens[merge.right]) + "\n";
  }
  folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", merges);
  folder.write("added_tokens.json", R"({"<sep>": 300, "<word>": 301})");
  folder.write("special_tokens_map.json", R"({"additional_special_tokens": ["<sep>"]})");
  const auto tokenizer = load_tokenizer(folder.path());
  ASSERT_EQ(tokenizer->special_tokens().size(), 1u);
  EXPECT_EQ(tokenizer->special_tokens().front().name, "<sep>");
  EXPECT_EQ(encode(*tokenizer, "<word>"), std::vector<Token>{301});
  folder.write("config.json", R"({"model_type": "gpt2", "vocab_size": 301})");
  EXPECT_EQ(load_tokenizer(folder.path())->vocab_size(), 301u) << "<word> is none of the model's";
  folder.write("added_tokens.json", R"({"<sep>": 7})");
  EXPECT_TRUE(contains(input_error([&] { load_tokenizer(folder.path()); }), "added_tokens.json: the added token 7"));
}

// What a person pastes must not end a document, whatever "special" says of the token that does.
TEST(AddedTokens, ThatHaveARoleAreSpecial) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", print_bpe_json(of_bytes(Pattern::gpt2)));
  folder.write("tokenizer_config.json", R"({"eos_token": "<think>"})");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->separator(), 301u);
  const std::vector<Token> tokens = encode(*tokenizer, "a<think>b");
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), Token{301}), 0);
  EXPECT_EQ(tokenizer->decode(301), "");
}

TEST(AddedTokens, InFrontOfATextTakeThePlaceOfItsPrefix) {
  BpeVocabulary vocabulary = of_characters({.space_signs = true, .prefix = PrefixSpace::all});
  vocabulary.added = {{.token = 4, .name = "<x>", .special = false, .normalized = false}};
  vocabulary.tokens.emplace_back();
  const auto tokenizer = opened(vocabulary);
  for (const char* text : {"a", " a", "<x>", "<x>\u00e9"}) {
    const std::string front(tokenizer->prefix_of(text));
    const std::string behind = std::string(text).starts_with("<x>\u00e9") ? "<x> \u00e9" : text;
    EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), front + behind) << text;
  }
}

// Each of these tokenizers would be saved as a file that cannot be opened, or encode otherwise than it says.
TEST(AddedTokens, ThatContradictTheVocabularyAreRefused) {
  const auto refusal = [](const AddedToken& token) {
    BpeVocabulary vocabulary = of_bytes(Pattern::gpt2);
    vocabulary.added.push_back(token);
    vocabulary.tokens.resize(std::max<std::size_t>(vocabulary.tokens.size(), token.token + std::size_t{1}));
    const TemporaryFolder folder;
    std::string json = print_bpe_json(vocabulary);
    // The list alone names the token; the vocabulary has another of this name or number.
    const std::string entry = str(",\n   \"", token.name, "\": ", token.token);
    if (const std::size_t at = json.rfind(entry); at != std::string::npos) json.erase(at, entry.size());
    folder.write("tokenizer.json", json);
    return input_error([&] { load_tokenizer(folder.path()); });
  };
  EXPECT_TRUE(contains(refusal({303, "<think>"}), "added_tokens[3].content is \"<think>\""));
  EXPECT_TRUE(contains(refusal({301, "<other>"}), "added_tokens[3].id is 301"));
  EXPECT_TRUE(contains(refusal({.token = 303, .name = "\n", .special = false}), "added_tokens[3].content is"));
  const TemporaryFolder folder;
  folder.write("tokenizer.json", print_bpe_json(of_bytes(Pattern::gpt2)));
  for (const char* added : {R"({"a": 400})", R"({"": 400})", R"({"<word>": 65})"}) {
    folder.write("added_tokens.json", added);
    EXPECT_TRUE(contains(input_error([&] { load_tokenizer(folder.path()); }), "added_tokens.json: the added token"))
        << added;
  }
}

TEST(AddedTokens, ThatTheModelLacksAreNotInFrontOfATextEither) {
  BpeVocabulary vocabulary = of_bytes(Pattern::gpt2);
  vocabulary.first_token = 302;
  const TemporaryFolder folder;
  folder.write("tokenizer.json", print_bpe_json(vocabulary));
  folder.write("config.json", R"({"vocab_size": 302})");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), 302u);
  EXPECT_EQ(tokenizer->first_token(), std::nullopt);
}

}  // namespace
}  // namespace inkling
