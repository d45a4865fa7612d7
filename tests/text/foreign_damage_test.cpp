// Damaged files of folders made elsewhere: each is refused with its name, or read as another valid file.
#include <fstream>

#include "base/random.h"
#include "tests/text/sentencepiece_testing.h"
#include "text/bpe_files.h"
#include "text/bpe_trainer.h"

namespace inkling {
namespace {

constexpr const char* tokenizer_config = R"({
  "add_bos_token": true, "add_eos_token": false, "add_prefix_space": true, "legacy": false,
  "added_tokens_decoder": {"1": {"content": "</s>", "special": true}, "345": {"content": "<pad>", "special": true}},
  "bos_token": {"content": "<s>"}, "tokenizer_class": "LlamaTokenizer"})";

// Every file that is read beside a tokenizer.model, and the model itself.
void write_sentencepiece_folder(const TemporaryFolder& folder, PieceModel type) {
  folder.write("tokenizer.model", model_like_llama(type) + piece("<tag>", user_defined));
  folder.write("tokenizer_config.json", tokenizer_config);
  folder.write("special_tokens_map.json",
               R"({"eos_token": {"content": "</s>", "lstrip": false}, "pad_token": "<pad>"})");
  folder.write("added_tokens.json", R"({"<pad>": 345, "<s>": 340, "[extra]": 350})");
  folder.write("config.json", R"({"eos_token_id": 1, "model_type": "llama"})");
}

void write_bpe_folder(const TemporaryFolder& folder) {
  BpeTrainer trainer(Pattern::gpt2);
  trainer.add(sample_text(20));
  BpeVocabulary vocabulary = trainer.finish(300);
  vocabulary.added = {{300, "<s>"}, {301, "</s>"}};
  vocabulary.tokens.resize(302);
  folder.write("tokenizer.json", print_bpe_json(vocabulary));
  folder.write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<s>", "eos_token": "</s>"})");
}

// Every kind of tokenizer.json: bytes with a normal form and added tokens, characters, sentencepiece's unigram.
void write_json_folder(const TemporaryFolder& folder, int kind) {
  if (kind == 2) {
    train({.vocab_size = 300}, sample_text(20), true)->save(folder.path());
    fs::remove(folder / "tokenizer.model");
    fs::remove(folder / "inkling_tokenizer.json");
    return;
  }
  BpeTrainer trainer(Pattern::smollm2);
  trainer.add(sample_text(20));
  BpeVocabulary vocabulary = trainer.finish(280);
  vocabulary.composes = true;
  if (kind == 1) {
    vocabulary = {};
    auto& rules = vocabulary.characters.emplace();
    rules = {.space_signs = true, .prefix = PrefixSpace::first_unless_there};
    auto& spelled = rules.byte_tokens.emplace();
    for (Token byte = 0; byte < 256; ++byte) {
      spelled[byte] = byte;
      vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
    }
    for (const char* text : {" ", "t", "h", "e", "th", "the", " the"}) vocabulary.tokens.emplace_back(text);
    vocabulary.merges = {{257, 258, 260}, {260, 259, 261}, {256, 261, 262}};
  }
  const auto first = static_cast<Token>(vocabulary.tokens.size());
  vocabulary.added = {{first, "<s>"}, {.token = first + 1, .name = "<tag>", .special = false, .normalized = false}};
  vocabulary.first_token = first;
  vocabulary.tokens.resize(first + 2);
  folder.write("tokenizer.json", print_bpe_json(vocabulary));
}

// Opens the folder with these contents of one file. Returns whether it was refused.
bool refused(const TemporaryFolder& folder, const std::string& file, const std::string& contents) {
  fs::remove(folder / file);
  std::ofstream(folder / file, std::ios::binary | std::ios::trunc) << contents;  // which does not wait for the disk
  const auto error = error_of([&] {
    const auto tokenizer = load_tokenizer(folder.path());
    const std::string text = "the Animal\n\n <tag> \u4e2d\u6587 \u2581</s>";
    EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), str(tokenizer->prefix(), text));
    EXPECT_TRUE(tokenizer->first_token().value_or(0) < tokenizer->vocab_size());
    EXPECT_FALSE(tokenizer->hash().empty());
  });
  if (!error) return false;
  EXPECT_EQ(error->kind(), ErrorKind::input) << error->message();
  // A token can come to contradict what another file says of it, which then is the one that is named.
  EXPECT_TRUE(contains(error->message(), folder.path().string() + "/")) << error->message();
  if (!contains(error->message(), "elsewhere") && !contains(error->message(), "tokenizer.model")) {
    EXPECT_TRUE(contains(error->message(), file + ": ")) << error->message();
  }
  return true;
}

int count_refused_cuts(const TemporaryFolder& folder, const std::string& file) {
  const std::string whole = read_file(folder / file);
  int count = 0;
  for (std::size_t i = 0; i < 200; ++i) count += refused(folder, file, whole.substr(0, whole.size() * i / 200)) ? 1 : 0;
  EXPECT_FALSE(refused(folder, file, whole));
  return count;
}

int count_refused_flips(const TemporaryFolder& folder, const std::string& file) {
  const std::string whole = read_file(folder / file);
  int count = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    std::string flipped = whole;
    const std::uint64_t bit = random_below(random_key(7, Purpose::tokenizer_sample, 0), i, 8 * whole.size());
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    count += refused(folder, file, flipped) ? 1 : 0;
  }
  EXPECT_FALSE(refused(folder, file, whole));
  return count;
}

TEST(ForeignDamage, EveryCutOfAFileBesideAModelIsRefused) {
  const TemporaryFolder folder;
  write_sentencepiece_folder(folder, PieceModel::bpe);
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    EXPECT_EQ(count_refused_cuts(folder, file), 200) << file;
  }
  fs::remove(folder / "special_tokens_map.json");  // which is asked first
  EXPECT_EQ(count_refused_cuts(folder, "config.json"), 200);
}

TEST(ForeignDamage, AFlippedBitBesideAModelIsRefusedOrHarmless) {
  const TemporaryFolder folder;
  write_sentencepiece_folder(folder, PieceModel::bpe);
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    EXPECT_GT(count_refused_flips(folder, file), 100) << file;
  }
}

// What is left of a model without its settings removes spaces, as the library's default is; behind the settings come
// <s>, the prefix and <tag> in these models, each of which may be missing.
TEST(ForeignDamage, EveryCutOfAModelIsRefusedOrLeavesItsLastPiecesOut) {
  for (const PieceModel type : {PieceModel::bpe, PieceModel::unigram}) {
    const TemporaryFolder folder;
    write_sentencepiece_folder(folder, type);
    fs::remove(folder / "added_tokens.json");
    EXPECT_GE(count_refused_cuts(folder, "tokenizer.model"), 197);
  }
}

TEST(ForeignDamage, AFlippedBitOfAModelIsRefusedOrGivesAnotherModel) {
  for (const PieceModel type : {PieceModel::bpe, PieceModel::unigram}) {
    const TemporaryFolder folder;
    write_sentencepiece_folder(folder, type);
    const int count = count_refused_flips(folder, "tokenizer.model");
    EXPECT_GT(count, 100);
    EXPECT_LT(count, 500);
  }
}

TEST(ForeignDamage, TheConfigOfByteLevelBpeIsRefusedOrHarmless) {
  const TemporaryFolder folder;
  write_bpe_folder(folder);
  EXPECT_EQ(count_refused_cuts(folder, "tokenizer_config.json"), 200);
  EXPECT_GT(count_refused_flips(folder, "tokenizer_config.json"), 100);
}

TEST(ForeignDamage, EveryCutOfATokenizerJsonIsRefusedAndAFlippedBitOrHarmless) {
  for (const int kind : {0, 1, 2}) {
    const TemporaryFolder folder;
    write_json_folder(folder, kind);
    EXPECT_EQ(count_refused_cuts(folder, "tokenizer.json"), 200) << kind;
    EXPECT_GT(count_refused_flips(folder, "tokenizer.json"), 100) << kind;
  }
}

// Numbers that promise more than the file holds, and messages within messages without end.
TEST(ForeignDamage, AModelThatClaimsTooMuchTakesNoMemory) {
  const TemporaryFolder folder;
  const std::string endless = "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
  for (const std::string& model :
       {endless, std::string(1000, '\x0a'), std::string(1000, '\xff'), std::string(1000, '\0'),
        model_like_llama() + endless, std::string("IQ== 0\nIg== 1\n")}) {
    EXPECT_TRUE(refused(folder, "tokenizer.model", model));
  }
}

}  // namespace
}  // namespace inkling
