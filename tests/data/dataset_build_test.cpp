#include "data/dataset_parts.h"

#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

#include "data/dataset.h"
#include "formats/token_file.h"
#include "tests/text/sentencepiece_testing.h"

namespace {

std::optional<std::uint64_t> invented_free_bytes;

}  // namespace

// Stands in front of the C library's: every disk has as many bytes free as a test says.
extern "C" int statvfs(const char* path, struct statvfs* found) noexcept {
  struct statfs real{};
  if (::syscall(SYS_statfs, path, &real) != 0) return -1;
  *found = {};
  found->f_frsize = 1;
  found->f_blocks = static_cast<fsblkcnt_t>(real.f_blocks * static_cast<std::uint64_t>(real.f_bsize));
  found->f_bavail = invented_free_bytes.value_or(real.f_bavail * static_cast<std::uint64_t>(real.f_bsize));
  return 0;
}

namespace inkling {
namespace {

// Of a model with a dummy prefix and a bos, which every document begins with and no part of a document does.
TEST(EncodeCorpus, DocumentsInPartsHaveTheTokensThatTheyHaveAlone) {
  const TemporaryFolder folder;
  folder.write("model/tokenizer.model", model_like_llama());
  const auto tokenizer = load_tokenizer(folder / "model");
  const std::vector<std::string> documents = {"the Animal", sample_text(8000), " tired\n", sample_text(1)};
  ASSERT_GT(documents[1].size(), part_bytes);
  ASSERT_TRUE(document_start(*tokenizer) && tokenizer->separator());
  std::vector<std::string> paths;
  std::vector<Token> expected;
  for (const std::string& document : documents) {
    paths.push_back(folder.write(str("document-", paths.size(), ".txt"), document));
    const std::vector<Token> tokens = encode(*tokenizer, document);
    expected.push_back(*document_start(*tokenizer));
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(*tokenizer->separator());
  }
  DataConfig config;
  config.source = paths;
  config.validation_source = {folder.write("validation.txt", "the moon")};
  const Corpus corpus = examine_corpus(config);
  for (const std::size_t threads : {1, 3}) {
    const Manifest manifest =
        encode_corpus(corpus, *tokenizer, {.folder = folder.path(), .max_shard_tokens = 1 << 30, .threads = threads});
    const TokenSequence sequence(manifest.train.shards, tokenizer->vocab_size());
    std::vector<Token> tokens(sequence.count());
    sequence.read(0, tokens);
    EXPECT_EQ(tokens, expected);
    EXPECT_EQ(manifest.validation.tokens, encode(*tokenizer, "the moon").size() + 2);
    EXPECT_EQ(manifest.validation.bytes, 8u) << "the prefix is no text";
  }
}

// Tokens take two bytes each: of a byte of text, or of a letter, or of some three that a learned vocabulary joins.
TEST(PrepareDataset, SaysThatItsFilesDoNotFitOnTheDisk) {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 3000) text += "A cat naps.\n";
  DataConfig config;
  config.source = {folder.write("text.txt", text)};
  config.dir = folder / "data" / "of text";
  const auto bytes_for = [&](TokenizerKind kind) {
    config.tokenizer.kind = kind;
    return prepare_dataset(config, {.dry_run = true}).bytes_to_write;
  };
  EXPECT_EQ(bytes_for(TokenizerKind::byte), 6000U);
  EXPECT_EQ(bytes_for(TokenizerKind::character), 6000U);
  EXPECT_EQ(bytes_for(TokenizerKind::bpe), 2000U);
  config.tokenizer.kind = TokenizerKind::byte;
  const auto warning_with = [&](std::uint64_t free) {
    invented_free_bytes = free;
    testing::internal::CaptureStderr();
    prepare_dataset(config, {.verify = true});
    std::filesystem::remove_all(*config.dir);
    invented_free_bytes.reset();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_TRUE(contains(warning_with(5000),
                       "warning: not enough room: token files take about 5.9 KiB, but 4.9 KiB are "
                       "free on the disk of " +
                           folder.path().string()));
  EXPECT_EQ(warning_with(6000).find("room"), std::string::npos);
}

}  // namespace
}  // namespace inkling
