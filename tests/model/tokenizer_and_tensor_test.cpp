// sentencepiece brings its own protobuf and LibTorch brings another: they must not meet.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/gpt.h"
#include "tests/model/small_model.h"
#include "text/build_tokenizer.h"

namespace inkling::test {
namespace {

TEST(OneProcess, RunsBothASentencepieceTokenizerAndAModel) {
  SentencepieceTrainer trainer({.vocab_size = 300});
  for (int i = 0; i < 200; ++i) {
    trainer.add("The animal didn't cross the street because it was too " + std::string(i % 2 == 0 ? "tired" : "wide") +
                ", so it rested " + std::to_string(i) + " hours.\n");
  }
  const auto tokenizer = trainer.finish(true);
  const std::string text = "The street didn't cross the animal.\n";
  const std::vector<Token> tokens = encode(*tokenizer, text);
  const std::vector<std::int64_t> ids(tokens.begin(), tokens.end());

  const SmallModel model =
      make_small_model({.n_layer = 1, .n_head = 2, .n_embd = 16, .block_size = 64, .vocab_size = 300});
  const at::Tensor logits = model.model->logits(at::tensor(ids, at::kLong).view({1, -1}));
  EXPECT_EQ(logits.size(2), 300);
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  EXPECT_EQ(decode(*tokenizer, tokens), text);
}

}  // namespace
}  // namespace inkling::test
