#include "text/foreign_tokenizer.h"

#include "base/files.h"
#include "bpe/hugging_face_json.h"
#include "bpe/trainer.h"
#include "tests/text/text_testing.h"
#include "text/build_tokenizer.h"

namespace inkling {
namespace {

// A vocabulary with <|begin_of_text|>, which stands in front of every text, and <|end_of_text|>.
BpeVocabulary with_specials() {
  BpeTrainer trainer(Pattern::llama3);
  trainer.add(sample_text(50));
  BpeVocabulary vocabulary = trainer.finish(300);
  for (const char* name : {"<|begin_of_text|>", "<|end_of_text|>"}) {
    vocabulary.added.push_back({static_cast<Token>(vocabulary.tokens.size()), name});
    vocabulary.tokens.emplace_back();
  }
  vocabulary.first_token = 300;
  return vocabulary;
}

TEST(ForeignTokenizer, BeginsAndEndsTextsAsItsFolderSays) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", print_bpe_json(with_specials()));
  EXPECT_TRUE(holds_foreign_tokenizer(folder.path()));
  auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 302u);
  EXPECT_EQ(tokenizer->first_token(), 300u);
  EXPECT_EQ(tokenizer->separator(), std::nullopt);
  for (const char* json : {R"({"eos_token": "<|end_of_text|>"})", R"({"eos_token": {"content": "<|end_of_text|>"}})"}) {
    folder.write("special_tokens_map.json", json);
    EXPECT_EQ(load_tokenizer(folder.path())->separator(), 301u);
  }
  folder.write("tokenizer_config.json", R"({"eos_token": "<|begin_of_text|>"})");
  EXPECT_EQ(load_tokenizer(folder.path())->separator(), 300u) << "tokenizer_config.json counts";
  fs::remove(folder / "tokenizer_config.json");
  fs::remove(folder / "special_tokens_map.json");
  folder.write("config.json", R"({"eos_token_id": 301})");
  EXPECT_EQ(load_tokenizer(folder.path())->separator(), 301u);
  folder.write("config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(load_tokenizer(folder.path())->separator(), std::nullopt) << "a token that text encodes to";
  const std::string text = sample_text(3);
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), text);
}

TEST(ForeignTokenizer, ThatIsNotWhatItsNameSaysIsCalledWhatItIs) {
  const TemporaryFolder folder;
  const std::string pointer = "version https://x/spec/v1\noid sha256:0\nsize 3\n", page = "<!doctype html>";
  const auto refusal = [&](const std::string& place) { return input_error([&] { load_tokenizer(folder / place); }); };
  folder.write("json/tokenizer.json", pointer);
  EXPECT_TRUE(contains(refusal("json"), "tokenizer.json is a Git LFS pointer"));
  folder.write("model/tokenizer.model", pointer);
  EXPECT_TRUE(contains(refusal("model"), "tokenizer.model is a Git LFS pointer"));
  folder.write("model/tokenizer.model", page);
  EXPECT_TRUE(contains(refusal("model"), "tokenizer.model is a web page"));
  folder.write("merges/vocab.json", R"({"a": 0})");
  folder.write("merges/merges.txt", page);
  EXPECT_TRUE(contains(refusal("merges"), "merges.txt is a web page"));
  folder.write("merges/vocab.json", page);
  EXPECT_TRUE(contains(refusal("merges"), "vocab.json is a web page"));
}

TEST(ForeignTokenizer, ThatIsNamedByAPlaceThatIsNotThereComesWithWhatFindsIt) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& from) {
    return input_error([&] { identify_tokenizer_source({.kind = TokenizerKind::bpe, .from = from}); });
  };
  EXPECT_TRUE(contains(refusal("openai-community/gpt2"),
                       "data.tokenizer.from: openai-community/gpt2 does not exist: if it is the name of a model"));
  fs::create_directories(folder / "moved");
  fs::create_symlink("nowhere", folder / "moved/tokenizer.json");
  EXPECT_TRUE(contains(refusal((folder / "moved").string()), "tokenizer.json is a link to nowhere"));
  folder.write("models--a--b/snapshots/c/tokenizer.json", print_bpe_json(with_specials()));
  EXPECT_EQ(identify_tokenizer_source({.kind = TokenizerKind::bpe, .from = (folder / "models--a--b").string()}),
            load_tokenizer(folder / "models--a--b/snapshots/c")->hash());
}

TEST(ForeignTokenizer, ThatBeginsDocumentsButCannotEndThemIsForASingleText) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", print_bpe_json(with_specials()));
  const TokenizerConfig config{.kind = TokenizerKind::bpe, .from = folder.path().string()};
  const ReadParts nothing = [](const char*, const PartLength&, const TakePart&) {};
  EXPECT_EQ(build_tokenizer(config, nothing, false)->first_token(), 300u);
  try {
    build_tokenizer(config, nothing, true);
    FAIL() << "it has no separator";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("join them in one text"), std::string::npos) << error.message();
  }
}

TEST(ForeignTokenizer, IsSavedAsOneOfInklings) {
  const TemporaryFolder folder, saved;
  folder.write("tokenizer.json", print_bpe_json(with_specials()));
  folder.write("tokenizer_config.json", R"({"eos_token": "<|end_of_text|>"})");
  const auto tokenizer = load_tokenizer(folder.path());
  tokenizer->save(saved.path());
  const auto again = load_tokenizer(saved.path());
  EXPECT_EQ(again->hash(), tokenizer->hash());
  EXPECT_EQ(again->separator(), 301u);
  EXPECT_EQ(again->first_token(), 300u);
  EXPECT_EQ(encode(*again, sample_text(3)), encode(*tokenizer, sample_text(3)));
}

// GPT-2's own folder separates documents and begins no prompt; another has a number between its tokens that none has.
TEST(ForeignTokenizer, WhatItBeginsPromptsWithIsSaved) {
  for (const bool has_first : {false, true}) {
    BpeVocabulary vocabulary = with_specials();
    if (!has_first) vocabulary.first_token.reset();
    vocabulary.added.push_back({305, "<pad>"});
    vocabulary.tokens.resize(306);
    const TemporaryFolder folder, saved;
    folder.write("tokenizer.json", print_bpe_json(vocabulary));
    for (const char* end : {"<|begin_of_text|>", "<|end_of_text|>", "<pad>", "the"}) {
      folder.write("special_tokens_map.json", str(R"({"eos_token": ")", end, "\"}"));
      const auto tokenizer = load_tokenizer(folder.path());
      tokenizer->save(saved.path());
      const auto again = load_tokenizer(saved.path());
      EXPECT_EQ(again->first_token(), has_first ? std::optional<Token>(300) : std::nullopt) << end;
      EXPECT_EQ(again->separator(), tokenizer->separator()) << end;
      EXPECT_EQ(again->hash(), tokenizer->hash()) << end;
      EXPECT_EQ(again->vocab_size(), 306u) << end;
      EXPECT_EQ(again->decode(303), "") << end;
    }
  }
}

TEST(ForeignTokenizer, AddBosTokenGoesBeforeThePostProcessor) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", print_bpe_json(with_specials()));
  folder.write("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_EQ(load_tokenizer(folder.path())->first_token(), std::nullopt);
  folder.write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<|end_of_text|>"})");
  EXPECT_EQ(load_tokenizer(folder.path())->first_token(), 301u);
  folder.write("tokenizer_config.json", R"({"add_eos_token": true})");
  EXPECT_TRUE(
      contains(input_error([&] { load_tokenizer(folder.path()); }), "add_eos_token is true, and must be false"));
}

// The description of a data folder's vocabulary, whose hash the folder has recorded, is what it was.
TEST(ForeignTokenizer, OlderDescriptionsKeepTheirTextAndMeaning) {
  const TemporaryFolder folder;
  const auto tokenizer = learn_bpe(300, sample_text(50), true);
  tokenizer->save(folder.path());
  EXPECT_EQ(tokenizer->first_token(), 299u);
  const std::string json = read_file(folder / "inkling_tokenizer.json");
  EXPECT_TRUE(json.ends_with(",\n  \"separator_token\": 299\n}\n")) << json;
  EXPECT_EQ(load_tokenizer(folder.path())->first_token(), 299u);
}

TEST(ForeignTokenizer, ThatInklingDoesNotComputeIsRefusedWithItsField) {
  const TemporaryFolder folder;
  EXPECT_FALSE(holds_foreign_tokenizer(folder.path()));
  folder.write("tokenizer.json", R"({"model": {"type": "WordPiece"}, "pre_tokenizer": {"type": "BertPreTokenizer"}})");
  const std::string message = input_error([&] { load_tokenizer(folder.path()); });
  EXPECT_TRUE(contains(message, "tokenizer.json: pre_tokenizer.type is \"BertPreTokenizer\"")) << message;
  folder.write("tokenizer.json", "{\"version\": \"1.0\"}");
  EXPECT_TRUE(contains(input_error([&] { load_tokenizer(folder.path()); }), "pre_tokenizer is missing"));
}

}  // namespace
}  // namespace inkling
