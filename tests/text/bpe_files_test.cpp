// Reading the files of tokenizers: what was written comes back, what is damaged is refused.
#include "text/bpe_files.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "tests/temporary_folder.h"
#include "text/bpe_encoder.h"
#include "text/bpe_trainer.h"
#include "text/bpe_vocabulary.h"

namespace inkling {
namespace {

BpeVocabulary learned(Pattern pattern = Pattern::gpt2) {
  BpeTrainer trainer(pattern);
  for (int i = 0; i < 50; ++i) trainer.add("the animal didn't cross the street because it was too tired, 1990\n\n");
  BpeVocabulary vocabulary = trainer.finish(300);
  vocabulary.added.push_back({static_cast<Token>(vocabulary.tokens.size()), "<|endoftext|>"});
  vocabulary.tokens.emplace_back();
  return vocabulary;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : digits[bits >> (18 - 6 * j) & 63];
  }
  return text;
}

// The same vocabulary in the files of each kind; returns what read_bpe() is to be given.
std::string write_vocabulary_and_merges(const TemporaryFolder& folder, const BpeVocabulary& vocabulary,
                                        const std::string& vocab = "vocab.json",
                                        const std::string& merges = "merges.txt") {
  std::string json = "{", lines = "#version: 0.2\n";
  const auto quoted = [](const std::string& text) {
    std::string result = "\"";
    for (const char c : text) (c == '"' || c == '\\' ? result += '\\' : result) += c;
    return result + "\"";
  };
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    const std::string& bytes = vocabulary.tokens[token];
    json += str(token > 0 ? ", " : "", quoted(bytes.empty() ? "<|endoftext|>" : bytes_to_signs(bytes)), ": ", token);
  }
  for (const Merge& merge : vocabulary.merges) {
    lines +=
        str(bytes_to_signs(vocabulary.tokens[merge.left]), " ", bytes_to_signs(vocabulary.tokens[merge.right]), "\n");
  }
  folder.write(merges, lines);
  folder.write(vocab, json + "}");
  return folder.path().string();
}

std::string write_ranks(const TemporaryFolder& folder, const BpeVocabulary& vocabulary) {
  std::string lines;
  for (std::size_t token = 0; token < vocabulary.tokens.size(); ++token) {
    if (!vocabulary.tokens[token].empty()) lines += str(base64(vocabulary.tokens[token]), " ", token, "\n");
  }
  return folder.write("ranks.tiktoken", lines);
}

std::vector<Token> tokens_of(const BpeVocabulary& vocabulary, std::string_view text) {
  std::vector<Token> tokens;
  BpeEncoder(vocabulary).encode(text, tokens);
  return tokens;
}

constexpr std::string_view example = "the animals' street \n\n didn't 12345 \u00e9\u4e2d <|endoftext|>  ";

TEST(BpeFiles, AVocabularyComesBackFromEachKindOfFile) {
  const BpeVocabulary vocabulary = learned();
  const std::vector<Token> expected = tokens_of(vocabulary, example);
  const TemporaryFolder folder, older, single, ranks;
  for (const std::string& path : {write_vocabulary_and_merges(folder, vocabulary),
                                  write_vocabulary_and_merges(older, vocabulary, "encoder.json", "vocab.bpe"),
                                  (folder / "merges.txt").string(), (older / "encoder.json").string(),
                                  single.write("tokenizer.json", print_bpe_json(vocabulary)), single.path().string()}) {
    const BpeVocabulary read = read_bpe(path);
    EXPECT_EQ(tokens_of(read, example), expected) << path;
    ASSERT_EQ(read.added.size(), 1u) << path;
    EXPECT_EQ(read.added[0].name, "<|endoftext|>");
    EXPECT_EQ(read.added[0].token, 300u);
    EXPECT_EQ(read.tokens, vocabulary.tokens) << path;
  }
  const BpeVocabulary read = read_bpe(write_ranks(ranks, vocabulary), Pattern::gpt2);
  EXPECT_EQ(tokens_of(read, example), expected);
  EXPECT_TRUE(read.words_are_tokens);
}

TEST(BpeFiles, HuggingFacesFileKeepsEveryPattern) {
  for (std::size_t i = 0; i < words_of<Pattern>.size(); ++i) {
    const auto pattern = static_cast<Pattern>(i);
    BpeVocabulary vocabulary = learned(pattern);
    vocabulary.words_are_tokens = pattern != Pattern::gpt2;
    vocabulary.composes = pattern == Pattern::qwen2;
    vocabulary.added.back().special = pattern != Pattern::qwen2;
    vocabulary.first_token = pattern == Pattern::llama3 ? std::optional(Token{300}) : std::nullopt;
    const TemporaryFolder folder;
    const BpeVocabulary read = read_bpe(folder.write("tokenizer.json", print_bpe_json(vocabulary)));
    EXPECT_EQ(read.pattern, pattern);
    EXPECT_EQ(read.words_are_tokens, vocabulary.words_are_tokens);
    EXPECT_EQ(read.first_token, vocabulary.first_token);
    EXPECT_EQ(print_bpe_json(read), print_bpe_json(vocabulary));
  }
}

// What a reader says of tokenizer.json with one text put in the place of another.
std::string refusal(const std::string& from, const std::string& to, std::optional<Pattern> pattern = {}) {
  std::string json = print_bpe_json(learned());
  const std::size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  json.replace(at, from.size(), to);
  const TemporaryFolder folder;
  return input_error([&] { read_bpe(folder.write("tokenizer.json", json), pattern); });
}

TEST(BpeFiles, WhatInklingDoesNotComputeIsNamed) {
  EXPECT_TRUE(contains(refusal("\"normalizer\": null", R"("normalizer": {"type": "NFKC"})"), "normalizer.type is"));
  EXPECT_TRUE(contains(refusal("\"add_prefix_space\": false", "\"add_prefix_space\": true"),
                       "pre_tokenizer.add_prefix_space is true"));
  EXPECT_TRUE(contains(refusal("\"use_regex\": true", "\"use_regex\": false"), "pre_tokenizer.use_regex is false"));
  EXPECT_TRUE(contains(refusal("\"type\": \"ByteLevel\"", "\"type\": \"Whitespace\""), "pre_tokenizer.type is"));
  EXPECT_TRUE(contains(refusal("\"type\": \"BPE\"", "\"type\": \"WordPiece\""), "model.type is"));
  EXPECT_TRUE(contains(refusal("\"dropout\": null", "\"dropout\": 0.1"), "model.dropout is 0.1"));
  EXPECT_TRUE(contains(refusal("\"byte_fallback\": false", "\"byte_fallback\": true"), "model.byte_fallback is true"));
  EXPECT_TRUE(contains(refusal("\"end_of_word_suffix\": null", "\"end_of_word_suffix\": \"</w>\""),
                       "model.end_of_word_suffix"));
  EXPECT_TRUE(contains(refusal("\"!\": 0", "\"\u4e2d\u6587\": 0"), "is not written in GPT-2's signs for bytes"));
  EXPECT_TRUE(contains(refusal("\"!\": 0", "\"!\": 1"), "two tokens have the number 1"));
  EXPECT_TRUE(contains(refusal("\"!\": 0", "\"\": 0"), "token 0 is empty"));
  EXPECT_TRUE(contains(refusal("\"!\": 0", "\"!\": 99999999"), "model.vocab.! is 99999999"));
  EXPECT_TRUE(contains(refusal("\"!\": 0", "\"!\": \"0\""), "model.vocab.! is"));
  EXPECT_TRUE(
      contains(refusal("\"lstrip\": false,\n   \"rstrip\": false,\n   \"normalized\": false,\n   \"special\": true",
                       "\"lstrip\": true, \"special\": false"),
               "added_tokens[0].lstrip is true"));
  EXPECT_TRUE(contains(refusal("\"!\": 0", "\"" + std::string(1025, 'a') + "\": 0"), "has 1025 bytes"));
  EXPECT_TRUE(contains(refusal("\"id\": 300", "\"id\": 3"), "has the number 300, and 3 in added_tokens"));
  EXPECT_TRUE(contains(refusal("\"merges\": [", "\"merges\": [\"q q\","),
                       "model.merges[0] merges \"q\" and \"q\", but \"qq\""));
  EXPECT_TRUE(contains(refusal("\"merges\": [", "\"merges\": [[\"q\", 1],"), "model.merges[0] is not two tokens"));
  EXPECT_TRUE(contains(refusal("\"post_processor\": null", R"("post_processor": {"type": "BertProcessing"})"),
                       "post_processor.type is"));
  EXPECT_TRUE(contains(refusal("\"version\"", "\"version\"", Pattern::llama3), "data.tokenizer.pattern"));
}

TEST(BpeFiles, LinesThatAreNoMergesOrRanksAreNamed) {
  const TemporaryFolder folder;
  const std::string path = write_vocabulary_and_merges(folder, learned());
  const std::string merges = read_file(folder / "merges.txt");
  const auto with_line = [&](const std::string& line) {
    folder.write("merges.txt", merges + line + "\n");
    return input_error([&] { read_bpe(path); });
  };
  const std::string place = "merges.txt:46: ";  // behind #version and 44 merges
  EXPECT_TRUE(contains(with_line("alone"), place + "a merge is two tokens"));
  EXPECT_TRUE(contains(with_line("q \u4e2d"), place + "a merge is two tokens"));
  EXPECT_TRUE(
      contains(with_line("q z"), place + "merges \"q\" and \"z\", but \"qz\" is no token of text in the vocabulary"));
  EXPECT_TRUE(contains(with_line("q \xff"), place + "this is not UTF-8"));
  fs::remove(folder / "merges.txt");
  EXPECT_TRUE(contains(input_error([&] { read_bpe(path); }), "merges.txt"));
  EXPECT_TRUE(contains(input_error([&] { read_bpe(TemporaryFolder().path()); }), "holds neither tokenizer.json nor"));

  const std::string ranks = write_ranks(folder, learned());
  EXPECT_TRUE(contains(input_error([&] { read_bpe(ranks); }), "data.tokenizer.pattern: gpt2, cl100k or llama3"));
  for (const char* line :
       {"IQ==", "IQ== x", "I?== 900", "IQ== -1", " 900", "IQ== 99999999", "cXp6eg== 5", "IQ== 900"}) {
    const std::string text = read_file(ranks);
    const std::string broken = folder.write("broken.tiktoken", str(line, "\n", text));
    EXPECT_TRUE(contains(input_error([&] { read_bpe(broken, Pattern::gpt2); }), "broken.tiktoken:")) << line;
  }
}

// A file of ranks says only which tokens there are; a file of 0.7 MB would have a list of merges of 333 MB.
TEST(BpeFiles, RanksWithMoreMergesThanAFileTakesAreRefused) {
  const TemporaryFolder folder;
  BpeVocabulary vocabulary;
  while (vocabulary.tokens.size() < 400) vocabulary.tokens.emplace_back(vocabulary.tokens.size() + 1, 'a');
  EXPECT_EQ(read_bpe(write_ranks(folder, vocabulary), Pattern::cl100k).merges.size(), 400u * 399 / 2);
  while (vocabulary.tokens.size() < 1000) vocabulary.tokens.emplace_back(vocabulary.tokens.size() + 1, 'a');
  const std::string message = input_error([&] { read_bpe(write_ranks(folder, vocabulary), Pattern::cl100k); });
  EXPECT_TRUE(contains(message, ".tiktoken: its tokens can be merged in so many ways")) << message;
}

struct Kind {
  const char* file;
  std::function<std::string(const TemporaryFolder&, const BpeVocabulary&)> write;
};

const Kind kinds[] = {
    {"tokenizer.json",
     [](const TemporaryFolder& folder, const BpeVocabulary& vocabulary) {
       return folder.write("tokenizer.json", print_bpe_json(vocabulary));
     }},
    {"vocab.json", [](const TemporaryFolder& folder,
                      const BpeVocabulary& vocabulary) { return write_vocabulary_and_merges(folder, vocabulary); }},
    {"merges.txt", [](const TemporaryFolder& folder,
                      const BpeVocabulary& vocabulary) { return write_vocabulary_and_merges(folder, vocabulary); }},
    {"ranks.tiktoken", write_ranks},
};

// A file that is cut is refused with its name, but where whole lines are missing at its end, a smaller vocabulary is
// left, which may be complete.
TEST(BpeFiles, EveryCutIsRefusedOrLeavesWholeLines) {
  for (const Kind& kind : kinds) {
    const TemporaryFolder folder;
    const std::string path = kind.write(folder, learned());
    const std::string whole = read_file(folder / kind.file);
    int refused = 0;
    for (std::size_t i = 0; i < 200; ++i) {
      const std::string cut = whole.substr(0, whole.size() * i / 200);
      folder.write(kind.file, cut);
      const auto error = error_of([&] { BpeEncoder{read_bpe(path, Pattern::gpt2)}; });
      if (!error) continue;
      ++refused;
      EXPECT_EQ(error->kind(), ErrorKind::input) << error->message();
      if (!contains(error->message(), "no token stands for the byte")) {
        EXPECT_TRUE(contains(error->message(), kind.file)) << error->message();
      }
    }
    const bool of_lines =
        std::string_view(kind.file) == "merges.txt" || std::string_view(kind.file) == "ranks.tiktoken";
    EXPECT_GE(refused, of_lines ? 100 : 200) << kind.file;
  }
}

TEST(BpeFiles, AFlippedBitIsRefusedOrGivesAnotherVocabulary) {
  for (const Kind& kind : kinds) {
    const TemporaryFolder folder;
    const std::string path = kind.write(folder, learned());
    const std::string whole = read_file(folder / kind.file);
    for (std::uint64_t i = 0; i < 500; ++i) {
      std::string flipped = whole;
      const std::uint64_t bit = random_below(random_key(7, Purpose::tokenizer_sample, 0), i, 8 * whole.size());
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      folder.write(kind.file, flipped);
      std::optional<BpeVocabulary> read;
      const auto error = error_of([&] {
        read = read_bpe(path, Pattern::gpt2);
        const std::vector<Token> tokens = tokens_of(*read, example);
        std::string text;
        for (const Token token : tokens) text += read->tokens[token];
        EXPECT_EQ(text, example) << "bit " << bit;
      });
      EXPECT_TRUE(!error || error->kind() == ErrorKind::input) << error->message();
    }
  }
}

TEST(BpeFiles, APickleIsRefusedWithTheCommandThatReadsIt) {
  const TemporaryFolder folder;
  const std::string path = folder.write("meta.pkl", "\x80\x04");
  EXPECT_TRUE(contains(input_error([&] { read_bpe(path, Pattern::gpt2); }), "scripts/from-nanogpt " + path));
}

TEST(ByteSigns, EachByteHasASignOfItsOwn) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(signs_to_bytes(bytes_to_signs(all)), all);
  EXPECT_EQ(bytes_to_signs(" a\n\x7f\xad\xff"), "\u0120a\u010a\u0121\u0143\u00ff");
  EXPECT_EQ(signs_to_bytes("\u0144"), std::nullopt);
  EXPECT_EQ(signs_to_bytes("a b"), std::nullopt);
  EXPECT_EQ(count_characters(bytes_to_signs(bytes_by_sign())), 256u);
}

}  // namespace
}  // namespace inkling
