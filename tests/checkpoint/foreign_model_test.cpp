// Model folders that other programs wrote.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_weights.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

StoredTensor stored(const at::Tensor& tensor, const std::string& dtype) {
  const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {dtype, {tensor.sizes().begin(), tensor.sizes().end()}, {bytes, bytes + tensor.nbytes()}};
}

// A folder with only config.json and model.safetensors.
class ForeignModel : public testing::Test {
 protected:
  ForeignModel() : loaded_(tiny_shape) {
    run_.save(folder());
    for (const char* name : {"config.yaml", "optimizer.safetensors", "state.json"}) fs::remove(folder() / name);
    loaded_.randomize(2);
  }

  fs::path folder() const { return temporary_ / "model"; }
  fs::path weights() const { return folder() / "model.safetensors"; }
  void load() { load_weights(folder(), read_shape(folder()), loaded_.arena); }

  void strip_prefix() {
    StoredTensors tensors(weights());
    for (const auto& [name, ignored] : StoredTensors(weights()).tensors) {
      tensors.rename(name, name.substr(std::string("transformer.").size()));
    }
    tensors.write(weights());
  }

  TemporaryFolder temporary_;
  TinyRun run_, loaded_;
};

TEST_F(ForeignModel, NamesWithoutPrefixAndMaskBuffersAreUnderstood) {
  strip_prefix();
  StoredTensors tensors(weights());
  for (const char* layer : {"h.0", "h.1"}) {
    tensors.tensors[layer + std::string(".attn.bias")] = {"U8", {1, 1, 6, 6}, std::vector<std::byte>(36)};
    tensors.tensors[layer + std::string(".attn.masked_bias")] = {"F32", {}, std::vector<std::byte>(4)};
  }
  tensors.write(weights());
  load();
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
}

TEST_F(ForeignModel, MaskBuffersBehindThePrefixAreSkippedToo) {
  StoredTensors tensors(weights());
  tensors.tensors["transformer.h.0.attn.bias"] = {"BOOL", {1, 1, 6, 6}, std::vector<std::byte>(36)};
  tensors.write(weights());
  load();
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
}

TEST_F(ForeignModel, CopyOfTheTiedHeadIsAccepted) {
  for (const bool prefixed : {true, false}) {
    run_.save(folder());
    if (!prefixed) strip_prefix();
    StoredTensors tensors(weights());
    tensors.tensors["lm_head.weight"] = tensors.tensors.at(prefixed ? "transformer.wte.weight" : "wte.weight");
    tensors.write(weights());
    loaded_.randomize(2);
    load();
    EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
  }
}

TEST_F(ForeignModel, HeadOfItsOwnIsRefused) {
  StoredTensors tensors(weights());
  StoredTensor head = tensors.tensors.at("transformer.wte.weight");
  head.bytes[100] ^= std::byte{1};
  tensors.tensors["lm_head.weight"] = head;
  tensors.write(weights());
  expect_refused([&] { load(); }, {"model.safetensors", "lm_head.weight", "tie_word_embeddings"});
}

TEST_F(ForeignModel, HalfPrecisionIsConverted) {
  for (const bool bfloat : {false, true}) {
    StoredTensors tensors(weights());
    for (const Parameter& parameter : run_.arena.parameters()) {
      const std::string& name = parameter.spec.name;
      const at::Tensor half = run_.arena.master(name).to(bfloat ? at::kBFloat16 : at::kHalf);
      tensors.tensors["transformer." + name] = stored(half, bfloat ? "BF16" : "F16");
    }
    tensors.write(weights());
    load();
    for (const Parameter& parameter : run_.arena.parameters()) {
      const std::string& name = parameter.spec.name;
      const at::Tensor half = run_.arena.master(name).to(bfloat ? at::kBFloat16 : at::kHalf);
      EXPECT_TRUE(same_bits(loaded_.arena.master(name), half.to(at::kFloat))) << name;
    }
  }
}

TEST_F(ForeignModel, ConfigNeedsOnlyTheSizes) {
  overwrite(folder() / "config.json",
            R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 6, "vocab_size": 11})");
  EXPECT_EQ(read_shape(folder()), tiny_shape);
}

TEST_F(ForeignModel, FormOfGeluFollowsTheConfig) {
  edit(folder() / "config.json", "\"gelu_new\"", "\"gelu\"");
  EXPECT_EQ(read_shape(folder()).activation, Activation::gelu);
  edit(folder() / "config.json", "\"gelu\"", "\"gelu_pytorch_tanh\"");
  EXPECT_EQ(read_shape(folder()).activation, Activation::gelu_tanh);
}

TEST_F(ForeignModel, ModelThatLearnedBiasesElsewhereIsRefused) {
  GptShape shape = tiny_shape;
  shape.bias = false;
  TinyRun without(shape);
  without.save(folder());
  StoredTensors tensors(weights());
  tensors.tensors.at("transformer.h.1.ln_2.bias").bytes[3] = std::byte{0x3f};
  tensors.write(weights());
  expect_refused([&] { load_weights(folder(), shape, without.arena); },
                 {"model.safetensors", "transformer.h.1.ln_2.bias", "config.json"});
}

// A folder as transformers makes it, of a Llama with grouped heads.
class ForeignLlama : public testing::Test {
 protected:
  static constexpr GptShape shape = {.n_layer = 2,
                                     .n_head = 4,
                                     .n_embd = 8,
                                     .block_size = 6,
                                     .vocab_size = 11,
                                     .bias = false,
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

TEST_F(ForeignLlama, BuffersOfAnglesAreLeftOut) {
  StoredTensors tensors(folder() / "model.safetensors");
  tensors.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {1}, std::vector<std::byte>(4)};
  tensors.write(folder() / "model.safetensors");
  load();
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
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

TEST_F(ForeignLlama, TheFamilyIsThatOfTheLayersHoweverTheListIsWritten) {
  GptShape other = shape;
  other.patterns = {{7, 1}, {7, 1}, {}};  // of two layers
  EXPECT_EQ(family_of(other), Family::mistral);
  other.patterns = {{}, {}, {7, 1}};
  EXPECT_EQ(family_of(other), Family::llama);
  other.patterns = {{7, 1}, {}};
  EXPECT_EQ(family_of(other), Family::inkling);
}

// Without the field a Mistral has 8, and a Qwen3 32.
TEST_F(ForeignLlama, NullHeadsOfKeysAreAsManyAsOfQueries) {
  nlohmann::json config = nlohmann::json::parse(read_file(folder() / "config.json"));
  for (const char* type : {"llama", "mistral", "qwen3"}) {
    config["model_type"] = type;
    if (std::string_view(type) == "qwen3") config.erase("attention_bias");
    config["num_key_value_heads"] = nullptr;
    overwrite(folder() / "config.json", config.dump());
    EXPECT_EQ(read_model_config(folder()).shape.attention().n_kv_head, 4) << type;
  }
}

TEST_F(ForeignLlama, WindowsOfAQwen3AreItsLayers) {
  using Patterns = std::vector<AttentionPattern>;
  set_fields({{"model_type", "qwen3"}, {"attention_bias", false}, {"sliding_window", 3}});
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
  refused({{"tie_word_embeddings", false}}, {"no tensor", "lm_head.weight"});
}

// Half of the tensors in either file, and an index that says which.
class SplitModel : public ForeignModel {
 protected:
  SplitModel() {
    StoredTensors whole(weights()), first = whole, second = whole;
    first.tensors.clear();
    second.tensors.clear();
    std::string map;
    for (const auto& [name, tensor] : whole.tensors) {
      const bool is_first = first.tensors.size() <= second.tensors.size();
      (is_first ? first : second).tensors[name] = tensor;
      map += str(map.empty() ? "" : ", ", quote(name), ": ", quote(is_first ? "1.safetensors" : "2.safetensors"));
    }
    first.write(folder() / "1.safetensors");
    second.write(folder() / "2.safetensors");
    fs::remove(weights());
    overwrite(folder() / "model.safetensors.index.json", str("{\"metadata\": {}, \"weight_map\": {", map, "}}"));
  }
};

TEST_F(SplitModel, IsReadFromAllItsFiles) {
  load();
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
}

TEST_F(SplitModel, WithATensorInTwoFilesIsRefused) {
  StoredTensors first(folder() / "1.safetensors"), second(folder() / "2.safetensors");
  const auto& [name, tensor] = *first.tensors.begin();
  second.tensors[name] = tensor;
  second.write(folder() / "2.safetensors");
  expect_refused([&] { load(); }, {"2.safetensors", name, "1.safetensors", "holds too"});
}

TEST_F(SplitModel, WithAFileOrATensorMissingIsRefused) {
  StoredTensors second(folder() / "2.safetensors");
  const std::string name = second.tensors.begin()->first;
  second.tensors.erase(name);
  second.write(folder() / "2.safetensors");
  expect_refused([&] { load(); }, {"1.safetensors", "no tensor", name});
  fs::remove(folder() / "2.safetensors");
  expect_refused([&] { load(); }, {"2.safetensors"});
}

TEST_F(SplitModel, WithAnIndexThatNamesNoFilesBesideItIsRefused) {
  const fs::path index = folder() / "model.safetensors.index.json";
  for (const char* text : {"{}", R"({"weight_map": {}})", R"({"weight_map": {"a": "../model/1.safetensors"}})",
                           R"({"weight_map": {"a": ""}})", R"({"weight_map": 3})"}) {
    overwrite(index, text);
    expect_refused([&] { load(); }, {index.string(), "weight_map"});
  }
}

TEST_F(ForeignModel, PickleIsRefusedWithTheReason) {
  fs::remove(weights());
  overwrite(folder() / "pytorch_model.bin", "x");
  expect_refused([&] { read_shape(folder()); }, {"pytorch_model.bin", "pickle", "safe_serialization=True"});
}

TEST_F(ForeignModel, WeightsThatAreNotThereAreNamedForWhatIsThereInstead) {
  fs::remove(weights());
  expect_refused([&] { read_shape(folder()); }, {"holds no model.safetensors; fetch it"});
  write_file(folder() / "adapter_config.json", "{}");
  expect_refused([&] { read_shape(folder()); }, {"an adapter (LoRA)", "merge_and_unload()"});
  expect_refused([&] { find_checkpoint(folder() / "config.json", ""); }, {"give the folder that holds them"});
}

TEST_F(ForeignModel, KeysThatAreNotKnownAreNamedInOneWarning) {
  edit(folder() / "config.json", "\"vocab_size\"", "\"first_new\": 1, \"second_new\": 2, \"vocab_size\"");
  testing::internal::CaptureStderr();
  const GptShape read = read_shape(folder());
  load_weights(folder(), read, loaded_.arena);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(said, "config.json: inkling does not know first_new, second_new"));
  EXPECT_EQ(said.find("first_new"), said.rfind("first_new")) << said;
}

// What a moved hub cache, a clone without Git LFS and a name in place of a folder come to, for whoever opens a model.
TEST_F(ForeignModel, PlacesThatOnlyLookLikeAModelAreCalledWhatTheyAre) {
  const fs::path place = temporary_ / "models--someone--small";
  fs::create_directories(place / "snapshots");
  fs::rename(folder(), place / "snapshots/abc");
  EXPECT_EQ(read_shape(find_checkpoint(place, "")), tiny_shape);
  expect_refused([&] { find_checkpoint(temporary_.path(), ""); }, {"the models in it: " + place.string()});
  fs::create_directories(place / "blobs");
  fs::rename(place / "snapshots/abc/model.safetensors", place / "blobs/1");
  fs::create_symlink("../../blobs/1", place / "snapshots/abc/model.safetensors");
  EXPECT_EQ(read_shape(find_checkpoint(place, "")), tiny_shape);
  overwrite(place / "blobs/1", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n");
  expect_refused([&] { read_shape(find_checkpoint(place, "")); }, {"model.safetensors is a Git LFS pointer"});
  fs::remove(place / "blobs/1");
  expect_refused([&] { find_checkpoint(place, ""); }, {"model.safetensors is a link to ../../blobs/1"});
  expect_refused([&] { find_checkpoint("someone/small", ""); }, {"no such folder", "hf download someone/small"});
}

}  // namespace
}  // namespace inkling
