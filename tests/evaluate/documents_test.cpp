// The loss on texts against sums made by hand.
#include "evaluate/documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "tests/evaluate/by_hand.h"
#include "tests/generate/loaded_model.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

constexpr std::int64_t text_block = 20;

std::string random_text(std::size_t count, std::uint64_t seed) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "\n abcdefghijklmnopqrstuvwxyz"[random_below(seed, i, 28)];
  return text;
}

// What a document comes to by its definition: its tokens behind the token in front, which is not scored.
double nats_of(const LoadedModel& model, const std::string& text, std::size_t stride) {
  std::vector<Token> tokens = encode(*model.tokenizer, text);
  if (const auto front = token_in_front(*model.tokenizer)) tokens.insert(tokens.begin(), *front);
  return test::nats_by_strides(model.model->shape(), *model.arena, tokens, stride);
}

double allowed(const LoadedModel& model) { return test::logits_difference(model.model->shape(), text_block); }

class Documents : public testing::TestWithParam<bool> {
 protected:
  LoadedModel model = make_loaded_model(make_char_tokenizer(GetParam()), text_block);
  TemporaryFolder folder;
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutASeparator, Documents, testing::Bool());

TEST_P(Documents, AreScoredAloneFromTheTokenInFrontToTheirLast) {
  std::vector<std::string> texts;
  std::string lines;
  const std::size_t shortest = GetParam() ? 1 : 2;  // of which a token is scored
  for (const std::size_t length : {shortest, 5ul, 19ul, 20ul, 21ul, 47ul, 83ul}) {
    texts.push_back(random_text(length, length));
    std::string escaped;
    for (const char c : texts.back()) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
    lines += "{\"text\": \"" + escaped + "\"}\n";
  }
  write_file(folder / "texts.jsonl", lines);
  const std::size_t unscored = GetParam() ? 0 : 1;  // without a token in front there is none before the first
  for (const std::int64_t stride : {1, 13, 20}) {
    const TextEvaluation result =
        evaluate_text(model, {.files = {(folder / "texts.jsonl").string()}, .stride = stride});
    ASSERT_EQ(result.documents.size(), texts.size());
    double nats = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const DocumentScore& document = result.documents[i];
      const double expected = nats_of(model, texts[i], static_cast<std::size_t>(stride));
      EXPECT_NEAR(document.piece.nats, expected, allowed(model) * expected) << i << " by " << stride;
      EXPECT_EQ(document.piece.tokens, texts[i].size() - unscored);
      EXPECT_EQ(document.bytes, texts[i].size() - unscored);
      EXPECT_EQ(document.line, i + 1);
      nats += document.piece.nats;
    }
    EXPECT_NEAR(result.total.piece.nats, nats, 1e-12 * nats);
    EXPECT_NEAR(result.total.bits_per_byte(), nats / std::log(2.0) / static_cast<double>(result.total.bytes), 1e-9);
  }
}

TEST_P(Documents, OfManyPartsAreScoredAsAWhole) {
  GptShape shape = test::small_shape;
  shape.n_layer = shape.n_head = 1;
  shape.n_embd = 4;
  model = make_loaded_model(make_char_tokenizer(GetParam()), text_block, test_runtime(), shape);
  const std::string text = random_text(300'000, 3);  // two parts, and a window that spans both
  const std::string file = folder.write("long.txt", text);
  const TextEvaluation whole = evaluate_text(model, {.files = {file}});
  EXPECT_EQ(whole.documents.size(), 1u);
  EXPECT_EQ(whole.total.piece.tokens, text.size() - (GetParam() ? 0 : 1));

  // The windows are those of the tokens as one sequence.
  std::vector<Token> tokens = encode(*model.tokenizer, text);
  if (GetParam()) tokens.insert(tokens.begin(), *model.tokenizer->separator());
  std::vector<Passage> windows;
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += text_block) {
    const std::size_t end = std::min(tokens.size(), begin + text_block + 1);
    windows.push_back(
        {{tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.begin() + static_cast<std::ptrdiff_t>(end)}});
  }
  double nats = 0;
  for (const ScoredPiece& piece : score_passages(*model.model, model.runtime, windows)) nats += piece.nats;
  EXPECT_NEAR(whole.total.piece.nats, nats, allowed(model) * nats);
}

TEST(TextEvaluation, CountsBytesAndNotCharacters) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(true), text_block);
  const TemporaryFolder folder;
  const TextEvaluation result = evaluate_text(model, {.files = {folder.write("a.txt",
                                                                             "\xef\xbb\xbf"
                                                                             "né€𝄞\n")}});
  EXPECT_EQ(result.total.piece.tokens, 5u);
  EXPECT_EQ(result.total.bytes, 1u + 2 + 3 + 4 + 1);  // a byte order mark is no text
}

TEST(TextEvaluation, LeavesOutDocumentsWithoutAScoredToken) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(false), text_block);
  const TemporaryFolder folder;
  const std::string text(50, 'b');  // three pieces of block_size
  const std::string lines =
      folder.write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + text + "\"}\n{\"text\": \"\"}\n{\"text\": \"c\"}\n");
  const TextEvaluation result = evaluate_text(model, {.files = {lines}});
  const TextEvaluation alone = evaluate_text(model, {.files = {folder.write("alone.txt", text)}});
  ASSERT_EQ(result.documents.size(), 1u);
  EXPECT_EQ(result.documents[0].line, 2u);
  EXPECT_EQ(result.total.piece.tokens, 49u);
  EXPECT_EQ(result.total.bytes, 49u);
  EXPECT_EQ(result.total.piece.nats, alone.total.piece.nats);
  EXPECT_GT(alone.standard_error, 0);
  EXPECT_EQ(result.standard_error, alone.standard_error);  // as of a single document: over its pieces
}

TEST(TextEvaluation, HasAStandardErrorOverDocumentsOrOverPiecesOfOne) {
  const LoadedModel model = make_loaded_model(make_char_tokenizer(true), text_block);
  const TemporaryFolder folder;
  const std::string one = folder.write("one.txt", random_text(170, 1)),
                    two = folder.write("two.txt", random_text(90, 2));
  const std::string small = folder.write("small.txt", random_text(20, 2));
  const TextEvaluation both = evaluate_text(model, {.files = {one, two}});
  EXPECT_EQ(both.standard_error, loss_of({both.documents[0].piece, both.documents[1].piece}).standard_error);
  const double alone = evaluate_text(model, {.files = {one}}).standard_error;
  EXPECT_GT(alone, 0);
  // More context changes the losses a little, not how many independent pieces there are.
  EXPECT_NEAR(evaluate_text(model, {.files = {one}, .stride = 1}).standard_error, alone, alone / 2);
  EXPECT_TRUE(std::isnan(evaluate_text(model, {.files = {small}}).standard_error));
}

TEST(TextEvaluation, OfALossThatIsNoNumberNamesTheDocument) {
  const LoadedModel model =
      make_loaded_model(make_char_tokenizer(true), text_block, test_runtime(), test::modern_shape);
  const auto q = static_cast<std::int64_t>(encode(*model.tokenizer, "q").front());
  model.arena->weight("wte.weight").value[q].fill_(std::numeric_limits<float>::quiet_NaN());
  const TemporaryFolder folder;
  const std::string file = folder.write("texts.jsonl", "{\"text\": \"abc\"}\n\n{\"text\": \"abqc\"}\n");
  const auto error = error_of([&] { evaluate_text(model, {.files = {file}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::diverged);
  EXPECT_TRUE(contains(error->message(), "the model's answer to " + file + ":3 is not a number"));
}

}  // namespace
}  // namespace inkling
