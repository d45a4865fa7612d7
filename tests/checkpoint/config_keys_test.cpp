// Each key of config.json that shapes a model is used or refused, and no other stands in the way.
#include "checkpoint/config_keys.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

using Json = nlohmann::json;

// A folder's config.json, changed key by key.
class ConfigFile : public testing::Test {
 protected:
  // As inkling writes it, with what else the family's keys can say.
  static Json good_config(Family family) {
    GptShape shape = tiny_shape;
    if (family != Family::gpt2) {
      shape.n_kv_head = 1, shape.bias = Bias::none;
      shape.norm = NormKind::rmsnorm, shape.position = Position::rope, shape.activation = Activation::swiglu;
      shape.tie_embeddings = false, shape.qk_norm = family == Family::qwen3;
    }
    if (family == Family::qwen2) shape.bias = Bias::qkv;
    if (family == Family::inkling) shape.bias = Bias::all;
    if (family == Family::mistral) shape.patterns = {{3, 1}};
    if (family == Family::inkling) shape.patterns = {{}, {3, 1}};
    EXPECT_EQ(family_of(shape), family);
    Json config = Json::parse(print_model_config({.shape = shape, .family = family}, 0.1, {}));
    if (family == Family::qwen2 || family == Family::qwen3) {
      config.update({{"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}});
    }
    if (family == Family::gpt2) return config;
    config.erase("rope_parameters");  // which would have to change with rope_theta
    config["rope_scaling"] = {
        {"rope_type", "llama3"}, {"factor", 2.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
    return config;
  }

  // Another value for a key: of its own where it is not in the file or is a word, else the next number or the other
  // flag.
  static Json other_value(const std::string& name, Family family, const Json& config) {
    static const std::map<std::string, Json> values = {
        {"model_type", "bert"},
        {"activation_function", "relu"},
        {"hidden_act", "gelu"},
        {"activation", "relu"},
        {"norm", "layernorm"},
        {"position", "none"},
        {"attention", {"full", "local 2"}},
        {"n_inner", 12},
        {"hidden_size", 9},
        {"max_position_embeddings", 5},
        {"num_attention_heads", 1},
        {"num_hidden_layers", 1},
        {"rope_parameters", {{"rope_theta", 500.0}}},
        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
        {"original_max_position_embeddings", 4},
        {"partial_rotary_factor", 0.5},
        {"layer_types", {"full_attention", "chunked_attention"}},
    };
    if (name == "inkling") return {{family == Family::gpt2 ? "bias" : "norm_weights", false}};
    if (name == "sliding_window" && family != Family::qwen2 && family != Family::qwen3) return 2;
    if (name == "use_sliding_window") return family == Family::llama;
    if (const auto found = values.find(name); found != values.end()) return found->second;
    const Json value = config.value(name, Json());
    if (value.is_boolean()) return !value.get<bool>();
    if (value.is_number_integer()) return value.get<int>() + 1;
    if (value.is_number()) return value.get<double>() + 0.5;
    ADD_FAILURE() << "no other value is known for " << name;
    return nullptr;
  }

  ModelDescription read(const Json& config) const {
    overwrite(folder_ / "config.json", config.dump());
    return read_model_config(folder_.path());
  }

  TemporaryFolder folder_;
};

class ConfigKeys : public ConfigFile, public testing::WithParamInterface<Family> {
 protected:
  ModelDescription read_with(const std::string& name, const Json& value) const {
    Json config = good_config(GetParam());
    config[name] = value;
    return read(config);
  }

  // Refused by the key's name, or another model.
  void expect_heeded(const std::string& name, const Json& value) const {
    const GptShape shape = read(good_config(GetParam())).shape;
    const std::string what = str(name, ": ", value.dump());
    const auto error = error_of([&] { EXPECT_NE(read_with(name, value).shape, shape) << what << " is ignored"; });
    if (error) {
      EXPECT_TRUE(contains(error->message(), name)) << what;
    }
  }

  bool has_family(const ConfigKey& key) const { return key.families.find(letter_of(GetParam())) != std::string::npos; }
};

TEST_P(ConfigKeys, ThatShapeAModelAreUsedOrRefused) {
  const Json config = good_config(GetParam());
  for (const ConfigKey& key : config_keys()) {
    if (key.use == KeyUse::read && has_family(key)) {
      expect_heeded(std::string(key.name), other_value(std::string(key.name), GetParam(), config));
    }
  }
}

TEST_P(ConfigKeys, OfWhichOneValueIsComputedAreRefusedWithAnyOther) {
  const GptShape shape = read(good_config(GetParam())).shape;
  for (const ConfigKey& key : config_keys()) {
    if (key.use != KeyUse::fixed || !has_family(key)) continue;
    const std::string name(key.name);
    const Json value = Json::parse(key.value);
    for (const Json& fits : {value, Json()}) {
      EXPECT_EQ(read_with(name, fits).shape, shape) << name;
      EXPECT_TRUE(read_with(name, fits).unknown_keys.empty()) << name;
    }
    const Json other = value.is_boolean() ? Json(!value.get<bool>()) : Json{{"0", 1}};
    expect_refused([&] { read_with(name, other); }, {"config.json", name + " is ", "as it was published"});
  }
}

TEST_P(ConfigKeys, ThatShapeNothingPassAndUnknownOnesAreNamed) {
  const GptShape shape = read(good_config(GetParam())).shape;
  std::vector<std::string> idle = {"attention_dropout", "resid_pdrop", "initializer_range", "pretraining_tp",
                                   "summary_type",      "n_ctx",       "num_beams",         "_name_or_path"};
  for (const ConfigKey& key : config_keys()) {
    if (key.use == KeyUse::nothing && has_family(key)) idle.emplace_back(key.name);
  }
  for (const std::string& name : idle) {
    const ModelDescription model = read_with(name, 3);
    EXPECT_EQ(model.shape, shape) << name;
    EXPECT_TRUE(model.unknown_keys.empty()) << name;
  }
  EXPECT_EQ(read_with("sclae_attn_weights", false).unknown_keys, std::vector<std::string>{"sclae_attn_weights"});
  EXPECT_TRUE(read_with("something_new", nullptr).unknown_keys.empty());
}

TEST_P(ConfigKeys, ThatInklingWritesAreKnown) {
  for (const bool bias : {false, true}) {
    GptShape shape = read(good_config(GetParam())).shape;
    shape.norm_weights = shape.norm == NormKind::layernorm;
    if (GetParam() == Family::gpt2 || GetParam() == Family::llama) shape.bias = bias ? Bias::all : Bias::none;
    const Family family = family_of(shape);
    overwrite(folder_ / "config.json",
              print_model_config({.shape = shape, .family = family}, 0.1, {.first = 1, .last = 2}));
    const ModelDescription model = read_model_config(folder_.path());
    EXPECT_TRUE(model.unknown_keys.empty()) << join(model.unknown_keys, ", ");
    EXPECT_EQ(model.shape, shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ConfigKeys,
                         testing::Values(Family::gpt2, Family::llama, Family::mistral, Family::qwen2, Family::qwen3,
                                         Family::inkling),
                         [](const auto& made) { return std::string(1, letter_of(made.param)); });

class ConfigKeysOfRope : public ConfigKeys {};
INSTANTIATE_TEST_SUITE_P(Families, ConfigKeysOfRope,
                         testing::Values(Family::llama, Family::mistral, Family::qwen2, Family::qwen3),
                         [](const auto& made) { return std::string(1, letter_of(made.param)); });

TEST_P(ConfigKeysOfRope, SynonymsOfActivationsAreThoseOfTransformers) {
  EXPECT_EQ(read_with("hidden_act", "swish").shape.activation, Activation::swiglu);
  EXPECT_EQ(read_with("hidden_act", "silu").shape.activation, Activation::swiglu);
  EXPECT_EQ(read_with("hidden_act", "gelu_python").shape.activation, Activation::geglu);
  expect_refused([&] { read_with("hidden_act", "gelu_pytorch_tanh"); },
                 {"hidden_act is \"gelu_pytorch_tanh\"", "swish"});
}

// transformers lets rope_scaling replace rope_parameters, with 10,000 where it names no theta.
TEST_P(ConfigKeysOfRope, FieldsOfRopeThatAreOfNoUseAreNamed) {
  Json config = good_config(GetParam());
  config.erase("rope_theta");
  config["rope_scaling"] = {{"type", "default"}, {"factor", 2.0}};
  EXPECT_EQ(read(config).unknown_keys, std::vector<std::string>{"rope_scaling.factor"});
  config["rope_parameters"] = {{"rope_theta", 500.0}};
  expect_refused([&] { read(config); }, {"rope_parameters.rope_theta is 500", "rope_scaling's usual theta is 10000"});
  config["rope_scaling"] = Json::object();
  EXPECT_EQ(read(config).shape.rope_theta, 500);
}

TEST_F(ConfigFile, SizesOfAGpt2MayHaveTheNamesOfOtherFamilies) {
  Json config = good_config(Family::gpt2);
  const GptShape shape = read(config).shape;
  for (const auto& [name, other] :
       {std::pair("n_layer", "num_hidden_layers"), std::pair("n_head", "num_attention_heads"),
        std::pair("n_embd", "hidden_size"), std::pair("n_positions", "max_position_embeddings")}) {
    config[other] = config[name];
    EXPECT_EQ(read(config).shape, shape) << other;
    config.erase(name);
    EXPECT_EQ(read(config).shape, shape) << other;
  }
  config["n_head"] = 4;
  expect_refused([&] { read(config); }, {"n_head is 4, and num_attention_heads is 2"});
  config.erase("n_head");
  for (const char* name : {"gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh", "gelu_pytorch_tanh"}) {
    config["activation_function"] = name;
    EXPECT_EQ(read(config).shape.activation, Activation::gelu_tanh) << name;
  }
  config["activation_function"] = "quick_gelu";
  expect_refused([&] { read(config); }, {"activation_function is \"quick_gelu\""});
}

// As transformers 5 opens them: as a Ministral, whose layers are what layer_types says.
TEST_F(ConfigFile, LayerTypesOfAMistralSayWhichLayersHaveItsWindow) {
  using Patterns = std::vector<AttentionPattern>;
  Json config = good_config(Family::mistral);
  const auto patterns = [&](const Json& types) {
    config["layer_types"] = types;
    return read(config).shape.patterns;
  };
  EXPECT_EQ(patterns({"full_attention", "sliding_attention"}), (Patterns{{}, {3, 1}}));
  EXPECT_EQ(patterns({"full_attention", "full_attention"}), Patterns{});
  EXPECT_EQ(patterns({"attention", "full_attention"}), Patterns{}) << "an older name";
  EXPECT_EQ(patterns({"sliding_attention", "sliding_attention"}), (Patterns{{3, 1}}));
  EXPECT_EQ(patterns(nullptr), (Patterns{{3, 1}}));
  expect_refused([&] { patterns({"full_attention"}); }, {"layer_types names 1 layers"});
  config["sliding_window"] = nullptr;
  expect_refused([&] { patterns({"full_attention", "sliding_attention"}); }, {"sliding_window is null"});
}

// Those of transformers 5.20 for models that it makes.
TEST_F(ConfigFile, ThatTransformersWritesAreKnown) {
  const Json common = {{"dtype", "float32"},     {"initializer_range", 0.02}, {"pad_token_id", 3},
                       {"use_cache", true},      {"attention_dropout", 0.0},  {"transformers_version", "5.20.2"},
                       {"bos_token_id", 1},      {"eos_token_id", {1, 2}},    {"architectures", {"SomeForCausalLM"}},
                       {"pretraining_tp", 1},    {"output_attentions", true}, {"id2label", {{"0", "a"}}},
                       {"rope_scaling", nullptr}};
  for (const Family family : {Family::gpt2, Family::llama, Family::mistral, Family::qwen2, Family::qwen3}) {
    Json config = good_config(family);
    config.erase("rope_scaling");
    const GptShape shape = read(config).shape;
    config.update(common);
    EXPECT_EQ(read(config).shape, shape);
    EXPECT_TRUE(read(config).unknown_keys.empty()) << join(read(config).unknown_keys, ", ");
  }
}

}  // namespace
}  // namespace inkling
