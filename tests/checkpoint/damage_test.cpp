// Whatever is wrong with a checkpoint is reported with the file and the field or tensor, before anything of it is used.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/files.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/optimizer_file.h"
#include "checkpoint/state_file.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

class Damage : public testing::Test {
 protected:
  Damage() { run_.save(folder()); }

  fs::path folder() const { return temporary_ / "step"; }
  fs::path file(const std::string& name) const { return folder() / name; }

  void load_all() {
    load_weights(folder(), read_shape(folder()), run_.arena);
    load_optimizer(folder(), run_.arena, run_.optimizer);
    load_state(folder());
  }

  // Restores the file for the next kind of damage.
  void repair() {
    run_.save(folder());
    ASSERT_NO_THROW(load_all());
  }

  TemporaryFolder temporary_;
  TinyRun run_;
};

TEST_F(Damage, FileCutAnywhereIsRefusedWithItsName) {
  for (const char* name : {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string whole = read_file(file(name));
    const std::size_t stride = whole.size() / 61 + 1;
    for (std::size_t size = 0; size + 2 < whole.size(); size += stride) {  // the last byte of a .json is a newline
      overwrite(file(name), whole.substr(0, size));
      expect_refused([&] { load_all(); }, {name});
      expect_refused([&] { check_checkpoint(folder()); }, {name});
    }
    overwrite(file(name), whole);
  }
  ASSERT_NO_THROW(load_all());
}

TEST_F(Damage, MissingFileIsRefusedWithItsName) {
  for (const char* name : {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"}) {
    fs::remove(file(name));
    expect_refused([&] { load_all(); }, {name});
    expect_refused([&] { check_files(folder(), Look::quick); }, {name});
    repair();
  }
  fs::remove(file("config.yaml"));
  expect_refused([&] { check_checkpoint(folder()); }, {"config.yaml: the file is missing", "remove state.json"});
}

TEST_F(Damage, EveryMissingTensorIsNamed) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const StoredTensors whole(file(name));
    for (const auto& [tensor, ignored] : whole.tensors) {
      if (tensor == "transformer.wte.weight") continue;  // it tells whether names have the prefix
      StoredTensors stored = whole;
      stored.tensors.erase(tensor);
      stored.write(file(name));
      expect_refused([&] { load_all(); }, {name, "no tensor \"" + tensor + "\""});
    }
    whole.write(file(name));
  }
}

TEST_F(Damage, TensorsThatDoNotBelongAreNamed) {
  const StoredTensors whole(file("model.safetensors"));
  for (const char* tensor : {"score.weight", "transformer.h.2.ln_1.weight", "transformer.h.0.attn.q_proj.weight",
                             "wpe.weight", "transformer."}) {
    StoredTensors stored = whole;
    stored.tensors[tensor] = {"F32", {1}, std::vector<std::byte>(4)};
    stored.write(file("model.safetensors"));
    expect_refused([&] { load_all(); }, {"model.safetensors", "\"" + std::string(tensor) + "\"", "no place"});
  }
  whole.write(file("model.safetensors"));
  StoredTensors moments(file("optimizer.safetensors"));
  moments.tensors["moment3.wte.weight"] = {"F32", {1}, std::vector<std::byte>(4)};
  moments.write(file("optimizer.safetensors"));
  expect_refused([&] { load_all(); }, {"optimizer.safetensors", "\"moment3.wte.weight\""});
}

TEST_F(Damage, WrongShapeIsShownBesideTheRightOne) {
  for (const std::string name : {"model", "optimizer"}) {
    StoredTensors stored(file(name + ".safetensors"));
    const std::string tensor = (name == "model" ? "" : "moment2.") + std::string("transformer.h.1.attn.c_attn.weight");
    stored.tensors.at(tensor).shape = {24, 8};
    stored.write(file(name + ".safetensors"));
    expect_refused([&] { load_all(); }, {name, tensor, "[24, 8]", "[8, 24]"});
    stored.tensors.at(tensor).shape = {192};
    stored.write(file(name + ".safetensors"));
    expect_refused([&] { load_all(); }, {name, tensor, "[192]", "[8, 24]"});
    repair();
  }
}

TEST_F(Damage, WrongDtypeIsNamed) {
  StoredTensors stored(file("model.safetensors"));
  stored.tensors.at("transformer.ln_f.bias").dtype = "I32";
  stored.write(file("model.safetensors"));
  expect_refused([&] { load_all(); }, {"model.safetensors", "transformer.ln_f.bias", "I32", "BF16"});
  repair();
  StoredTensors moments(file("optimizer.safetensors"));
  for (const char* dtype : {"I32", "BF16"}) {  // moments are not converted: a resumed run would not be the same
    StoredTensor& moment = moments.tensors.at("moment1.transformer.ln_f.bias");
    moment.dtype = dtype;
    moment.bytes.resize(dtype == std::string("I32") ? 32 : 16);
    moments.write(file("optimizer.safetensors"));
    expect_refused([&] { load_all(); }, {"optimizer.safetensors", "moment1.transformer.ln_f.bias", dtype});
  }
}

TEST_F(Damage, OptimizerMetadataIsChecked) {
  const StoredTensors whole(file("optimizer.safetensors"));
  for (const char* key : {"format", "version", "steps"}) {
    StoredTensors stored = whole;
    stored.metadata.erase(key);
    stored.write(file("optimizer.safetensors"));
    expect_refused([&] { load_all(); }, {"optimizer.safetensors", key});
    for (const char* value : {"", "x", "-1", "1.5", "99999999999999999999"}) {
      stored.metadata[key] = value;
      stored.write(file("optimizer.safetensors"));
      expect_refused([&] { load_all(); }, {"optimizer.safetensors"});
    }
  }
}

TEST_F(Damage, EveryFieldOfTheStateIsNeeded) {
  const std::string whole = read_file(file("state.json"));
  for (const char* field :
       {"format", "version", "step", "best_step", "data_hash", "seconds", "skipped_steps", "skipped_in_a_row",
        "runtime", "device", "dtype", "threads", "kernels", "deterministic", "files", "name", "size"}) {
    edit(file("state.json"), "\"" + std::string(field) + "\"", "\"other\"");
    seal_again(file("state.json"));
    expect_refused([&] { load_all(); }, {"state.json", field, "missing"});
    overwrite(file("state.json"), whole);
  }
}

TEST_F(Damage, WrongFieldsOfTheStateAreShown) {
  const std::string whole = read_file(file("state.json"));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& mention) {
    edit(file("state.json"), from, to);
    expect_refused([&] { load_all(); }, {"state.json"});
    seal_again(file("state.json"));  // so that the field itself is what is wrong
    expect_refused([&] { load_all(); }, {"state.json", mention});
    overwrite(file("state.json"), whole);
  };
  refused("\"step\": 3", "\"step\": -3", "step is -3");
  refused("\"step\": 3", "\"step\": 3.5", "step is 3.5");
  refused("\"step\": 3", "\"step\": \"3\"", "step is \"3\"");
  refused("\"step\": 3", "\"step\": 1000000001", "step is 1000000001");
  refused("\"step\": 3", "\"step\": 99999999999999999999", "step is");
  refused("\"step\": 3", "\"step\": 9223372036854775808", "step is 9223372036854775808");
  refused("\"step\": 3", "\"step\": 1e999", "out of range");
  refused("\"version\": 2", "\"version\": 3", "version 3");
  refused("\"version\": 2", "\"version\": 1", "version 1, and xxh3_128 is a field of version 2");
  refused("\"version\": 2", "\"version\": 0", "version is 0");
  refused("inkling-training-state", "other", "not a training state");
  refused("\"best_step\": 1", "\"best_step\": 4", "best_step is 4, and must be a whole number from -1 to 3");
  refused("\"best_step\": 1", "\"best_step\": -2", "best_step is -2");
  refused("\"evaluations_since_best\": 0", "\"evaluations_since_best\": 4", "evaluations_since_best is 4");
  refused("\"overfitting_in_a_row\": 0", "\"overfitting_in_a_row\": 4", "overfitting_in_a_row is 4");
  refused("\"train_loss_at_best\": null", "\"train_loss_at_best\": \"x\"", "train_loss_at_best is \"x\"");
  refused("\"skipped_steps\": 0", "\"skipped_steps\": 4", "skipped_steps is 4");
  refused("\"skipped_in_a_row\": 0", "\"skipped_in_a_row\": 1", "skipped_in_a_row is 1");
  refused("\"micro_batch_size\": 0", "\"micro_batch_size\": 100001", "micro_batch_size is 100001");
  refused("\"threads\": 2", "\"threads\": []", "runtime.threads is []");
  refused("\"threads\": 2", "\"threads\": 4097", "runtime.threads is 4097");
  refused("\"threads\": 2", "\"threads\": -1", "runtime.threads is -1");
  refused("\"cpu\"", "\"tpu\"", "runtime.device is \"tpu\"");
  refused("\"threads\": 2", "\"threads\": 0", "runtime.threads is 0, and must be a whole number from 1 to 4096");
  refused("\"threads\": 2", "\"threads\": \"2\"", "runtime.threads is \"2\"");
  refused("\"cpu\"", "\"auto\"", "runtime.device is \"auto\", and must be cpu, cuda or cuda:N");
  refused("\"cpu\"", "0", "runtime.device is 0");
  refused("\"cpu\"", "\"cuda:\"", "runtime.device is \"cuda:\"");
  refused("\"cpu\"", "\"cuda:1x\"", "runtime.device is \"cuda:1x\"");
  refused("\"float32\"", "\"float16\"", "runtime.dtype is \"float16\"");
  refused("\"fused\"", "\"fast\"", "runtime.kernels is \"fast\", and must be one of fused, reference");
  refused("true", "1", "runtime.deterministic is 1");
  refused("\"seconds\": 1.5", "\"seconds\": \"long\"", "seconds is \"long\"");
  refused("\"seconds\": 1.5", "\"seconds\": -1.5", "seconds is below 0");
  refused("2.5", "NaN", "not JSON");
}

TEST_F(Damage, EveryKindOfDeviceIsUnderstood) {
  const std::vector<DeviceChoice> devices = {
      {}, {.cuda = true, .index = {}}, {.cuda = true, .index = 0}, {.cuda = true, .index = 15}};
  for (const DeviceChoice& device : devices) {
    run_.state.resolved.device = device;
    run_.save(folder());
    EXPECT_EQ(load_state(folder()).resolved.device, device);
  }
}

TEST_F(Damage, OldWordsOfTheStateAreRead) {
  edit(file("state.json"), "\"fused\"", "\"aten\"");
  seal_again(file("state.json"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(load_state(folder()).resolved.kernels, Kernels::reference);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  edit(file("state.json"), ",\n  \"micro_batch_size\": 0", "");
  seal_again(file("state.json"));
  EXPECT_EQ(load_state(folder()).resolved.micro_batch_size, 0);
}

TEST_F(Damage, ListOfFilesMustBeWholeAndOfThisFolder) {
  const std::string whole = read_file(file("state.json"));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& mention) {
    edit(file("state.json"), from, to);
    seal_again(file("state.json"));
    expect_refused([&] { check_checkpoint(folder()); }, {"state.json", mention});
    overwrite(file("state.json"), whole);
  };
  const std::size_t begin = whole.find("\"files\": [") + std::string("\"files\": [").size();
  const std::string list = whole.substr(begin, whole.find("\n  ]", begin) - begin);
  refused(list, "", "files does not name config.json");
  refused(list, "\"config.json\"", "files is [\"config.json\"], and must be a list of objects");
  refused(", \"size\": ", ", \"bytes\": ", "files[0].size is missing");
  refused(", \"size\": ", ", \"size\": -", "files[0].size is -");
  refused(", \"xxh3_128\": ", ", \"xxh3\": ", "files[0].xxh3_128 is missing");
  for (const char* name : {"config.json", "config.yaml", "model.safetensors", "optimizer.safetensors"}) {
    refused(str("\"", name, "\""), "\"another\"", str("files does not name ", name));
  }
  const std::string one_more = ",\n    {\"size\": 1, \"xxh3_128\": \"\", \"name\": \"";
  for (const char* name : {"../config.json", "/etc/passwd", "a/b", ".", "..", "", "state.json", "config.json\\u0000"}) {
    refused(list, list + one_more + name + "\"}", "files names ");
  }
}

TEST_F(Damage, FileThatIsNotListedIsNoneOfTheCheckpoint) {
  overwrite(file("README.md"), "from elsewhere");
  overwrite(file("inkling_tokenizer.json"), "as the message of inkling-sample asks for");
  EXPECT_NO_THROW(check_checkpoint(folder()));
}

TEST_F(Damage, ModelFolderFromElsewhereHasNothingToBeCheckedBy) {
  fs::remove(file("state.json"));
  flip(file("model.safetensors"), fs::file_size(file("model.safetensors")) - 1, 1);
  EXPECT_NO_THROW(check_checkpoint(folder()));
}

TEST_F(Damage, Version1IsOpenedWithAWarning) {
  make_version_1(folder());
  testing::internal::CaptureStderr();
  EXPECT_NO_THROW(check_checkpoint(folder()));
  EXPECT_TRUE(
      contains(testing::internal::GetCapturedStderr(), "state.json: it is of version 1, which knows no hashes"));
  ASSERT_NO_THROW(load_all());
  EXPECT_EQ(load_state(folder()).step, 3);
  fs::resize_file(file("model.safetensors"), 1000);
  expect_refused([&] { check_checkpoint(folder()); }, {"model.safetensors", "cut"});
  overwrite(file("model.safetensors"), "");
  expect_refused([&] { check_checkpoint(folder()); }, {"model.safetensors", "empty"});
}

TEST_F(Damage, Version1WithFieldsOfVersion2IsRefused) {
  const std::string whole = read_file(file("state.json"));
  edit(file("state.json"), "\"version\": 2", "\"version\": 1");
  expect_refused([&] { check_checkpoint(folder()); }, {"state.json", "not as it was written"});
  seal_again(file("state.json"));
  expect_refused([&] { check_checkpoint(folder()); }, {"state.json", "version 1", "version 2"});
  const std::string text = read_file(file("state.json"));
  overwrite(file("state.json"), text.substr(0, text.find(",\n  \"xxh3_128\"")) + "\n}\n");
  expect_refused([&] { check_checkpoint(folder()); }, {"state.json", "files is", "list of texts"});
}

TEST_F(Damage, OptimizerOfAnotherStepIsRefused) {
  run_.optimizer.set_steps(2);
  const std::optional<Error> error = error_of([&] { run_.save(folder()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::internal) << error->message();
  StoredTensors stored(file("optimizer.safetensors"));
  stored.metadata["steps"] = "2";
  stored.write(file("optimizer.safetensors"));
  write_state_again(folder(), run_.state);
  const std::vector<std::string> mentions = {"optimizer.safetensors", "made 2 updates", "3 steps, 0 of them"};
  expect_refused([&] { check_checkpoint(folder()); }, mentions);
  make_version_1(folder());
  expect_refused([&] { check_checkpoint(folder()); }, mentions);
  run_.state.skipped_steps = 1;
  write_state_again(folder(), run_.state);
  EXPECT_NO_THROW(check_checkpoint(folder()));
}

TEST_F(Damage, WeightsThatAreNotFiniteAreRefusedByName) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float number : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    StoredTensors stored(file("model.safetensors"));
    std::memcpy(stored.tensors.at("transformer.h.1.mlp.c_fc.bias").bytes.data() + 4 * 31, &number, sizeof number);
    stored.write(file("model.safetensors"));
    expect_refused([&] { load_all(); }, {"model.safetensors", "\"transformer.h.1.mlp.c_fc.bias\"", "not finite"});
    run_.randomize(1);
    repair();
  }
  run_.arena.values().fill_(std::numeric_limits<float>::max());  // huge, and finite all the same
  run_.save(folder());
  EXPECT_NO_THROW(load_all());
}

TEST_F(Damage, DivergedRunSaysSoInsteadOfSaving) {
  const std::string before = read_file(file("model.safetensors"));
  for (const float number : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    run_.arena.master("h.0.ln_2.weight").narrow(0, 7, 1).fill_(number);
    const std::optional<Error> error = error_of([&] { run_.save(folder()); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::diverged);
    for (const char* part : {"h.0.ln_2.weight", "not finite", "step 3", "learning_rate", "Start over"}) {
      EXPECT_TRUE(contains(error->message(), part));
    }
  }
  EXPECT_EQ(read_file(file("model.safetensors")), before);
}

TEST_F(Damage, EveryNeededFieldOfTheModelConfigIsNamed) {
  const std::string whole = read_file(file("config.json"));
  for (const char* field : {"model_type", "vocab_size", "n_positions", "n_embd", "n_layer", "n_head"}) {
    edit(file("config.json"), "\"" + std::string(field) + "\"", "\"other\"");
    expect_refused([&] { load_all(); }, {"config.json", field, "missing"});
    overwrite(file("config.json"), whole);
  }
}

TEST_F(Damage, GarbageInPlaceOfJsonIsRefused) {
  for (const char* text : {"[]", "null", "{", "{} x", "\xff\xfe", "{\"model_type\": \"gpt2\"", "3"}) {
    overwrite(file("config.json"), text);
    expect_refused([&] { load_all(); }, {"config.json", "JSON"});
  }
}

TEST_F(Damage, ModelThatWouldBeComputedDifferentlyIsRefused) {
  const std::string whole = read_file(file("config.json"));
  const auto refused = [&](const std::string& from, const std::string& to, const std::vector<std::string>& mentions) {
    edit(file("config.json"), from, to);
    expect_refused([&] { load_all(); }, mentions);
    overwrite(file("config.json"), whole);
  };
  refused("\"gpt2\"", "\"mamba\"", {"config.json", "model_type", "mamba", "llama"});
  refused("\"n_inner\": null", "\"n_inner\": 0", {"n_inner is 0"});
  refused("\"n_inner\": null", "\"n_inner\": 33", {"mlp.c_fc", "[8, 33]"});
  refused("gelu_new", "silu", {"activation_function", "silu", "gelu_new"});
  refused("1e-05", "0", {"layer_norm_epsilon", "1e-30"});
  refused("1e-05", "\"small\"", {"layer_norm_epsilon", "small"});
  refused("inverse_layer_idx\": false", "inverse_layer_idx\": true", {"scale_attn_by_inverse_layer_idx"});
  refused("\"scale_attn_weights\": true", "\"scale_attn_weights\": false", {"scale_attn_weights"});
  refused("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", {"lm_head.weight"});
  refused("\"use_cache\": true", "\"add_cross_attention\": true", {"add_cross_attention"});
  refused("\"use_cache\": true", "\"quantization_config\": {}", {"quantized"});
  refused("\"n_head\": 2", "\"n_head\": 3", {"n_embd 8", "n_head 3"});
  refused("\"n_head\": 2", "\"n_head\": 0", {"n_head is 0"});
  refused("\"n_layer\": 2", "\"n_layer\": 3", {"no tensor", "h.2.ln_1.weight"});
  refused("\"n_layer\": 2", "\"n_layer\": 1", {"h.1."});
  refused("\"n_layer\": 2", "\"n_layer\": 1000000000", {"n_layer is 1000000000"});
  refused("\"vocab_size\": 11", "\"vocab_size\": 4000000000", {"wte.weight", "[4000000000, 8]"});
}

TEST_F(Damage, ArenaOfAnotherShapeIsRefused) {
  GptShape other = tiny_shape;
  other.n_head = 4;  // the same tensors, another model
  TinyRun larger(other);
  expect_refused([&] { load_weights(folder(), other, larger.arena); }, {"config.json", "another shape"});
}

}  // namespace
}  // namespace inkling
