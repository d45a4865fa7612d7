#include "data/dataset.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "config/config.h"
#include "data/dataset_manifest.h"
#include "tests/compressed.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

DataConfig settings(const TemporaryFolder& folder, std::vector<std::string> source,
                    TokenizerKind kind = TokenizerKind::character) {
  DataConfig config;
  config.source = std::move(source);
  config.tokenizer.kind = kind;
  config.dir = (folder / "prepared").string();
  return config;
}

std::vector<Token> tokens_of(const SplitSummary& split) {
  const TokenSequence sequence(split.shards, std::uint64_t{1} << 32);
  std::vector<Token> tokens(sequence.count());
  sequence.read(0, tokens);
  return tokens;
}

std::string text_of(const Dataset& dataset, const SplitSummary& split) {
  return decode(*dataset.tokenizer, tokens_of(split));
}

// The text with '|' for every separator.
std::string marked_text(const Dataset& dataset, const SplitSummary& split) {
  std::string text;
  for (const Token token : tokens_of(split)) {
    text += token == dataset.tokenizer->separator() ? "|" : dataset.tokenizer->decode(token);
  }
  return text;
}

// A hundred lines of ordinary text.
std::string some_text() {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "Line " + std::to_string(i) + " of a little text, naïve as it is.\n";
  return text;
}

bool nothing_left(const TemporaryFolder& folder, const std::vector<std::string>& but) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    if (std::find(but.begin(), but.end(), name) == but.end()) return ADD_FAILURE() << name << " is left", false;
  }
  return true;
}

TEST(PrepareDataset, ASingleTextComesBackFromItsTokensWithoutSeparator) {
  for (const TokenizerKind kind : {TokenizerKind::byte, TokenizerKind::character}) {
    const TemporaryFolder folder;
    const std::string text = some_text();
    const Dataset dataset = prepare_dataset(settings(folder, {folder.write("a.txt", text)}, kind), {});
    EXPECT_EQ(text_of(dataset, dataset.train) + text_of(dataset, dataset.validation), text) << word_of(kind);
    EXPECT_EQ(dataset.tokenizer->separator(), std::nullopt) << word_of(kind);
    EXPECT_EQ(dataset.train.bytes + dataset.validation.bytes, text.size()) << word_of(kind);
    EXPECT_EQ(dataset.train.documents, 1u);
    EXPECT_EQ(dataset.vocab_size, dataset.tokenizer->vocab_size());
    EXPECT_EQ(dataset.train.tokens, tokens_of(dataset.train).size());
    EXPECT_TRUE(nothing_left(folder, {"a.txt", "prepared"}));
  }
}

// Its prepare.py trains on the first int(0.9 * n) characters, wherever lines end.
TEST(PrepareDataset, ATextOfTinyShakespearesLengthIsSplitAsNanoGptSplitsIt) {
  const TemporaryFolder folder;
  std::string text;
  for (std::size_t i = 0; i < 1'115'394; ++i) text += i % 40 == 0 ? '\n' : static_cast<char>('0' + i * i % 65);
  const Dataset dataset = prepare_dataset(settings(folder, {folder.write("a.txt", text)}), {.block_size = 256});
  EXPECT_EQ(dataset.train.tokens, 1'003'854u);
  EXPECT_EQ(dataset.validation.tokens, 111'540u);
  EXPECT_EQ(text_of(dataset, dataset.train), text.substr(0, 1'003'854));
}

TEST(PrepareDataset, DocumentsEndWithTheSeparator) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "{\"body\":\"doc" + std::to_string(i) + "\"}\n";
  DataConfig config = settings(folder, {folder.write("a.jsonl", lines)});
  config.jsonl_field = "body";
  config.val_fraction = 0.2;
  const Dataset dataset = prepare_dataset(config, {});
  EXPECT_EQ(marked_text(dataset, dataset.train), "doc0|doc1|doc2|doc3|doc4|doc5|doc6|doc7|");
  EXPECT_EQ(marked_text(dataset, dataset.validation), "doc8|doc9|");
  EXPECT_EQ(dataset.train.documents, 8u);
  EXPECT_EQ(dataset.train.bytes, 32u);
  EXPECT_EQ(dataset.train.tokens, 40u);
}

// A text with data.separator in it gives what its documents give when each is a line of .jsonl.
TEST(PrepareDataset, TextThatEndsDocumentsBecomesTheSeparatorOfEveryKind) {
  const std::string mark = "<|endoftext|>";
  for (const TokenizerKind kind :
       {TokenizerKind::byte, TokenizerKind::character, TokenizerKind::sentencepiece, TokenizerKind::bpe}) {
    const TemporaryFolder folder;
    std::string text, lines;
    for (int i = 0; i < 60; ++i) {
      const std::string story = "Story " + std::to_string(i) + " of the moon, the street and the animal.";
      text += story + mark + (i % 7 == 0 ? "\n" + mark : "");
      lines += "{\"text\": \"" + story + "\"}\n";
    }
    DataConfig apart = settings(folder, {folder.write("a.jsonl", lines)}, kind);
    apart.validation_source = {folder.write("b.jsonl", lines)};
    apart.tokenizer.vocab_size = 288;
    DataConfig joined = apart;
    joined.source = {folder.write("a.txt", text)};
    joined.validation_source = {folder.write("b.jsonl.gz", gzip_of("{\"text\": \"" + [&] {
                                               std::string escaped;
                                               for (const char c : text)
                                                 escaped += c == '\n' ? "\\n" : std::string(1, c);
                                               return escaped;
                                             }() + "\"}"))};
    joined.separator = mark;
    apart.dir = (folder / "apart").string();
    joined.dir = (folder / "joined").string();
    testing::internal::CaptureStderr();
    const Dataset expected = prepare_dataset(apart, {}), dataset = prepare_dataset(joined, {});
    EXPECT_FALSE(contains(testing::internal::GetCapturedStderr(), "names of special tokens"));
    EXPECT_EQ(dataset.tokenizer->hash(), expected.tokenizer->hash()) << word_of(kind);
    EXPECT_EQ(tokens_of(dataset.train), tokens_of(expected.train)) << word_of(kind);
    EXPECT_EQ(tokens_of(dataset.validation), tokens_of(expected.validation)) << word_of(kind);
    EXPECT_EQ(dataset.train.documents, 60u) << word_of(kind);
    EXPECT_EQ(dataset.hash, expected.hash) << word_of(kind);
  }
}

TEST(PrepareDataset, NamesOfSpecialTokensInTheTextAreCountedAndSaid) {
  for (const TokenizerKind kind : {TokenizerKind::byte, TokenizerKind::character, TokenizerKind::bpe}) {
    const TemporaryFolder folder;
    // Of the last one a bpe reads one half in the first part, of 256 KiB, and the other in the second.
    std::string text = "one <b>text</b>\nand<|endoftext|>two</s>\n<|endof <|endoftext|>";
    text += std::string((1 << 18) - text.size() - 4, ' ') + "<|endoftext|>" + std::string(1000, ' ');
    DataConfig config = settings(folder, {folder.write("a.txt", text)}, kind);
    config.validation_source = {folder.write("v.txt", text.substr(0, 40))};
    config.tokenizer.vocab_size = 260;
    for (const bool dry_run : {true, false}) {
      testing::internal::CaptureStderr();
      prepare_dataset(config, {.dry_run = dry_run});
      const std::string said = testing::internal::GetCapturedStderr();
      EXPECT_TRUE(contains(said, "names of special tokens, </s> 2 times, <|endoftext|> 4 times, the first at " +
                                     (folder / "a.txt").string() + ":2: "))
          << word_of(kind) << dry_run << said;
      EXPECT_TRUE(contains(said, "write data.separator: \"<|endoftext|>\"")) << said;
    }
  }
}

TEST(PrepareDataset, ASeparatorMakesOtherDataAndItsAbsenceTheSameAsBefore) {
  const TemporaryFolder folder;
  DataConfig config = settings(folder, {folder.write("a.txt", "one<|endoftext|>two" + some_text())});
  prepare_dataset(config, {});
  EXPECT_FALSE(read_manifest(folder / "prepared").settings.contains("data.separator"));
  config.separator = "<|endoftext|>";
  testing::internal::CaptureStderr();
  const Dataset dataset = prepare_dataset(config, {});
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "is out of date: data.separator is new"));
  EXPECT_TRUE(marked_text(dataset, dataset.train).starts_with("one|twoLine 0"));
  EXPECT_TRUE(contains(text_of(dataset, dataset.train), "naïve"));
  EXPECT_THROW(dataset.tokenizer->check("<"), Error) << "its letters are in no vocabulary";
}

TEST(PrepareDataset, SeveralSourcesOfSeveralKindsGoTogether) {
  const TemporaryFolder folder;
  folder.write("book/one.txt", "one");
  folder.write("book/two.txt", "two");
  DataConfig config = settings(folder, {folder.write("a.txt", "plain"), (folder / "book").string(),
                                        folder.write("b.jsonl", "{\"text\":\"json\"}\n")});
  config.validation_source = {folder.write("v.txt", "valid")};
  const Dataset dataset = prepare_dataset(config, {});
  EXPECT_EQ(marked_text(dataset, dataset.train), "plain|one|two|json|");
  EXPECT_EQ(marked_text(dataset, dataset.validation), "valid|");
}

TEST(PrepareDataset, AValidationSourceLeavesTheTrainingTextWhole) {
  const TemporaryFolder folder;
  DataConfig config = settings(folder, {folder.write("a.txt", "all of it")});
  config.validation_source = {folder.write("v.txt", "and this, ü")};
  const Dataset dataset = prepare_dataset(config, {});
  EXPECT_EQ(marked_text(dataset, dataset.train), "all of it");
  EXPECT_EQ(marked_text(dataset, dataset.validation), "and this, ü");
}

TEST(PrepareDataset, ShardsAreCutAtTheLimitAndReadAsOne) {
  const TemporaryFolder folder;
  const std::string text = some_text();
  const Dataset dataset =
      prepare_dataset(settings(folder, {folder.write("a.txt", text)}, TokenizerKind::byte), {.max_shard_tokens = 1000});
  ASSERT_EQ(dataset.train.shards.size(), (dataset.train.tokens + 999) / 1000);
  EXPECT_EQ(TokenShard(dataset.train.shards[0]).count(), 1000u);
  EXPECT_EQ(dataset.train.shards[1].filename(), "train-000001.bin");
  EXPECT_EQ(text_of(dataset, dataset.train) + text_of(dataset, dataset.validation), text);
}

TEST(PrepareDataset, ShardsDoNotChangeTheIdentityOfTheData) {
  const TemporaryFolder one, two;
  const std::string text = some_text();
  const Dataset whole = prepare_dataset(settings(one, {one.write("a.txt", text)}), {});
  const Dataset cut = prepare_dataset(settings(two, {two.write("a.txt", text)}), {.max_shard_tokens = 100});
  EXPECT_EQ(whole.hash, cut.hash);
  const Dataset other = prepare_dataset(settings(two, {two.write("b.txt", text + "!")}), {});
  EXPECT_NE(whole.hash, other.hash);
}

TEST(PrepareDataset, SentencepieceReturnsTheTextAndIsTheSameEveryTime) {
  const TemporaryFolder folder;
  const std::string text = some_text();
  DataConfig config = settings(folder, {folder.write("a.txt", text)}, TokenizerKind::sentencepiece);
  config.tokenizer.vocab_size = 290;
  const Dataset dataset = prepare_dataset(config, {});
  EXPECT_EQ(text_of(dataset, dataset.train) + text_of(dataset, dataset.validation), text);
  EXPECT_LT(dataset.train.tokens, dataset.train.bytes);
  config.dir = (folder / "again").string();
  EXPECT_EQ(prepare_dataset(config, {}).hash, dataset.hash);
}

TEST(PrepareDataset, TheTokensAreTheSameWhateverTheNumberOfThreads) {
  const TemporaryFolder folder;
  std::string text, lines;
  for (int i = 0; i < 40; ++i) text += some_text() + "\n";
  for (int i = 0; text.size() < 1'500'000; ++i) text += "word" + std::to_string(i % 3000) + (i % 9 == 0 ? "\n\n" : " ");
  for (int i = 0; i < 3000; ++i) lines += "{\"text\": \"Document " + std::to_string(i) + ".\\n\"}\n";
  const std::vector<std::string> sources = {folder.write("a.txt", text), folder.write("b.jsonl", lines)};
  for (const TokenizerKind kind :
       {TokenizerKind::byte, TokenizerKind::character, TokenizerKind::sentencepiece, TokenizerKind::bpe}) {
    std::vector<std::string> hashes;
    for (const std::size_t threads : {1, 2, 5}) {
      DataConfig config = settings(folder, sources, kind);
      config.tokenizer.vocab_size = 350;
      fs::remove_all(*config.dir);
      PrepareOptions options;
      options.threads = threads;
      const Dataset dataset = prepare_dataset(config, options);
      hashes.push_back(dataset.hash);
      EXPECT_EQ(text_of(dataset, dataset.train).substr(0, 1000), text.substr(0, 1000));
    }
    EXPECT_EQ(hashes, std::vector(3, hashes[0])) << word_of(kind);
  }
}

TEST(PrepareDataset, ATokenizerThatExistsIsReadAndNoticedWhenItChanges) {
  const TemporaryFolder folder, elsewhere;
  DataConfig config = settings(folder, {folder.write("a.txt", some_text())}, TokenizerKind::bpe);
  config.tokenizer.vocab_size = 280;
  const Dataset learned = prepare_dataset(config, {});
  const std::string json = read_file(learned.folder / "tokenizer.json");
  config.tokenizer.from = elsewhere.write("tokenizer.json", json);
  config.dir = (folder / "other").string();
  const Dataset taken = prepare_dataset(config, {});
  EXPECT_EQ(tokens_of(taken.train), tokens_of(learned.train));
  EXPECT_EQ(tokens_of(taken.validation), tokens_of(learned.validation));
  const fs::file_time_type made = fs::last_write_time(*config.dir + "/dataset.json");
  prepare_dataset(config, {});
  EXPECT_EQ(fs::last_write_time(*config.dir + "/dataset.json"), made);
  elsewhere.write("tokenizer.json", json + "\n");
  prepare_dataset(config, {});
  EXPECT_NE(fs::last_write_time(*config.dir + "/dataset.json"), made);
  config.tokenizer.from = (elsewhere / "absent.json").string();
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "absent.json"));
}

TEST(PrepareDataset, AnOpenedFolderIsWhatWasPrepared) {
  const TemporaryFolder folder;
  const Dataset made = prepare_dataset(settings(folder, {folder.write("a.txt", some_text())}), {});
  const Dataset opened = open_dataset(made.folder);
  EXPECT_EQ(opened.hash, made.hash);
  EXPECT_EQ(tokens_of(opened.train), tokens_of(made.train));
  EXPECT_EQ(opened.tokenizer->hash(), made.tokenizer->hash());
}

TEST(PrepareDataset, MoreFilesThanCanBeListedAreRefusedBeforeTheyAreRead) {
  const TemporaryFolder folder;
  fs::path deep = folder / "many";
  while (deep.native().size() < 3'600) deep /= std::string(200, 'd');
  fs::create_directories(deep);
  for (int number = 0; number < 18'000; ++number) std::ofstream(deep / str(number, ".txt")) << "text\n";
  const auto message = input_error([&] { prepare_dataset(settings(folder, {(folder / "many").string()}), {}); });
  EXPECT_TRUE(contains(message, "data.source: 18,000 files are too many to be listed in dataset.json"));
}

TEST(PrepareDataset, AFolderThatMovedIsOpenedWhereItIs) {
  const TemporaryFolder folder;
  const Dataset made = prepare_dataset(settings(folder, {folder.write("a.txt", some_text())}), {});
  fs::rename(made.folder, folder / "elsewhere");
  EXPECT_EQ(open_dataset(folder / "elsewhere").hash, made.hash);
  EXPECT_TRUE(contains(input_error([&] { open_dataset(made.folder); }), "dataset.json"));
}

TEST(PrepareDataset, AutoMakesAReadableNameThatTheSettingsDecide) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  folder.write("my play.txt", some_text());
  DataConfig config;
  config.source = {"my play.txt"};
  const fs::path first = prepare_dataset(config, {}).folder;
  config.val_fraction = 0.2;
  const fs::path second = prepare_dataset(config, {}).folder;
  config.stories = 5;  // means nothing to a text
  const fs::path third = prepare_dataset(config, {}).folder;
  fs::current_path(before);
  EXPECT_TRUE(first.string().starts_with("data/my-play-char-")) << first;
  EXPECT_NE(first, second);
  EXPECT_EQ(second, third);
}

TEST(PrepareDataset, ADryRunCountsAndWritesNothing) {
  const TemporaryFolder folder;
  const DataConfig config = settings(folder, {folder.write("a.txt", some_text())});
  const Dataset rehearsed = prepare_dataset(config, {.dry_run = true});
  EXPECT_TRUE(nothing_left(folder, {"a.txt"}));
  const Dataset made = prepare_dataset(config, {});
  EXPECT_EQ(rehearsed.folder, made.folder);
  EXPECT_EQ(rehearsed.train.tokens, made.train.tokens);
  EXPECT_EQ(rehearsed.hash, made.hash);
  EXPECT_EQ(rehearsed.vocab_size, made.vocab_size);
}

TEST(PrepareDataset, ADryRunForSentencepieceStillReadsTheText) {
  const TemporaryFolder folder;
  DataConfig config = settings(folder, {folder.write("a.txt", "fine\nbad \xff\n")}, TokenizerKind::sentencepiece);
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {.dry_run = true}); }), "a.txt:2"));
  config.source = {folder.write("b.txt", some_text())};
  EXPECT_EQ(prepare_dataset(config, {.dry_run = true}).vocab_size, config.tokenizer.vocab_size);
}

TEST(BadText, IsRefusedWithItsLineWhereTheTokenizerNeedsUtf8) {
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::sentencepiece, TokenizerKind::bpe}) {
    const TemporaryFolder folder;
    DataConfig config = settings(folder, {folder.write("a.txt", "good\nalso good\nbad \xc3\x28 here\nend\n")}, kind);
    config.tokenizer.vocab_size = 300;
    const std::string message = input_error([&] { prepare_dataset(config, {}); });
    EXPECT_TRUE(contains(message, "a.txt:3")) << word_of(kind);
    EXPECT_TRUE(contains(message, "UTF-8")) << word_of(kind);
    EXPECT_TRUE(nothing_left(folder, {"a.txt"}));
  }
}

TEST(BadText, IsRefusedWithItsLineByATokenizerThatExists) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i) + "\n";
  DataConfig config =
      settings(folder, {folder.write("a.txt", text + "bad \xc3\x28 here\n" + text)}, TokenizerKind::bpe);
  config.tokenizer.from = "gpt2";
  const std::string message = input_error([&] { prepare_dataset(config, {}); });
  EXPECT_TRUE(contains(message, "a.txt:50001: not UTF-8 at byte 4 (0xC3)")) << message;
  std::string words = "first\n";
  for (int i = 0; i < 60'000; ++i) words += "word ";
  config.source = {folder.write("b.txt", words + "\xff" + words)};
  const std::string within = input_error([&] { prepare_dataset(config, {}); });
  // The first part ends before the last space in 262,144 bytes.
  EXPECT_TRUE(contains(within, "b.txt:2: not UTF-8 at byte 37866 (0xFF)")) << within;
  EXPECT_TRUE(contains(within, "(counted from byte 262134 of the line)")) << within;
}

TEST(BadText, IsAllRightForBytes) {
  const TemporaryFolder folder;
  const std::string text("\xff\xfe\0bytes", 8);  // as UTF-16 begins, which stops every other kind of tokenizer
  const Dataset dataset = prepare_dataset(settings(folder, {folder.write("a.txt", text)}, TokenizerKind::byte), {});
  EXPECT_EQ(text_of(dataset, dataset.train) + text_of(dataset, dataset.validation), text);
}

TEST(BadText, ThatIsTooShortForAWindowIsRefusedWithTheLineItEndsIn) {
  const TemporaryFolder folder;
  const DataConfig config = settings(folder, {folder.write("a.txt", "one\ntwo\nthree\nfour\nfive\n")});
  const std::string train = input_error([&] { prepare_dataset(config, {.block_size = 64}); });
  EXPECT_TRUE(contains(train, "a.txt:5: the text for training ends after 21 tokens, and one window takes 65"));
  EXPECT_TRUE(contains(train, "block_size of at most 20"));
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {.block_size = 16}); }),
                       "a.txt:5: the text for validation ends after 3 tokens"));
  EXPECT_TRUE(nothing_left(folder, {"a.txt"}));
  prepare_dataset(config, {.block_size = 2});
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {.block_size = 16}); }), "a.txt:5: ")) << "on reuse";
  EXPECT_TRUE(
      contains(input_error([&] { prepare_dataset(config, {.block_size = 16, .dry_run = true}); }), "a.txt:5: "));
}

TEST(BadText, AmongOtherKindsOfSourcesIsRefused) {
  const TemporaryFolder folder;
  const std::string text = folder.write("a.txt", "x");
  folder.write("book/t.bin", "x");
  folder.write("book/g.grammar", "x");
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(settings(folder, {text, (folder / "book").string()}), {}); }),
                       "g.grammar is a grammar"));
  fs::remove(folder / "book/g.grammar");
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(settings(folder, {text, (folder / "book").string()}), {}); }),
                       "t.bin holds tokens"));
}

TEST(BadText, ThatIsAPickleIsRefusedWithTheCommandThatReadsIt) {
  const TemporaryFolder folder;
  for (const char* name : {"meta.pkl", "ckpt.pt"}) {
    const std::string path = folder.write(name, "x");
    const std::string message = input_error([&] { prepare_dataset(settings(folder, {path}), {}); });
    EXPECT_TRUE(contains(message, path + " is a Python pickle"));
    EXPECT_TRUE(contains(message, "scripts/from-nanogpt " + path));
  }
}

// So that older data sets and runs, which have no such setting, stay what they are.
TEST(RawData, IsTheBytesOfAnyFileAndPartOfTheIdentityOnlyWhereItIsSet) {
  const TemporaryFolder folder;
  std::string page = "<!DOCTYPE html>";
  for (int i = 0; i < 256; ++i) page += static_cast<char>(i);
  for (const char* name : {"a.html", "b.json", "c.jsonl", "d.bin", "e.grammar", "f.pkl"}) {
    DataConfig config = settings(folder, {folder.write(name, page)}, TokenizerKind::byte);
    EXPECT_TRUE(error_of([&] { prepare_dataset(config, {}); })) << name;
    config.raw = true;
    const Dataset dataset = prepare_dataset(config, {});
    EXPECT_EQ(text_of(dataset, dataset.train) + text_of(dataset, dataset.validation), page) << name;
    EXPECT_EQ(read_manifest(dataset.folder).settings.at("data.raw"), "true");
  }
  const Dataset text = prepare_dataset(settings(folder, {folder.write("a.txt", page.substr(0, 10))}), {});
  EXPECT_FALSE(read_manifest(text.folder).settings.contains("data.raw"));
}

TEST(BadText, WithZeroBytesIsLearnedWithAWarningThatCountsThem) {
  const TemporaryFolder folder;
  std::string text = some_text();
  text.insert(text.find("Line 2 "), 3, '\0');
  const std::string path = folder.write("a.txt", text);
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte}) {
    testing::internal::CaptureStderr();
    const Dataset dataset = prepare_dataset(settings(folder, {path}, kind), {});
    EXPECT_EQ(text_of(dataset, dataset.train) + text_of(dataset, dataset.validation), text);
    const std::string said = testing::internal::GetCapturedStderr();
    if (kind == TokenizerKind::character) {
      EXPECT_TRUE(contains(said, "3 zero bytes in the text will be learned as characters"));
      EXPECT_TRUE(contains(said, path + ":3; "));
    } else {
      EXPECT_FALSE(contains(said, "zero byte"));  // of bytes it is one like others
    }
  }
}

TEST(BadText, HalvesOfSurrogatePairsAreCountedInOneWarning) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl",
                                        "{\"text\":\"some text\"}\n{\"text\":\"a\\ud800\\ud800 text\",\"b\":"
                                        "\"\\udc00\"}\n{\"text\":\"more \\ud834\\udd1e\"}\n");
  testing::internal::CaptureStderr();
  const Dataset dataset = prepare_dataset(settings(folder, {path}), {});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text_of(dataset, dataset.train) + text_of(dataset, dataset.validation),
            "some texta\xef\xbf\xbd\xef\xbf\xbd textmore 𝄞");
  EXPECT_TRUE(contains(said, "3 escapes in the JSON are halves of surrogate pairs"));
  EXPECT_TRUE(contains(said, "the first is at " + path + ":2"));
}

TEST(DataDir, ThatHoldsOtherFilesIsNeverReplaced) {
  const TemporaryFolder folder;
  const DataConfig config = settings(folder, {folder.write("a.txt", some_text())});
  folder.write("prepared/thesis.tex", "years of work");
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "thesis.tex"));
  EXPECT_EQ(read_file(folder / "prepared/thesis.tex"), "years of work");
}

TEST(DataDir, ThatIsAFileIsRefused) {
  const TemporaryFolder folder;
  const DataConfig config = settings(folder, {folder.write("a.txt", some_text())});
  folder.write("prepared", "x");
  EXPECT_TRUE(contains(input_error([&] { prepare_dataset(config, {}); }), "data.dir"));
}

TEST(DataDir, ThatIsEmptyIsFilled) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "prepared");
  EXPECT_GT(prepare_dataset(settings(folder, {folder.write("a.txt", some_text())}), {}).train.tokens, 0u);
  EXPECT_TRUE(nothing_left(folder, {"a.txt", "prepared"}));
}

}  // namespace
}  // namespace inkling
