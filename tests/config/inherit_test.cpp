// What a run that starts from weights takes from them, and what it refuses.
#include <algorithm>

#include "config/resume_policy.h"
#include "tests/config/config_testing.h"

namespace inkling {
namespace {

GptShape stored_shape() {
  GptShape shape;
  shape.n_layer = 12, shape.n_head = 12, shape.n_embd = 768, shape.block_size = 1024, shape.vocab_size = 50257;
  shape.position = Position::rope;
  shape.norm = NormKind::rmsnorm;
  shape.bias = Bias::none;
  shape.patterns = {AttentionPattern{128, 1}, AttentionPattern{}};
  return shape;
}

Config inherited(const std::string& model, const std::vector<std::string>& flags = {}) {
  Config config = parse_config("data: {source: a.txt}\nmodel:\n  init_from: models/x\n" + model, "run.yaml", flags);
  inherit_shape(config, stored_shape(), "models/x");
  return config;
}

std::string refusal(const std::string& model, const std::vector<std::string>& flags = {}) {
  try {
    inherited(model, flags);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.message();
  }
  return "accepted";
}

TEST(InheritedShape, WhatIsLeftOutOrAutoIsTheModels) {
  for (const char* model :
       {"", "  n_kv_head: auto\n  n_inner: auto\n", "  n_layer: 12\n  n_kv_head: 12\n  n_inner: 3072\n"}) {
    GptShape shape = inherited(model).model;
    shape.vocab_size = 50257;
    EXPECT_EQ(shape, stored_shape()) << model;
  }
}

TEST(InheritedShape, TheBlockIsTheRunsOwnChoiceAndSoIsDropout) {
  const Config config = inherited("  block_size: 64\n  dropout: 0.2\n");
  EXPECT_EQ(config.model.block_size, 64);
  EXPECT_EQ(config.model.dropout, 0.2);
}

TEST(InheritedShape, WhatSaysOtherwiseIsRefusedWhereItStands) {
  EXPECT_EQ(refusal("  n_layer: 6\n"),
            "run.yaml:4:12: model.n_layer is 6, and the weights in models/x (model.init_from) have 12; leave it out");
  EXPECT_EQ(refusal("", {"model.attention=full"}),
            "--set model.attention=full: model.attention is full, and the weights in models/x (model.init_from) have "
            "[\"local 128\", full]; leave it out");
  EXPECT_EQ(refusal("  n_kv_head: 4\n"),
            "run.yaml:4:14: model.n_kv_head is 4, and the weights in models/x (model.init_from) have auto; leave it "
            "out");
}

TEST(InheritedShape, EverySettingOfTheShapeIsComparedButTheBlock) {
  // A value of each that stored_shape() has not.
  const std::vector<std::string> others = {"n_layer: 1",
                                           "n_head: 6",
                                           "n_embd: 12",
                                           "n_kv_head: 3",
                                           "head_size: 2",
                                           "n_inner: 1",
                                           "bias: true",
                                           "qk_norm: true",
                                           "tie_embeddings: false",
                                           "logit_softcap: 30",
                                           "activation: relu",
                                           "position: none",
                                           "rope_theta: 500000",
                                           "rope_scaling: linear 2",
                                           "norm: layernorm",
                                           "norm_epsilon: 1e-6",
                                           "attention: local 128",
                                           "norm_weights: false",
                                           "embedding_norm: true",
                                           "conv: 4"};
  for (const std::string& other : others) {
    EXPECT_NE(refusal("  " + other + "\n").find("leave it out"), std::string::npos) << other;
  }
  const std::string printed = print_config(inherited(""));
  const auto begin = printed.find("\nmodel:\n") + 8, end = printed.find("\noptimizer:\n") + 1;
  const auto settings = std::count(printed.begin() + static_cast<std::ptrdiff_t>(begin),
                                   printed.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  EXPECT_EQ(others.size() + 4, static_cast<std::size_t>(settings))
      << "a setting of model: is neither above nor init_from, initialization, block_size or dropout";
}

TEST(InheritedShape, ACompletedConfigReadsBackAsItself) {
  const Config config = inherited("  block_size: 64\n");
  Config again = parse_config(print_config(config), "kept.yaml", {});
  inherit_shape(again, stored_shape(), "models/x");
  EXPECT_TRUE(compare_configs(config, again).empty());
}

TEST(InheritedShape, SettingsNeedNotFitTheDefaultsOfWhatIsLeftOut) {
  Config config = parse_config("data: {source: a.txt}\nmodel: {init_from: models/x, n_embd: 80}\n", "run.yaml", {});
  GptShape stored;
  stored.n_embd = 80, stored.n_head = 10;  // the default's 6 heads do not divide 80
  inherit_shape(config, stored, "models/x");
  EXPECT_EQ(config.model.n_head, 10);
}

}  // namespace
}  // namespace inkling
