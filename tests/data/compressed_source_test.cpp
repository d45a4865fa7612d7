// Compressed sources: the same tokens, splits and places as those of the text inside.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "data/dataset.h"
#include "data/dataset_manifest.h"
#include "data/source_corpus.h"
#include "tests/compressed.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

DataConfig compressed_settings(const TemporaryFolder& folder, std::vector<std::string> source,
                               TokenizerKind kind = TokenizerKind::byte) {
  DataConfig config;
  config.source = std::move(source);
  config.tokenizer.kind = kind;
  config.tokenizer.vocab_size = 300;
  config.dir = (folder / "prepared").string();
  return config;
}

std::string a_text(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += "Line " + std::to_string(i * 7919 % 1000) + " of a naïve little text. 日本\n";
  return text;
}

// The hash of the tokens of both splits, with everything that says how they are split.
std::string identity(const Dataset& dataset) {
  const auto of = [](const SplitSummary& split) {
    return split.hash + " " + std::to_string(split.documents) + " " + std::to_string(split.bytes);
  };
  return of(dataset.train) + "|" + of(dataset.validation);
}

// What becomes of this source, prepared afresh.
std::string identity_of(const DataConfig& config) {
  fs::remove_all(*config.dir);
  const std::string dry = identity(prepare_dataset(config, {.dry_run = true}));
  const std::string made = identity(prepare_dataset(config, {}));
  EXPECT_EQ(dry, made);
  return made;
}

TEST(CompressedSource, GivesTheTokensAndTheSplitsOfItsText) {
  const TemporaryFolder folder;
  EXPECT_TRUE(rc::check([&] {
    const bool lines = *rc::gen::arbitrary<bool>();
    std::string text;
    for (const std::string& word : *rc::gen::container<std::vector<std::string>>(
             rc::gen::element<std::string>("ab", "é", "日本", "\n", "𝄞", " and a good deal more of it"))) {
      text += lines ? "{\"text\": \"" + (word == "\n" ? "x" : word) + "\"}\n" : word;
    }
    text += lines ? "{\"text\": \"end\"}" : "end";
    const std::string inner = lines ? "a.jsonl" : "a.txt";
    const std::size_t middle = *rc::gen::inRange<std::size_t>(0, text.size());
    const std::string_view first = std::string_view(text).substr(0, middle),
                           rest = std::string_view(text).substr(middle);
    DataConfig config = compressed_settings(folder, {folder.write(inner, text)});
    config.val_fraction = 0.01 * *rc::gen::inRange(1, 100);
    const std::string plain = identity_of(config);
    config.source = {folder.write(inner + ".gz", gzip_of(first) + gzip_of(rest))};
    RC_ASSERT(identity_of(config) == plain);
    config.source = {folder.write(inner + ".zst", zstd_of(first) + skippable_frame("") + zstd_of(rest))};
    RC_ASSERT(identity_of(config) == plain);
  }));
}

TEST(CompressedSource, GivesTheSameTokensOfEveryKind) {
  const TemporaryFolder folder;
  const std::string text = a_text(60'000);  // longer than what is read or encoded at once
  const std::vector<std::string> sources{folder.write("a.txt", text), folder.write("a.txt.gz", gzip_of(text)),
                                         folder.write("a.txt.zst", zstd_of(text))};
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::sentencepiece, TokenizerKind::bpe}) {
    std::vector<std::string> hashes;
    for (const std::string& source : sources) {
      fs::remove_all(folder / "prepared");
      hashes.push_back(prepare_dataset(compressed_settings(folder, {source}, kind), {}).hash);
    }
    EXPECT_EQ(hashes, std::vector(3, hashes[0])) << word_of(kind);
  }
}

TEST(CompressedSource, OfAFolderCountsByItsTextsLength) {
  const TemporaryFolder folder;
  const std::string long_one = a_text(500);  // compressed, it is the shortest of the three
  for (const char* name : {"plain", "compressed"}) folder.write(std::string(name) + "/b.txt", a_text(20));
  folder.write("plain/a.txt", long_one);
  folder.write("compressed/a.txt.gz", gzip_of(long_one));
  folder.write("plain/c.jsonl", "{\"text\": \"c\"}\n");
  folder.write("compressed/c.jsonl.zst", zstd_of("{\"text\": \"c\"}\n"));
  DataConfig config = compressed_settings(folder, {(folder / "plain").string()});
  const std::string plain = identity_of(config);
  config.source = {(folder / "compressed").string()};
  EXPECT_EQ(identity_of(config), plain);
}

TEST(CompressedSource, WithAValidationSourceIsTakenWhole) {
  const TemporaryFolder folder;
  DataConfig config = compressed_settings(folder, {folder.write("a.txt.gz", gzip_of("train"))});
  config.validation_source = {folder.write("b.txt.zst", zstd_of("check it"))};
  const Dataset dataset = prepare_dataset(config, {});
  EXPECT_EQ(dataset.train.tokens, 5u);
  EXPECT_EQ(dataset.validation.tokens, 8u);
  EXPECT_TRUE(dataset.validation.ends_at.ends_with("b.txt.zst:1")) << dataset.validation.ends_at;
}

TEST(CompressedSource, BadTextIsNamedWithItsLine) {
  const TemporaryFolder folder;
  const std::string text = folder.write("a.txt.gz", gzip_of("good\ngood\nbad \xff\n"));
  DataConfig config = compressed_settings(folder, {text}, TokenizerKind::character);
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), text + ":3: "));
  const std::string lines = folder.write("a.jsonl.zst", zstd_of("{\"text\": \"good\"}\n{\"txt\": \"bad\"}\n"));
  config.source = {lines};
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), lines + ":2: no field \"text\""));
}

TEST(CompressedSource, ThatIsDamagedOrCutShortLeavesNothingBehind) {
  const TemporaryFolder folder;
  const std::string whole = gzip_of(a_text(1000));
  const std::string cut = folder.write("a.txt.gz", whole.substr(0, whole.size() / 2));
  DataConfig config = compressed_settings(folder, {cut});
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), cut + ": breaks off after "));
  config.validation_source = {folder.write("b.txt", "b")};  // then its length is not measured before
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), cut + ": breaks off after "));
  EXPECT_FALSE(fs::exists(folder / "prepared"));
}

TEST(CompressedSource, OfNoTextIsRefusedAsAnEmptyFileIs) {
  const TemporaryFolder folder;
  const std::string empty = folder.write("a.txt.zst", zstd_of(""));
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(compressed_settings(folder, {empty}), {}); }),
                       empty + ":1: the file is empty"));
}

TEST(CompressedSource, ThatIsNoTextIsRefusedWithTheRemedy) {
  const TemporaryFolder folder;
  for (const char* name : {"a.bin.gz", "a.grammar.zst"}) {
    const std::string path = folder.write(name, "x");
    const std::string message = input_error([&] { prepare_dataset(compressed_settings(folder, {path}), {}); });
    EXPECT_TRUE(contains(message, "is compressed, and only text is read so: decompress it"));
  }
  for (const char* name : {"a.tar.gz", "a.tar.zst", "a.tgz", "a.tzst", "a.tar"}) {
    const std::string archive = folder.write(name, "x");
    EXPECT_TRUE(contains(input_error([&] { prepare_dataset(compressed_settings(folder, {archive}), {}); }),
                         archive + " is an archive of files: unpack it"));
  }
  const std::string weights = folder.write("model.safetensors", "x");
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(compressed_settings(folder, {weights}), {}); }),
                       weights + " is a file of a model's weights"));
}

// A data set is reused by size, time and inode: here the bytes are no longer a text at all, and nothing reads them.
TEST(CompressedSource, IsNotReadAgainWhileItIsUnchanged) {
  const TemporaryFolder folder;
  const std::string compressed = gzip_of(a_text(100)), path = folder.write("a.txt.gz", compressed);
  const DataConfig config = compressed_settings(folder, {path});
  const std::string hash = prepare_dataset(config, {}).hash;
  EXPECT_EQ(read_manifest(folder / "prepared").sources.at(0).hash,
            hash_file(path));  // of the file as it is on the disk

  const auto time = fs::last_write_time(path);
  const auto overwrite = [&](const std::string& bytes) {
    std::FILE* file = std::fopen(path.c_str(), "r+");
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
    fs::last_write_time(path, time);
  };
  overwrite(std::string(compressed.size(), 'x'));
  EXPECT_EQ(prepare_dataset(config, {}).hash, hash);
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {.verify = true}); }), "is not compressed by gzip"));

  overwrite(compressed);  // touched, and otherwise the same
  fs::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_EQ(prepare_dataset(config, {}).hash, hash);
}

TEST(CompressedSource, IsCalledByItsTextsNameInAFolderMadeForIt) {
  const TemporaryFolder folder;
  DataConfig config = compressed_settings(folder, {folder.write("my story.txt.gz", gzip_of("hello you"))});
  config.dir.reset();
  const Dataset dataset = prepare_dataset(config, {.dry_run = true});
  EXPECT_TRUE(dataset.folder.string().starts_with("data/my-story-byte-")) << dataset.folder;
}

TEST(LookAround, FindsTheSameInACompressedText) {
  const TemporaryFolder folder;
  const std::string text = "ab\n\nc日本é\nx𝄞\n\xff\x80\x80\x80\x80\x80 no UTF-8\n\nlast";
  for (const char* inner : {"a.txt", "a.jsonl"}) {
    const SourceFile plain = examine_file(folder.write(inner, text));
    for (const std::string& path : {folder.write(std::string(inner) + ".gz", gzip_of(text)),
                                    folder.write(std::string(inner) + ".zst", zstd_of(text))}) {
      const SourceFile compressed = examine_file(path);
      EXPECT_EQ(text_sizes({path, {compressed}}), std::vector{text.size()});
      for (std::uint64_t at = 1; at < text.size(); ++at) {
        const Surroundings here = look_around(plain, text.size(), at), there = look_around(compressed, text.size(), at);
        EXPECT_EQ(there.document, here.document) << path << " at " << at;
        EXPECT_EQ(there.next_document, here.next_document) << path << " at " << at;
        EXPECT_EQ(there.character, here.character) << path << " at " << at;
      }
    }
  }
}

TEST(LookAround, FindsTheSameWhereACompressedTextIsReadInPieces) {
  const TemporaryFolder folder;
  constexpr std::uint64_t piece = 1 << 20;
  const std::string text = "first\n" + std::string(piece - 11, 'a') + "日本\n" + std::string(piece, 'b') + "\nlast";
  for (const char* inner : {"a.txt", "a.jsonl"}) {
    const SourceFile plain = examine_file(folder.write(inner, text));
    const SourceFile compressed = examine_file(folder.write(std::string(inner) + ".zst", zstd_of(text)));
    for (std::uint64_t at = piece - 8; at < piece + 8; ++at) {
      const Surroundings here = look_around(plain, text.size(), at), there = look_around(compressed, text.size(), at);
      EXPECT_EQ(there.document, here.document) << inner << " at " << at;
      EXPECT_EQ(there.next_document, here.next_document) << inner << " at " << at;
      EXPECT_EQ(there.character, here.character) << inner << " at " << at;
    }
  }
}

}  // namespace
}  // namespace inkling
