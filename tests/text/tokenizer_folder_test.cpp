// save() and load_tokenizer(): what was saved comes back, what was damaged is refused.
#include <sys/stat.h>

#include <fstream>

#include "base/files.h"
#include "base/strings.h"
#include "tests/text/text_testing.h"

namespace inkling {
namespace {

std::vector<std::unique_ptr<Tokenizer>> one_of_each() {
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (const bool with_separator : {false, true}) {
    tokenizers.push_back(make_byte_tokenizer(with_separator));
    tokenizers.push_back(
        char_tokenizer_of(sample_text(20) + utf8({0, '"', '\\', 0x7f, 0x2028, 0x1f600}), with_separator));
    tokenizers.push_back(train({.vocab_size = 300}, sample_text(50), with_separator));
    tokenizers.push_back(learn_bpe(300, sample_text(50), with_separator));
  }
  return tokenizers;
}

void damage(const fs::path& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

// Loads a folder; true if it was refused as bad input, with the folder in the message.
bool refused(const fs::path& folder) {
  try {
    load_tokenizer(folder);
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input) << error.message();
    EXPECT_TRUE(contains(error.message(), folder.string())) << error.message();
    return true;
  }
}

TEST(TokenizerFolder, WhatWasSavedComesBack) {
  for (const auto& tokenizer : one_of_each()) {
    const TemporaryFolder folder;
    tokenizer->save(folder.path());
    const auto loaded = load_tokenizer(folder.path());
    EXPECT_EQ(loaded->kind(), tokenizer->kind());
    EXPECT_EQ(loaded->vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(loaded->separator(), tokenizer->separator());
    EXPECT_EQ(loaded->hash(), tokenizer->hash());
    EXPECT_EQ(encode(*loaded, sample_text(10)), encode(*tokenizer, sample_text(10)));
    for (Token token = 0; token < tokenizer->vocab_size(); ++token) {
      EXPECT_EQ(loaded->decode(token), tokenizer->decode(token));
    }
  }
}

TEST(TokenizerFolder, HashesTellVocabulariesApart) {
  std::vector<std::string> hashes;
  for (const auto& tokenizer : one_of_each()) hashes.push_back(tokenizer->hash());
  hashes.push_back(char_tokenizer_of("ab", false)->hash());
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
}

TEST(TokenizerFolder, AFolderWithoutATokenizerIsRefusedWithItsName) {
  const TemporaryFolder folder;
  EXPECT_TRUE(refused(folder.path()));
  EXPECT_TRUE(refused(folder.path() / "absent"));
  fs::create_directory(folder.path() / "inkling_tokenizer.json");
  EXPECT_TRUE(refused(folder.path()));
}

TEST(TokenizerFolder, EveryCutIsRefused) {
  for (const auto& tokenizer : one_of_each()) {
    const TemporaryFolder folder;
    tokenizer->save(folder.path());
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      if (name == "tokenizer_config.json") continue;  // inkling does not read it, nor another kind's tokenizer.json
      if (name == "tokenizer.json" && tokenizer->kind() != "bpe") continue;
      const std::string whole = read_file(entry.path());
      const std::size_t step = whole.size() / 100 + 1;
      for (std::size_t size = 0; size + 2 < whole.size(); size += step) {
        damage(entry.path(), whole.substr(0, size));
        EXPECT_TRUE(refused(folder.path())) << entry.path() << " cut at " << size;
      }
      damage(entry.path(), whole);
    }
    EXPECT_FALSE(refused(folder.path()));
  }
}

// A changed byte inside a character of inkling_tokenizer.json can make another character, which no check can notice.
// Every other change is refused or does no harm.
TEST(TokenizerFolder, AnyChangedByteIsRefusedOrHarmless) {
  const auto tokenizers = one_of_each();
  EXPECT_TRUE(rc::check([&] {
    const auto& tokenizer = *tokenizers[*rc::gen::inRange<std::size_t>(0, tokenizers.size())];
    const TemporaryFolder folder;
    tokenizer.save(folder.path());
    const bool model = tokenizer.kind() == "sentencepiece" && *rc::gen::arbitrary<bool>();
    const fs::path path = folder.path() / (model ? "tokenizer.model" : "inkling_tokenizer.json");
    std::string contents = read_file(path);
    const std::size_t place = *rc::gen::inRange<std::size_t>(0, contents.size());
    const char byte = *rc::gen::arbitrary<char>();
    RC_PRE(contents[place] != byte);
    contents[place] = byte;
    damage(path, contents);
    if (refused(folder.path())) return;
    RC_ASSERT(!model);
    const auto loaded = load_tokenizer(folder.path());
    RC_ASSERT(loaded->vocab_size() <= tokenizer.vocab_size() + 1);
    std::string text;
    for (Token token = 0; token < loaded->vocab_size(); ++token) text += loaded->decode(token);
    if (loaded->kind() == "sentencepiece" || loaded->kind() == "bpe") {  // whose single bytes are not text together
      for (Token token = 0; token < loaded->vocab_size(); ++token) {
        RC_ASSERT(loaded->decode(token) == tokenizer.decode(token));
      }
      return;
    }
    RC_ASSERT(decode(*loaded, encode(*loaded, text)) == text);
  }));
}

TEST(TokenizerFolder, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TemporaryFolder folder;
  const auto tokenizer = train({.vocab_size = 300}, sample_text(50), false);
  for (const char* name : {"inkling_tokenizer.json", "tokenizer.model"}) {
    tokenizer->save(folder.path());
    const fs::path file = folder.path() / name;
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_TRUE(contains(input_error([&] { load_tokenizer(folder.path()); }), str(name, ": it is a pipe")));
    fs::remove(file);
    fs::create_symlink("/dev/zero", file);
    EXPECT_TRUE(contains(input_error([&] { load_tokenizer(folder.path()); }), str(name, ": it is a device")));
    fs::remove(file);
  }
}

TEST(TokenizerFolder, EachImpossibleFieldIsNamed) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& json) {
    damage(folder.path() / "inkling_tokenizer.json", json);
    return input_error([&] { load_tokenizer(folder.path()); });
  };
  const std::string head = R"({"format": "inkling-tokenizer", "version": 1, )";
  EXPECT_TRUE(contains(refusal("[1]"), "not an object"));
  EXPECT_TRUE(contains(refusal("{\"a\": "), "not JSON"));
  EXPECT_TRUE(contains(refusal(R"({"format": "other"})"), "format"));
  EXPECT_TRUE(contains(refusal(R"({"format": "inkling-tokenizer", "version": 2})"), "version 2"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "wordpiece", "separator": true})"), "\"wordpiece\""));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "byte"})"), "separator is missing"));
  EXPECT_TRUE(
      contains(refusal(head + R"("kind": "byte", "separator": 1})"), "separator is 1, and must be true or false"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "byte", "separator": true, "x": 1})"), "\"x\""));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "char", "separator": true})"), "\"characters\" is missing"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "char", "separator": true, "characters": "ba"})"), "ascending"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "char", "separator": true, "characters": "aa"})"), "ascending"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "sentencepiece", "separator": true})"), "\"model_hash\" is missing"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": )" + std::string(100000, '[') + std::string(100000, ']') + "}"),
                       "nests deeper than 64"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "byte", "separator": true})" + std::string("\0x", 2)), "not JSON"));
  EXPECT_TRUE(contains(refusal(head + R"("kind": "byte", "kind": "char"})"), "\"kind\" is given twice"));
  const std::string newest = R"({"format": "inkling-tokenizer", "version": 18446744073709551615})";
  EXPECT_TRUE(contains(refusal(newest), "must be a whole number from 1"));
}

TEST(TokenizerFolder, AModelOfAnotherFolderIsRefused) {
  const TemporaryFolder one, other;
  train({.vocab_size = 300}, sample_text(50), false)->save(one.path());
  train({.vocab_size = 301}, sample_text(50), false)->save(other.path());
  fs::copy_file(other.path() / "tokenizer.model", one.path() / "tokenizer.model", fs::copy_options::overwrite_existing);
  EXPECT_TRUE(contains(input_error([&] { load_tokenizer(one.path()); }), "tokenizer.model"));
  fs::remove(one.path() / "tokenizer.model");
  EXPECT_TRUE(refused(one.path()));
}

}  // namespace
}  // namespace inkling
