#include "text/foreign_tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "tests/text/text_testing.h"
#include "text/bpe_files.h"
#include "text/bpe_trainer.h"
#include "text/bpe_vocabulary.h"
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
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
                    page = "<!doctype html>";
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

// As transformers 5 has it.
TEST(ForeignTokenizer, ThePostProcessorGoesBeforeAddBosToken) {
  const TemporaryFolder folder;
  BpeVocabulary vocabulary = with_specials();
  folder.write("tokenizer.json", print_bpe_json(vocabulary));
  for (const char* config :
       {R"({"add_bos_token": false})", R"({"add_bos_token": true, "bos_token": "<|end_of_text|>"})"}) {
    folder.write("tokenizer_config.json", config);
    EXPECT_EQ(load_tokenizer(folder.path())->first_token(), 300u) << config;
  }
  vocabulary.first_token.reset();
  folder.write("tokenizer.json", print_bpe_json(vocabulary));
  EXPECT_EQ(load_tokenizer(folder.path())->first_token(), 301u) << "there is no post_processor";
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

// GPT-2's kind of files, which do not say how words are cut: vocab.json and merges.txt, with <|endoftext|> as token
// 300.
void write_vocabulary_and_merges(const TemporaryFolder& folder) {
  BpeTrainer trainer(Pattern::gpt2);
  trainer.add(sample_text(50));
  const BpeVocabulary vocabulary = trainer.finish(300);
  nlohmann::json vocab = {{"<|endoftext|>", 300}};
  std::string merges = "#version: 0.2\n";
  const auto signs = [&](Token token) { return bytes_to_signs(vocabulary.tokens[token]); };
  for (Token token = 0; token < 300; ++token) vocab[signs(token)] = token;
  for (const Merge& merge : vocabulary.merges) merges += str(signs(merge.left), " ", signs(merge.right), "\n");
  folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", merges);
}

std::string refusal_of(const TemporaryFolder& folder) {
  const auto error = error_of([&] { load_tokenizer(folder.path()); });
  return error ? error->message() : "";
}

TEST(ForeignTokenizer, OfVocabularyAndMergesThatAnotherFamilyCutsOtherwiseIsRefusedByName) {
  const TemporaryFolder folder;
  write_vocabulary_and_merges(folder);
  EXPECT_EQ(load_tokenizer(folder.path())->vocab_size(), 301u);
  for (const char* known : {R"({"tokenizer_class": "GPT2Tokenizer"})", R"({"tokenizer_class": "GPT2TokenizerFast"})",
                            R"({"tokenizer_class": null})", R"({"model_max_length": 1024})"}) {
    folder.write("tokenizer_config.json", known);
    folder.write("config.json", R"({"model_type": "gpt2"})");
    EXPECT_EQ(refusal_of(folder), "") << known;
  }
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  const std::string message = refusal_of(folder);
  EXPECT_TRUE(contains(message, "tokenizer_config.json: tokenizer_class is \"Qwen2Tokenizer\", and must be"))
      << message;
  EXPECT_TRUE(contains(message, str(".save_pretrained(sys.argv[1])' ", folder.path().string()))) << message;
  const TokenizerConfig by_file{.kind = TokenizerKind::bpe, .from = (folder / "vocab.json").string()};
  const ReadParts nothing = [](const char*, const PartLength&, const TakePart&) {};
  EXPECT_TRUE(contains(input_error([&] { build_tokenizer(by_file, nothing, false); }), "tokenizer_class"));

  // SmolLM2: GPT-2's class, but a model whose tokenizer.json splits numbers.
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  for (const char* other : {R"({"model_type": "llama"})", R"({"model_type": "qwen3"})"}) {
    folder.write("config.json", other);
    EXPECT_TRUE(contains(refusal_of(folder), "config.json: model_type is")) << other;
  }
  folder.write("config.json", R"({"model_type": "opt"})");
  EXPECT_EQ(refusal_of(folder), "") << "which has GPT-2's tokenizer";
  folder.write("config.json", R"({"tokenizer_class": "Qwen2TokenizerFast"})");
  EXPECT_TRUE(contains(refusal_of(folder), "config.json: tokenizer_class is"));
  folder.write("tokenizer.json", print_bpe_json(with_specials()));
  EXPECT_EQ(refusal_of(folder), "") << "tokenizer.json says how words are cut";
}

// Each key of tokenizer_config.json that changes tokens of a text in transformers 5, or is known to change none.
TEST(ForeignTokenizer, EachKeyBesideItIsDoneOrRefusedOrChangesNoToken) {
  const std::pair<const char*, const char*> refused[] = {
      {R"("add_prefix_space": true)", "add_prefix_space is true, and must be false"},
      {R"("add_eos_token": true)", "add_eos_token is true"},
      {R"("unk_token": "a")", "unk_token names \"a\", a token of text"},
      {R"("pad_token": {"content": "a"})", "pad_token names"},
      {R"("bos_token": "a")", "bos_token names"},
      {R"("eos_token": "a")", "eos_token names"},
      {R"("sep_token": "a")", "sep_token names"},
      {R"("cls_token": "a")", "cls_token names"},
      {R"("mask_token": "a")", "mask_token names"},
      {R"("additional_special_tokens": ["<x>", "a"])", "additional_special_tokens names \"a\""},
      {R"("additional_special_tokens": [{"content": "a"}])", "additional_special_tokens names"},
      {R"("additional_special_tokens": [1])", "additional_special_tokens is [1], and must be a list of names"},
      {R"("extra_special_tokens": {"first": "a"})", "extra_special_tokens names"},
      {R"("added_tokens_decoder": {"301": {"content": "<tool>", "special": false, "lstrip": true}})", "lstrip is true"},
      {R"("added_tokens_decoder": {"300": {"content": "<|endoftext|>", "special": false}})", "is special elsewhere"},
      {R"("added_tokens_decoder": {"65": {"content": "<x>", "special": true}})", "has the number of another token"},
      {R"("added_tokens_decoder": {"301": {"content": "<|endoftext|>", "special": true}})", "has the number 300"},
      {R"("added_tokens_decoder": {"x": {"content": "<x>", "special": true}})", "under the number of a token"},
  };
  const char* const changing_nothing[] = {
      R"("add_prefix_space": false)",
      R"("add_bos_token": false)",
      R"("clean_up_tokenization_spaces": true)",
      R"("errors": "ignore")",
      R"("model_max_length": 5)",
      R"("padding_side": "left")",
      R"("trim_offsets": false)",
      R"("split_special_tokens": true)",
      R"("do_lower_case": true)",
      R"("legacy": true)",
      R"("use_fast": false)",
      R"("unk_token": "<|endoftext|>")",
      R"("unk_token": null)",
      R"("pad_token": "<none such>")",
      R"("additional_special_tokens": ["<|endoftext|>"])",
      R"("chat_template": "{{ a }}")",
      R"("added_tokens_decoder": {"300": {"content": "<|endoftext|>", "special": true}})"};
  for (const bool has_json : {false, true}) {
    const TemporaryFolder folder;
    write_vocabulary_and_merges(folder);
    if (has_json) folder.write("tokenizer.json", print_bpe_json(read_bpe(folder.path())));
    const auto plain = encode(*load_tokenizer(folder.path()), sample_text(3));
    for (const auto& [key, message] : refused) {
      folder.write("tokenizer_config.json", str("{", key, "}"));
      EXPECT_TRUE(contains(refusal_of(folder), message)) << key << ": " << refusal_of(folder);
    }
    for (const char* key : changing_nothing) {
      folder.write("tokenizer_config.json", str("{", key, "}"));
      EXPECT_EQ(encode(*load_tokenizer(folder.path()), sample_text(3)), plain) << key;
    }
  }
}

TEST(ForeignTokenizer, TheSpecialTokensThatOnlyItsConfigAddsAreItsOwn) {
  const TemporaryFolder folder, saved;
  write_vocabulary_and_merges(folder);
  folder.write("tokenizer_config.json",
               R"({"added_tokens_decoder": {"302": {"content": "<|im_end|>", "special": true}},
                   "eos_token": "<|im_end|>"})");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->separator(), 302u);
  EXPECT_EQ(tokenizer->vocab_size(), 303u);
  tokenizer->save(saved.path());
  EXPECT_EQ(load_tokenizer(saved.path())->hash(), tokenizer->hash());
}

TEST(ForeignTokenizer, ThatInklingDoesNotComputeIsRefusedWithItsField) {
  const TemporaryFolder folder;
  EXPECT_FALSE(holds_foreign_tokenizer(folder.path()));
  folder.write("tokenizer.json", R"({"model": {"type": "WordPiece"}, "pre_tokenizer": {"type": "BertPreTokenizer"}})");
  const std::string message = input_error([&] { load_tokenizer(folder.path()); });
  EXPECT_TRUE(contains(message, "tokenizer.json: model.type is \"WordPiece\"")) << message;
  folder.write("tokenizer.json", "{\"version\": \"1.0\"}");
  EXPECT_TRUE(contains(input_error([&] { load_tokenizer(folder.path()); }), "model is missing"));
}

}  // namespace
}  // namespace inkling
