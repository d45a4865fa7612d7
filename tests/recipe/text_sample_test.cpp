#include "recipe/text_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/strings.h"
#include "tests/compressed.h"
#include "tests/temporary_folder.h"

namespace inkling::recipe {
namespace {

class Sample : public testing::Test {
 protected:
  TextSample of(const std::string& text, const std::string& name = "text.txt") {
    folder.write(name, text);
    return of_file(name);
  }
  TextSample of_file(const std::string& name) {
    DataConfig config;
    config.source = {(folder / name).string()};
    return sample_text(config);
  }

  TemporaryFolder folder;
};

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all;
}

TEST_F(Sample, OfASmallTextIsAllOfItCutAtTheTail) {
  const std::string text = repeated("Once upon a time there was a fox. ", 30'000);
  const TextSample sample = of(text);
  EXPECT_EQ(sample.bytes, text.size());
  EXPECT_DOUBLE_EQ(sample.val_fraction, 0.1);
  EXPECT_EQ(sample.training + sample.held_out, text);
  EXPECT_NEAR(static_cast<double>(sample.held_out.size()), 0.1 * static_cast<double>(text.size()), 1);
  EXPECT_EQ(sample.not_utf8, "");
}

// Five gigabytes that take no room on the disk. What is read of them is little, and from all over.
TEST_F(Sample, OfALargeTextIsLittleOfItFromAllOver) {
  constexpr std::uint64_t bytes = 5'000'000'000;
  std::ofstream(folder / "large.txt") << "x";
  std::filesystem::resize_file(folder / "large.txt", bytes);
  {
    std::fstream file(folder / "large.txt", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bytes) - 9);
    file << "the end.\n";
  }
  const TextSample sample = of_file("large.txt");
  EXPECT_EQ(sample.bytes, bytes);
  EXPECT_LE(sample.training.size(), std::size_t{4} << 20);
  EXPECT_LE(sample.held_out.size(), std::size_t{512} << 10);
  EXPECT_EQ(sample.training.front(), 'x');
  EXPECT_TRUE(sample.held_out.ends_with("the end.\n"));
  EXPECT_NEAR(sample.val_fraction * static_cast<double>(bytes), 512 << 10, 26'000)
      << "more would take long to measure by";
}

TEST_F(Sample, OfManyFilesGoesOverAllOfThem) {
  for (int i = 10; i < 30; ++i) folder.write(str("texts/", i, ".txt"), repeated(str("number ", i, "\n"), 100'000));
  const TextSample sample = of_file("texts");
  EXPECT_EQ(sample.bytes, 20 * 100'000);
  EXPECT_TRUE(contains(sample.training, "number 10")) << "the first";
  EXPECT_TRUE(contains(sample.held_out, "number 29")) << "the last";
}

TEST_F(Sample, HasWholeCharactersOfTenLanguages) {
  const std::string text =
      repeated("English, Español, Ελληνικά, Русский, العربية, עברית, हिन्दी, 日本語, 中文, 한국어 and 🦊. ",
               std::size_t{12} << 20);
  const TextSample sample = of(text);
  EXPECT_EQ(sample.not_utf8, "");
  EXPECT_LE(sample.training.size(), std::size_t{4} << 20);
  EXPECT_GT(sample.training.size(), (std::size_t{4} << 20) - 300) << "a few bytes of each piece are cut";
}

TEST_F(Sample, IsOfBytesWhereTheTextIsNotUtf8) {
  EXPECT_TRUE(of(repeated("caf\xe9 cr\xe8me ", 10'000)).not_utf8.ends_with("text.txt:1"));
  EXPECT_EQ(of(repeated("a", 10'000)).not_utf8, "");
  // What lies between two pieces of a sample is looked at, too. A chunk of 2^20 bytes ends within a character here.
  std::string text = repeated("é\n", 7'500'000);
  const TextSample as_it_was = of(text);
  text[4'800'000] = '\xff';
  const TextSample sample = of(text);
  EXPECT_EQ(sample.training, as_it_was.training) << "or the place is not between two pieces";
  EXPECT_TRUE(sample.not_utf8.ends_with("text.txt:1600001")) << sample.not_utf8;
  folder.write("text.txt.gz", gzip_of(text));
  EXPECT_TRUE(of_file("text.txt.gz").not_utf8.ends_with("text.txt.gz:1600001")) << of_file("text.txt.gz").not_utf8;
}

// Its letters are valid UTF-8, with zeros between them.
TEST_F(Sample, InUtf16IsForATokenizerOfBytes) {
  folder.write("wide.txt", repeated(std::string("O\0n\0c\0e\0 \0", 10), 10'000));
  DataConfig config;
  config.source = {(folder / "wide.txt").string()};
  EXPECT_TRUE(contains(input_error([&] { static_cast<void>(sample_text(config)); }), "wide.txt is text in UTF-16"));
  config.tokenizer.kind = TokenizerKind::byte;
  EXPECT_EQ(sample_text(config).bytes, 10'000);
}

TEST_F(Sample, LeavesOutByteOrderMarks) {
  const std::string text = repeated("Once upon a time there was a fox. ", 20'000);
  EXPECT_EQ(of("\xef\xbb\xbf" + text).training, of(text).training);
}

TEST_F(Sample, OfJsonIsTheTextInIt) {
  const TextSample sample = of(repeated("{\"text\": \"Once upon a time.\"}\n", 100'000), "stories.jsonl");
  EXPECT_TRUE(contains(sample.training, "Once upon a time.Once upon a time."));
  EXPECT_EQ(sample.training.find('{'), std::string::npos);
  EXPECT_NEAR(static_cast<double>(sample.held_out.size()),
              0.1 * static_cast<double>(sample.held_out.size() + sample.training.size()), 30);
}

// Training takes the tail of each, so both parts of the sample are as those it sees.
TEST_F(Sample, OfSeveralSourcesHasTheTailOfEach) {
  folder.write("a.txt", repeated("a", 30'000));
  folder.write("b.txt", repeated("b", 10'000));
  folder.write("c.jsonl", repeated("{\"text\": \"c\"}\n", 14'000));
  DataConfig config;
  for (const char* const name : {"a.txt", "b.txt", "c.jsonl"}) config.source.push_back((folder / name).string());
  const TextSample sample = sample_text(config);
  const auto count = [](const std::string& text, char letter) { return std::count(text.begin(), text.end(), letter); };
  EXPECT_EQ(sample.bytes, 41'000u);
  EXPECT_EQ(count(sample.training, 'a'), 27'000);
  EXPECT_EQ(count(sample.training, 'b'), 9'000);
  EXPECT_EQ(count(sample.training, 'c'), 900);
  EXPECT_EQ(count(sample.held_out, 'a'), 3'000);
  EXPECT_EQ(count(sample.held_out, 'b'), 1'000);
  EXPECT_EQ(count(sample.held_out, 'c'), 100);
}

TEST_F(Sample, CountsTheTextOfCompressedAndJsonSources) {
  const std::string text = repeated("Once upon a time there was a fox. ", 60'000);
  folder.write("text.txt.gz", gzip_of(text));
  const TextSample compressed = of_file("text.txt.gz");
  EXPECT_EQ(compressed.bytes, text.size());
  EXPECT_FALSE(compressed.is_estimated);
  const std::string line =
      "{\"other\": \"" + std::string(980, 'x') + "\", \"text\": \"" + std::string(1'000, 'y') + "\"}\n";
  const TextSample json = of(repeated(line, 150'000'000), "long.jsonl");
  EXPECT_TRUE(json.is_estimated);
  EXPECT_NEAR(static_cast<double>(json.bytes), 75e6, 2e6);
  EXPECT_THROW(of(repeated("{\"other\": \"" + std::string(100, 'x') + "\", \"text\": \"y\"}\n", 10'000), "t.jsonl"),
               Error);
}

// Of what cannot be read at any place each source gives its share, however many there are.
TEST_F(Sample, OfManyCompressedAndJsonSourcesIsNoLarger) {
  DataConfig config;
  const std::string text = repeated("Once upon a time there was a fox. ", 300'000);
  const std::string line = "{\"text\": \"" + std::string(100, 'y') + "\"}\n";  // of 113 bytes
  for (int i = 0; i < 20; ++i) {
    folder.write(str(i, ".txt.gz"), gzip_of(text));
    folder.write(str(i, ".jsonl"), repeated(line, 5'650'000));
    for (const char* const ending : {".txt.gz", ".jsonl"}) config.source.push_back((folder / str(i, ending)).string());
  }
  const TextSample sample = sample_text(config);
  EXPECT_TRUE(sample.is_estimated);
  EXPECT_NEAR(static_cast<double>(sample.bytes), 20 * (5.0e6 + static_cast<double>(text.size())), 1e6);
  EXPECT_LE(sample.training.size() + sample.held_out.size(), std::size_t{4} << 20);
}

TEST_F(Sample, RefusesWhatIsNoTextOrTooLittle) {
  const auto expect_refused = [&](const std::string& name, const std::string& text, const std::string& reason) {
    if (!text.empty()) folder.write(name, text);
    const std::string message = input_error([&] { static_cast<void>(of_file(name)); });
    EXPECT_TRUE(contains(message, name));
    EXPECT_TRUE(contains(message, reason));
  };
  expect_refused("short.txt", "too little", "10 bytes");
  expect_refused("picture.png", repeated("\x89PNG\r\n\x1a\n", 10'000), "picture");
  expect_refused("stories.grammar", repeated("S -> \"a\"\n", 10'000), "is no text");
  expect_refused("train.bin", repeated("abcd", 10'000), "is no text");
  expect_refused("missing.txt", "", "does not exist");
}

TEST_F(Sample, IsSpelledByAVocabularyThatIsLearnedFromIt) {
  const TextSample sample = of(repeated("Once upon a time there was a fox. ", 30'000));
  const SpelledSample bytes = spell(sample, {.kind = TokenizerKind::byte}).value();
  EXPECT_EQ(bytes.training.size(), sample.training.size());
  EXPECT_DOUBLE_EQ(bytes.bytes_per_token, 1.0);
  const SpelledSample words = spell(sample, {.kind = TokenizerKind::bpe, .vocab_size = 270}).value();
  EXPECT_EQ(words.vocab_size, 270U);
  EXPECT_GT(words.bytes_per_token, 1.5);
  EXPECT_FALSE(spell(sample, {.kind = TokenizerKind::bpe, .vocab_size = 512})) << "so few words have so few pairs";
}

}  // namespace
}  // namespace inkling::recipe
