// Weights that a run starts from, in a model with another block or more tokens.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// A saved model, and what a model of `shape` becomes that starts from it. Before, every value of that is 7.
class InitialWeights : public testing::Test {
 protected:
  void start(const GptShape& stored, const GptShape& shape) {
    saved_ = std::make_unique<TinyRun>(stored);
    saved_->randomize(1);
    saved_->save(folder_ / "model");
    started_ = std::make_unique<TinyRun>(shape);
    started_->arena.values().fill_(7);
    load_initial_weights(folder_ / "model", shape, started_->arena);
  }

  at::Tensor before(const std::string& name) const { return saved_->arena.master(name); }
  at::Tensor after(const std::string& name) const { return started_->arena.master(name); }

  void expect_the_same_but(const std::vector<std::string>& tables) const {
    for (const Parameter& parameter : saved_->arena.parameters()) {
      const std::string& name = parameter.spec.name;
      if (std::find(tables.begin(), tables.end(), name) != tables.end()) continue;
      EXPECT_TRUE(same_bits(before(name), after(name))) << name;
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<TinyRun> saved_, started_;
};

GptShape with(std::int64_t block_size, std::int64_t vocab_size, bool tied = true) {
  GptShape shape = tiny_shape;
  shape.block_size = block_size, shape.vocab_size = vocab_size, shape.tie_embeddings = tied;
  return shape;
}

TEST_F(InitialWeights, OfTheSameShapeAreAllTheSame) {
  start(tiny_shape, tiny_shape);
  expect_the_same_but({});
}

TEST_F(InitialWeights, LosePositionsBeyondAShorterBlock) {
  start(with(6, 11), with(4, 11));
  expect_the_same_but({"wpe.weight"});
  EXPECT_TRUE(same_bits(after("wpe.weight"), before("wpe.weight").narrow(0, 0, 4).contiguous()));
}

TEST_F(InitialWeights, LeavePositionsAsTheyAreThatTheyLack) {
  start(with(6, 11), with(9, 11));
  expect_the_same_but({"wpe.weight"});
  EXPECT_TRUE(same_bits(after("wpe.weight").narrow(0, 0, 6).contiguous(), before("wpe.weight")));
  EXPECT_TRUE(after("wpe.weight").narrow(0, 6, 3).eq(7).all().item<bool>());
}

TEST_F(InitialWeights, GiveAddedTokensTheMeanOfTheOthersInBothTables) {
  for (const bool tied : {true, false}) {
    start(with(6, 11, tied), with(6, 14, tied));
    expect_the_same_but({"wte.weight", "lm_head.weight"});
    for (const char* name : {"wte.weight", "lm_head.weight"}) {
      if (tied && std::string_view(name) != "wte.weight") continue;
      EXPECT_TRUE(same_bits(after(name).narrow(0, 0, 11).contiguous(), before(name)));
      const at::Tensor mean = before(name).to(at::kDouble).mean({0}).to(at::kFloat);
      for (std::int64_t row = 11; row < 14; ++row) {
        EXPECT_TRUE(same_bits(after(name)[row].contiguous(), mean)) << name << " " << row;
      }
    }
  }
}

TEST_F(InitialWeights, OfAnotherShapeOrWithMoreTokensAreRefused) {
  GptShape deeper = tiny_shape;
  deeper.n_layer = 3;
  expect_refused([&] { start(tiny_shape, deeper); }, {"config.json", "another shape"});
  expect_refused([&] { start(with(6, 11), with(6, 10)); }, {"config.json", "another shape"});
}

TEST_F(InitialWeights, ThatAreNotFiniteAreRefusedByName) {
  TinyRun run;
  run.save(folder_ / "model");
  StoredTensors tensors(folder_ / "model/model.safetensors");
  tensors.tensors.at("transformer.wpe.weight").bytes[3] = std::byte{0x7f};  // the first number: infinity or NaN
  tensors.tensors.at("transformer.wpe.weight").bytes[2] |= std::byte{0x80};
  tensors.write(folder_ / "model/model.safetensors");
  TinyRun other;
  expect_refused([&] { load_initial_weights(folder_ / "model", tiny_shape, other.arena); },
                 {"transformer.wpe.weight", "not finite"});
}

}  // namespace
}  // namespace inkling
