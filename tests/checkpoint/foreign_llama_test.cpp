// Folders of a Llama and its relatives, Mistral, Qwen2 and Qwen3, that other programs wrote.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/random.h"
#include "base/strings.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

// A folder as transformers makes it, of a Llama with grouped heads.
class ForeignLlama : public testing::Test {
 protected:
  static constexpr GptShape shape = {.n_layer = 2,
                                     .n_head = 4,
                                     .n_embd = 8,
                                     .block_size = 6,
                                     .vocab_size = 11,
                                     .bias = Bias::none,
                                     .n_kv_head = 2,
                                     .activation = Activation::swiglu,
                                     .position = Position::rope,
                                     .norm = NormKind::rmsnorm};
  ForeignLlama() : run_(shape), loaded_(shape) {
    run_.save(folder());
    for (const char* name : {"config.yaml", "optimizer.safetensors", "state.json"}) fs::remove(folder() / name);
    loaded_.randomize(2);
  }

  fs::path folder() const { return temporary_ / "model"; }
  void load() { load_weights(folder(), read_shape(folder()), loaded_.arena); }
  // Writes config.json with these fields in place of its own; null removes one.
  void set_fields(const nlohmann::json& fields) {
    nlohmann::json config = nlohmann::json::parse(read_file(folder() / "config.json"));
    config.merge_patch(fields);
    overwrite(folder() / "config.json", config.dump());
  }

  TemporaryFolder temporary_;
  TinyRun run_, loaded_;
};

TEST_F(ForeignLlama, HasItsNamesAndShapes) {
  const StoredTensors stored(folder() / "model.safetensors");
  EXPECT_EQ(stored.tensors.size(), 2U + 2U * 9U);
  EXPECT_EQ(stored.tensors.at("model.layers.1.self_attn.k_proj.weight").shape, (std::vector<std::uint64_t>{4, 8}));
  EXPECT_EQ(stored.tensors.at("model.layers.0.mlp.gate_proj.weight").shape, (std::vector<std::uint64_t>{64, 8}));
  const auto config = nlohmann::json::parse(read_file(folder() / "config.json"));
  EXPECT_EQ(config.at("model_type"), "llama");
  EXPECT_EQ(config.at("rope_parameters").at("rope_theta"), config.at("rope_theta"));
  load();
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
}

TEST_F(ForeignLlama, NormsWithoutWeightsAreSavedAsOnes) {
  GptShape without = shape;
  without.norm_weights = false;
  TinyRun run(without);
  run.save(folder());
  EXPECT_EQ(nlohmann::json::parse(read_file(folder() / "config.json")).at("model_type"), "llama");
  EXPECT_EQ(read_shape(folder()), without);
  const std::string name = "model.layers.1.input_layernorm.weight";
  const std::vector<float> ones(8, 1.0f);
  StoredTensors tensors(folder() / "model.safetensors");
  std::vector<std::byte>& bytes = tensors.tensors.at(name).bytes;
  ASSERT_EQ(bytes.size(), ones.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes.data(), ones.data(), bytes.size()), 0);
  load_weights(folder(), without, run.arena);
  bytes[2] = std::byte{0x81};
  tensors.write(folder() / "model.safetensors");
  expect_refused([&] { load_weights(folder(), without, run.arena); }, {name, "not all 1", "norm_weights"});
}

TEST_F(ForeignLlama, BuffersOfAnglesArePassedOver) {
  StoredTensors tensors(folder() / "model.safetensors");
  for (const char* name : {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
                           "rotary_emb.inv_freq", "layers.1.self_attn.rotary_emb.cos_cached",
                           "model.layers.1.self_attn.rotary_emb.sin_cached", "model.layers.1.self_attn.attn.bias"}) {
    tensors.tensors[name] = {"F32", {1}, std::vector<std::byte>(4)};
  }
  tensors.write(folder() / "model.safetensors");
  load();
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
  tensors.tensors["model.layers.0.self_attn.rotary_emb.angles"] = {"F32", {1}, std::vector<std::byte>(4)};
  tensors.write(folder() / "model.safetensors");
  expect_refused([&] { read_shape(folder()); }, {"rotary_emb.angles", "no place"});
}

TEST_F(ForeignLlama, AnyOneOfTheFieldsOfRopeWillDo) {
  const auto theta = [&](const nlohmann::json& fields) {
    set_fields({{"rope_theta", nullptr}, {"rope_parameters", nullptr}, {"rope_scaling", nullptr}});
    set_fields(fields);
    return read_shape(folder()).rope_theta;
  };
  EXPECT_EQ(theta(nlohmann::json::object()), 10'000);
  EXPECT_EQ(theta({{"rope_theta", 500}}), 500);
  EXPECT_EQ(theta({{"rope_parameters", {{"rope_theta", 500}}}}), 500);
  EXPECT_EQ(theta({{"rope_scaling", {{"rope_type", "default"}, {"rope_theta", 500}}}}), 500);
  EXPECT_EQ(theta({{"rope_theta", 500}, {"rope_parameters", {{"rope_theta", 500}, {"rope_type", "default"}}}}), 500);
}

TEST_F(ForeignLlama, ScaledAnglesStandInEitherField) {
  const auto scaling = [&](const nlohmann::json& fields) {
    set_fields({{"rope_parameters", nullptr}, {"rope_scaling", nullptr}});
    set_fields(fields);
    return read_shape(folder()).rope_scaling;
  };
  const nlohmann::json numbers = {{"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4.5}};
  nlohmann::json llama3 = numbers;
  llama3.update({{"rope_type", "llama3"}, {"original_max_position_embeddings", 3}});
  RopeScaling expected = {.kind = ScalingKind::llama3, .factor = 8, .low = 1, .high = 4.5, .original = 3};
  EXPECT_EQ(scaling({{"rope_scaling", llama3}}), expected);
  EXPECT_EQ(scaling({{"rope_parameters", llama3}}), expected);
  EXPECT_EQ(scaling({{"rope_parameters", llama3}, {"rope_scaling", llama3}}), expected);
  EXPECT_EQ(scaling({{"rope_parameters", llama3}, {"rope_scaling", nlohmann::json::object()}}), expected);
  llama3.erase("original_max_position_embeddings");
  EXPECT_EQ(scaling({{"rope_scaling", llama3}, {"original_max_position_embeddings", 3}}), expected);
  set_fields({{"original_max_position_embeddings", nullptr}});
  expected.original = 6;  // the block's size, where nothing says it
  EXPECT_EQ(scaling({{"rope_scaling", llama3}}), expected);
  const RopeScaling linear = {.kind = ScalingKind::linear, .factor = 2};
  EXPECT_EQ(scaling({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}), linear);
  EXPECT_EQ(scaling({{"rope_scaling", {{"rope_type", "linear"}, {"type", "linear"}, {"factor", 2.0}}}}), linear);
}

TEST_F(ForeignLlama, ScaledAnglesAreSavedForTransformers4And5) {
  for (const char* text : {"linear 2.5", "llama3 32 1 4 8192"}) {
    GptShape scaled = shape;
    scaled.rope_scaling = read_rope_scaling(text).value.value();
    EXPECT_EQ(family_of(scaled), Family::llama);
    overwrite(folder() / "config.json", print_model_config({.shape = scaled, .family = Family::llama}, 0.0, {}));
    EXPECT_EQ(read_shape(folder()), scaled);
    auto config = nlohmann::json::parse(read_file(folder() / "config.json"));
    EXPECT_EQ(config["rope_parameters"].at("rope_theta"), config.at("rope_theta"));
    config["rope_parameters"].erase("rope_theta");
    EXPECT_EQ(config["rope_parameters"], config.at("rope_scaling"));
  }
}

TEST_F(ForeignLlama, ScalingsThatSayTooLittleOrDisagreeAreRefusedByTheirField) {
  const std::string whole = read_file(folder() / "config.json");
  const nlohmann::json good = {{"rope_type", "llama3"},
                               {"factor", 8.0},
                               {"low_freq_factor", 1.0},
                               {"high_freq_factor", 4.0},
                               {"original_max_position_embeddings", 3}};
  const auto refused = [&](const nlohmann::json& changes, const std::vector<std::string>& mentions) {
    nlohmann::json scaling = good;
    scaling.merge_patch(changes);  // null removes a field
    nlohmann::json config = nlohmann::json::parse(whole);
    config.erase("rope_parameters");
    config["rope_scaling"] = scaling;
    overwrite(folder() / "config.json", config.dump());
    expect_refused([&] { read_shape(folder()); }, mentions);
  };
  for (const char* name : {"factor", "low_freq_factor", "high_freq_factor"}) {
    refused({{name, nullptr}}, {str("rope_scaling.", name)});
    refused({{name, "8"}}, {str("rope_scaling.", name)});
    refused({{name, -1}}, {str("rope_scaling.", name, " is -1")});
  }
  refused({{"factor", 0.5}}, {"rope_scaling.factor is 0.5, and must be a number from 1"});
  refused({{"high_freq_factor", 1.0}}, {"rope_scaling.high_freq_factor is 1.0, and must be above low_freq_factor"});
  refused({{"original_max_position_embeddings", 0}}, {"rope_scaling.original_max_position_embeddings"});
  refused({{"type", "linear"}}, {"rope_scaling.rope_type is \"llama3\"", "rope_scaling.type is \"linear\""});
  overwrite(folder() / "config.json", whole);
  set_fields({{"rope_scaling", good}});
  expect_refused([&] { read_shape(folder()); }, {"rope_parameters says none, and rope_scaling llama3 8 1 4 3"});
  set_fields({{"rope_parameters", nullptr}, {"original_max_position_embeddings", 4}});
  expect_refused([&] { read_shape(folder()); }, {"rope_scaling.original_max_position_embeddings is 3", "must be 4"});
}

TEST_F(ForeignLlama, AMistralIsOneWithOneWindow) {
  using Patterns = std::vector<AttentionPattern>;
  const auto patterns = [&](const nlohmann::json& fields) {
    set_fields({{"sliding_window", nullptr}});
    nlohmann::json config = nlohmann::json::parse(read_file(folder() / "config.json"));
    config.update(fields);
    overwrite(folder() / "config.json", config.dump());
    return read_shape(folder()).patterns;
  };
  EXPECT_EQ(patterns({{"model_type", "mistral"}, {"sliding_window", 3}}), (Patterns{{3, 1}}));
  EXPECT_EQ(patterns({{"sliding_window", nullptr}}), Patterns{});
  EXPECT_EQ(patterns(nlohmann::json::object()), (Patterns{{4096, 1}}));  // what transformers leaves out
  expect_refused([&] { patterns({{"sliding_window", 0}}); }, {"sliding_window"});
}

TEST_F(ForeignLlama, AQwen2HasBiasesOfQueriesKeysAndValuesAlone) {
  GptShape qwen2 = shape;
  qwen2.bias = Bias::qkv;
  TinyRun run(qwen2), loaded(qwen2);
  run.save(folder());
  loaded.randomize(2);
  EXPECT_EQ(nlohmann::json::parse(read_file(folder() / "config.json")).at("model_type"), "qwen2");
  const StoredTensors stored(folder() / "model.safetensors");
  EXPECT_EQ(stored.tensors.size(), 2U + 2U * (9U + 3U));
  EXPECT_EQ(stored.tensors.at("model.layers.1.self_attn.v_proj.bias").shape, (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(read_shape(folder()), qwen2);
  load_weights(folder(), qwen2, loaded.arena);
  EXPECT_TRUE(same_bits(loaded.arena.values(), run.arena.values()));
  set_fields({{"attention_bias", false}, {"mlp_bias", true}});  // which transformers does not read
  EXPECT_EQ(read_shape(folder()), qwen2);
}

TEST_F(ForeignLlama, WindowsOfAQwen2AreSavedWhereTheyAreThoseOfTheLastLayers) {
  GptShape qwen2 = shape;
  qwen2.bias = Bias::qkv;
  for (const std::vector<AttentionPattern>& patterns :
       std::vector<std::vector<AttentionPattern>>{{}, {{3, 1}}, {{}, {3, 1}}}) {
    qwen2.patterns = patterns;
    ASSERT_EQ(family_of(qwen2), Family::qwen2);
    overwrite(folder() / "config.json", print_model_config({.shape = qwen2, .family = Family::qwen2}, 0.0, {}));
    EXPECT_EQ(read_model_config(folder()).shape, qwen2);
  }
  for (const std::vector<AttentionPattern>& patterns :
       std::vector<std::vector<AttentionPattern>>{{{3, 1}, {}}, {{3, 1}, {4, 1}}, {{3, 2}}}) {
    qwen2.patterns = patterns;
    EXPECT_EQ(family_of(qwen2), Family::inkling);
  }
}

TEST_F(ForeignLlama, BiasesThatNoFamilyHasAreSavedAsInklingsOwn) {
  GptShape other = shape;
  for (const Bias bias : {Bias::all, Bias::none, Bias::qkv}) {
    other.bias = bias;
    other.conv = 1;
    EXPECT_EQ(family_of(other), Family::inkling);
    overwrite(folder() / "config.json", print_model_config({.shape = other, .family = Family::inkling}, 0.0, {}));
    EXPECT_EQ(read_model_config(folder()).shape, other);
  }
  set_fields({{"bias", true}});
  EXPECT_EQ(read_model_config(folder()).shape.bias, Bias::all);
  set_fields({{"bias", "kv"}});
  expect_refused([&] { read_model_config(folder()); }, {"bias is \"kv\"", "true, false or \"qkv\""});
  other.conv = 0;
  other.qk_norm = true;
  EXPECT_EQ(unknown_elsewhere(other), std::vector<std::string>{"model.bias: qkv beside model.qk_norm: true"});
  GptShape gpt2 = tiny_shape;
  gpt2.bias = Bias::qkv;
  EXPECT_EQ(unknown_elsewhere(gpt2), std::vector<std::string>{"model.bias: qkv"});
}

TEST_F(ForeignLlama, TheFamilyIsThatOfTheLayersHoweverTheListIsWritten) {
  GptShape other = shape;
  other.patterns = {{7, 1}, {7, 1}, {}};  // of two layers
  EXPECT_EQ(family_of(other), Family::mistral);
  other.patterns = {{}, {}, {7, 1}};
  EXPECT_EQ(family_of(other), Family::llama);
  other.patterns = {{7, 1}, {}};
  EXPECT_EQ(family_of(other), Family::inkling);
}

// Without the field a Mistral has 8, and a Qwen 32.
TEST_F(ForeignLlama, NullHeadsOfKeysAreAsManyAsOfQueries) {
  nlohmann::json config = nlohmann::json::parse(read_file(folder() / "config.json"));
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    config["model_type"] = type;
    if (std::string_view(type) == "qwen3") config.erase("attention_bias");
    config["num_key_value_heads"] = nullptr;
    overwrite(folder() / "config.json", config.dump());
    EXPECT_EQ(read_model_config(folder()).shape.attention().n_kv_head, 4) << type;
  }
}

class ForeignQwen : public ForeignLlama, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ForeignQwen, testing::Values("qwen2", "qwen3"),
                         [](const auto& made) { return std::string(made.param); });

TEST_P(ForeignQwen, NeedsTheSizeOfAHead) {
  set_fields({{"model_type", GetParam()}});
  nlohmann::json config = nlohmann::json::parse(read_file(folder() / "config.json"));
  config["head_dim"] = nullptr;
  overwrite(folder() / "config.json", config.dump());
  expect_refused([&] { read_model_config(folder()); }, {"head_dim is null, and must be a number in a Qwen"});
}

TEST_P(ForeignQwen, WindowsAreItsLayers) {
  using Patterns = std::vector<AttentionPattern>;
  set_fields({{"model_type", GetParam()}, {"attention_bias", false}, {"sliding_window", 3}});
  const auto patterns = [&](const nlohmann::json& fields) {
    set_fields({{"layer_types", nullptr}, {"use_sliding_window", nullptr}, {"max_window_layers", nullptr}});
    set_fields(fields);
    return read_model_config(folder()).shape.patterns;
  };
  EXPECT_EQ(patterns(nlohmann::json::object()), Patterns{});
  EXPECT_EQ(patterns({{"use_sliding_window", true}}), Patterns{});  // behind the first 28 layers
  EXPECT_EQ(patterns({{"use_sliding_window", true}, {"max_window_layers", 1}}), (Patterns{{}, {3, 1}}));
  EXPECT_EQ(patterns({{"use_sliding_window", true}, {"layer_types", {"sliding_attention", "sliding_attention"}}}),
            (Patterns{{3, 1}}));
  expect_refused([&] { patterns({{"layer_types", {"full_attention", "sliding_attention"}}}); },
                 {"sliding_attention", "use_sliding_window"});
  expect_refused([&] { patterns({{"layer_types", {"full_attention"}}}); }, {"layer_types names 1 layers"});
  nlohmann::json config = nlohmann::json::parse(read_file(folder() / "config.json"));
  config.erase("layer_types");
  config.update({{"sliding_window", nullptr}, {"use_sliding_window", true}, {"max_window_layers", 0}});
  overwrite(folder() / "config.json", config.dump());
  EXPECT_EQ(read_model_config(folder()).shape.patterns, Patterns{});
  config["layer_types"] = {"full_attention", "sliding_attention"};
  overwrite(folder() / "config.json", config.dump());
  expect_refused([&] { read_model_config(folder()); }, {"sliding_attention", "sliding_window is null"});
}

TEST_F(ForeignLlama, WhatWouldBeComputedOtherwiseIsRefusedByItsField) {
  const std::string whole = read_file(folder() / "config.json");
  const auto refused = [&](const nlohmann::json& fields, const std::vector<std::string>& mentions) {
    set_fields(fields);
    expect_refused([&] { read_shape(folder()); }, mentions);
    overwrite(folder() / "config.json", whole);
  };
  refused({{"rope_theta", 500}}, {"rope_theta is 500", "rope_parameters.rope_theta is 10000"});
  refused({{"rope_scaling", {{"rope_theta", 500}}}}, {"rope_scaling.rope_theta is 500"});
  refused({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}, {"rope_scaling.type is \"dynamic\""});
  refused({{"rope_parameters", {{"rope_type", "yarn"}}}}, {"rope_parameters.rope_type is \"yarn\""});
  refused({{"rope_parameters", {{"rope_type", "longrope"}}}}, {"rope_parameters.rope_type is \"longrope\""});
  refused({{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}, {"rope_parameters", "layer"});
  refused({{"partial_rotary_factor", 0.5}}, {"partial_rotary_factor"});
  refused({{"hidden_act", "relu"}}, {"hidden_act", "relu"});
  refused({{"attention_bias", true}}, {"attention_bias", "mlp_bias"});
  refused({{"num_key_value_heads", 3}}, {"num_attention_heads 4", "num_key_value_heads 3"});
  refused({{"head_dim", 3}}, {"head_dim is 3", "even"});
  refused({{"layer_types", {"full_attention", "sliding_attention"}}}, {"layer_types", "sliding_attention"});
  refused({{"use_sliding_window", true}}, {"use_sliding_window"});
  refused({{"rms_norm_eps", 0}}, {"rms_norm_eps"});
  refused({{"tie_word_embeddings", false}}, {"no tensor", "lm_head.weight", "tie_word_embeddings"});
}

// What config.json and generation_config.json say of rotary positions and of the ends of texts, cut anywhere and with
// any bit flipped: it is refused, or read as another valid file.
TEST_F(ForeignLlama, DamagedSettingsAreRefusedOrReadAsOthers) {
  set_fields({{"eos_token_id", {7, 9}},
              {"rope_scaling",
               {{"rope_type", "llama3"},
                {"factor", 8.0},
                {"low_freq_factor", 1.0},
                {"high_freq_factor", 4.0},
                {"original_max_position_embeddings", 4}}},
              {"rope_parameters", nullptr}});
  overwrite(folder() / "generation_config.json", R"({"eos_token_id": [7, 9], "temperature": 0.6, "top_p": 0.9})");
  const auto is_refused = [&](const char* file, const std::string& contents) {
    overwrite(folder() / file, contents);
    testing::internal::CaptureStderr();  // a generation_config.json that is no JSON is warned of
    const auto error = error_of([&] {
      const KeptConfig kept = read_kept_config(folder());
      EXPECT_GT(read_shape(folder()).rope_scaling.factor, 0.9);
      EXPECT_TRUE(nlohmann::json::accept(print_generation_config({.first = 1, .last = 9}, kept)));
      read_generation_config(folder(), shape.vocab_size);
    });
    testing::internal::GetCapturedStderr();
    if (!error) return false;
    EXPECT_EQ(error->kind(), ErrorKind::input) << error->message();
    EXPECT_TRUE(contains(error->message(), folder().string())) << error->message();
    return true;
  };
  for (const char* file : {"config.json", "generation_config.json"}) {
    const std::string whole = read_file(folder() / file);
    for (std::size_t i = 0; i < 200; ++i) EXPECT_TRUE(is_refused(file, whole.substr(0, whole.size() * i / 200))) << i;
    int refused = 0;
    for (std::uint64_t i = 0; i < 500; ++i) {
      std::string flipped = whole;
      const std::uint64_t bit = random_below(random_key(7, Purpose::tokenizer_sample, 0), i, 8 * whole.size());
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      refused += is_refused(file, flipped) ? 1 : 0;
    }
    EXPECT_GT(refused, 100) << file;
    EXPECT_FALSE(is_refused(file, whole));
  }
}

}  // namespace
}  // namespace inkling
