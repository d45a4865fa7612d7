// Model folders that other programs wrote.
#include <gtest/gtest.h>

#include <algorithm>
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

TEST_F(ForeignModel, NamesWithoutPrefixAreUnderstood) {
  strip_prefix();
  load();
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
}

TEST_F(ForeignModel, MasksAndAnglesThatOlderProgramsStoredArePassedOver) {
  for (const bool prefixed : {true, false}) {
    run_.save(folder());
    if (!prefixed) strip_prefix();
    StoredTensors tensors(weights());
    const StoredTensor buffer = {"BOOL", {1, 1, 6, 6}, std::vector<std::byte>(36)};
    for (const char* prefix : {"", "transformer."}) {
      for (const char* name : {"h.0.attn.bias", "h.1.attn.masked_bias", "h.1.attn.rotary_emb.cos_cached"}) {
        tensors.tensors[str(prefix, name)] = buffer;
      }
    }
    tensors.write(weights());
    loaded_.randomize(2);
    testing::internal::CaptureStderr();
    load();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(contains(said, "passing over 6 tensors"));
    EXPECT_EQ(said.find("passing over"), said.rfind("passing over")) << said;
    EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
    tensors.tensors[prefixed ? "transformer.h.0.attn.biases" : "h.0.attn.biases"] = buffer;
    tensors.write(weights());
    expect_refused([&] { read_shape(folder()); }, {"h.0.attn.biases", "no place"});
  }
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

// Stores a head that differs from the token table in one bit, in a file of these weights.
StoredTensor add_other_head(const fs::path& file) {
  StoredTensors tensors(file);
  StoredTensor head = tensors.tensors.at("transformer.wte.weight");
  head.bytes[100] ^= std::byte{1};
  tensors.tensors["lm_head.weight"] = head;
  tensors.write(file);
  return head;
}

// As transformers 5 does, whatever config.json says of tie_word_embeddings.
TEST_F(ForeignModel, HeadThatIsNotTheTokenTableIsUsed) {
  const StoredTensor head = add_other_head(weights());
  GptShape untied = tiny_shape;
  untied.tie_embeddings = false;
  testing::internal::CaptureStderr();
  EXPECT_EQ(read_shape(folder()), untied);
  TinyRun loaded(untied);
  loaded.randomize(2);
  load_weights(folder(), untied, loaded.arena);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(said, "lm_head.weight is not the token table"));
  EXPECT_EQ(said.find("lm_head"), said.rfind("lm_head")) << said;
  EXPECT_EQ(stored(loaded.arena.master("lm_head.weight"), "F32").bytes, head.bytes);
  EXPECT_TRUE(same_bits(loaded.arena.master("wte.weight"), run_.arena.master("wte.weight")));
  expect_refused([&] { load_weights(folder(), tiny_shape, loaded_.arena); }, {"another shape"});
  testing::internal::CaptureStderr();
  loaded.save(folder());
  EXPECT_EQ(read_shape(folder()), untied);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ForeignModel, HeadOfATableOfZerosMayHaveTheirOtherSign) {
  StoredTensors tensors(weights());
  StoredTensor& table = tensors.tensors.at("transformer.wte.weight");
  std::ranges::fill(table.bytes, std::byte{0});
  StoredTensor head = table;
  head.bytes[3] = std::byte{0x80};
  tensors.tensors["lm_head.weight"] = head;
  tensors.write(weights());
  EXPECT_EQ(read_shape(folder()), tiny_shape);
}

TEST_F(ForeignModel, AnAverageHasTheHeadThatItsModelHas) {
  const fs::path average = folder() / "ema.safetensors";
  fs::copy_file(weights(), average);
  add_other_head(average);
  EXPECT_EQ(read_shape(folder()), tiny_shape);
  const auto load_average = [&](TinyRun& run, const GptShape& shape) {
    load_weights(folder(), shape, run.arena, SavedWeights::ema);
  };
  expect_refused([&] { load_average(loaded_, tiny_shape); }, {"another shape"});
  fs::remove(average);
  fs::copy_file(weights(), average);
  load_average(loaded_, tiny_shape);
  EXPECT_TRUE(same_bits(loaded_.arena.values(), run_.arena.values()));
  add_other_head(weights());
  const GptShape untied = read_shape(folder());
  TinyRun run(untied);
  expect_refused([&] { load_average(run, untied); }, {"another shape"});
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
  shape.bias = Bias::none;
  TinyRun without(shape);
  without.save(folder());
  StoredTensors tensors(weights());
  tensors.tensors.at("transformer.h.1.ln_2.bias").bytes[3] = std::byte{0x3f};
  tensors.write(weights());
  expect_refused([&] { load_weights(folder(), shape, without.arena); },
                 {"model.safetensors", "transformer.h.1.ln_2.bias", "config.json"});
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
