#include "data/dataset_build.h"

#include "formats/token_file.h"
#include "tests/text/sentencepiece_testing.h"

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

}  // namespace
}  // namespace inkling
