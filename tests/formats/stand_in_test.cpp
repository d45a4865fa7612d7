// What lies in the place of a model's file or folder is called what it is, with what mends it.
#include "formats/model_place.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "formats/json.h"
#include "formats/safetensors.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

namespace fs = std::filesystem;

constexpr const char* pointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 548105171\n";

struct StandIn {
  const char* bytes;
  const char* name;
};
constexpr StandIn stand_ins[] = {
    {pointer, "a Git LFS pointer, which stands for a file of 548,105,171 bytes"},
    {"<!DOCTYPE html>\n<html class=\"\">", "a web page"},
    {"\xef\xbb\xbf\n <HTML><body>", "a web page"},
    {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "a web page"},
    {"Entry not found", "what a server answered, \"Entry not found\""},
    {"Access to model a/b is restricted. You must", "what a server answered"},
    {"GGUF\x03 and so on", "a GGUF file"},
    {"\x89HDF\r\n\x1a\n and so on", "an HDF5 file"},
    {"PK\x03\x04 and so on", "a Python pickle"},
};

class StandInFile : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(StandInFile, IsNamedWhateverItWasSavedAs) {
  for (const auto& [bytes, name] : stand_ins) {
    const std::string json = folder_.write("config.json", bytes), weights = folder_.write("model.safetensors", bytes);
    const std::string of_json = input_error([&] { JsonFields(json, "remedy"); });
    const std::string of_weights = input_error([&] { SafetensorsFile{weights}; });
    EXPECT_TRUE(of_json.starts_with(json + " is ") && contains(of_json, name)) << of_json;
    EXPECT_TRUE(of_weights.starts_with(weights + " is ") && contains(of_weights, name)) << of_weights;
  }
  EXPECT_TRUE(contains(input_error([&] { SafetensorsFile{folder_.write("model.safetensors", pointer)}; }),
                       "git -C " + folder_.path().string() + " lfs pull"));
  for (const char* plain : {"", "version 2", "version https://example.org", "<", "Entry", "{\"a\": 1}"}) {
    EXPECT_NO_THROW(refuse_stand_in("file", plain)) << plain;
  }
}

class ModelPlace : public testing::Test {
 protected:
  std::string refusal(const std::string& place) const {
    return input_error([&] { refuse_other_forms(folder_ / place); });
  }
  void link(const std::string& name, const std::string& target) const { fs::create_symlink(target, folder_ / name); }
  TemporaryFolder folder_;
};

TEST_F(ModelPlace, OfAnotherFormIsNamedWithWhatMakesItOneThatOpens) {
  folder_.write("lora/adapter_config.json", R"({"base_model_name_or_path": "someone/base"})");
  folder_.write("lora/adapter_model.safetensors", "x");
  folder_.write("lora/optimizer.pt", "x");
  EXPECT_TRUE(contains(refusal("lora"), "an adapter (LoRA) for someone/base"));
  EXPECT_TRUE(contains(refusal("lora/adapter_model.safetensors"), "merge_and_unload()"));
  folder_.write("llama.cpp/model-q4.gguf", "GGUF");
  EXPECT_TRUE(contains(refusal("llama.cpp"), "gguf_file=\"model-q4.gguf\""));
  EXPECT_TRUE(contains(refusal("llama.cpp/model-q4.gguf"), "a GGUF file"));
  folder_.write("pickled/pytorch_model-00001-of-00002.bin", "x");
  folder_.write("pickled/pytorch_model.bin.index.json", "{}");
  folder_.write("pickled/optimizer.pt", "x");
  EXPECT_TRUE(contains(refusal("pickled"), "save_pretrained(NEW_FOLDER, safe_serialization=True)"));
  folder_.write("meta/consolidated.00.pth", "x");
  EXPECT_TRUE(contains(refusal("meta"), "the folder that transformers opens"));
  for (const char* name : {"tf_model.h5", "flax_model.msgpack", "model.onnx"}) {
    folder_.write(std::string(name) + "-folder/" + name, "x");
    EXPECT_TRUE(contains(refusal(std::string(name) + "-folder"), "TensorFlow, Flax or another program")) << name;
  }
  folder_.write("shards/model-00001-of-00002.safetensors", "x");
  EXPECT_TRUE(contains(refusal("shards"), "model.safetensors.index.json"));
  folder_.write("named/weights.safetensors", "x");
  EXPECT_TRUE(contains(refusal("named"), "rename the file"));
  folder_.write("whole/model.safetensors", "x");
  folder_.write("whole/optimizer.safetensors", "x");
  EXPECT_NO_THROW(refuse_other_forms(folder_ / "whole"));
  EXPECT_TRUE(
      contains(refusal("whole/model.safetensors"), "give the folder that holds them: " + (folder_ / "whole").string()));
}

TEST_F(ModelPlace, OfTheHubsCacheIsItsSnapshot) {
  const fs::path place = folder_ / "models--someone--small";
  const auto age = [&](const char* name, int hours) {
    fs::last_write_time(place / "snapshots" / name, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  folder_.write("models--someone--small/snapshots/aaa/config.json", "{}");
  EXPECT_EQ(model_folder(place), place / "snapshots/aaa") << "the only one";
  folder_.write("models--someone--small/snapshots/bbb/config.json", "{}");
  folder_.write("models--someone--small/snapshots/ccc/README.md", "");
  age("aaa", 1), age("bbb", 2), age("ccc", 0);
  EXPECT_EQ(model_folder(place), place / "snapshots/aaa") << "the newest with a model";
  folder_.write("models--someone--small/refs/main", "bbb\n");
  EXPECT_EQ(model_folder(place), place / "snapshots/bbb");
  EXPECT_EQ(model_folder(place.string() + "/"), place.string() + "/snapshots/bbb");
  EXPECT_EQ(model_folder(folder_.path()), folder_.path());
  fs::remove_all(place / "snapshots");
  fs::create_directories(place / "snapshots");
  EXPECT_TRUE(contains(input_error([&] { model_folder(place); }), "without a snapshot of the model"));
}

TEST_F(ModelPlace, IsFoundInTheHubsCacheByItsName) {
  folder_.write("cache/models--someone--small/snapshots/aaa/config.json", "{}");
  folder_.write("cache/models--openai-community--gpt2/snapshots/bbb/config.json", "{}");
  ::setenv("HF_HUB_CACHE", (folder_ / "cache").c_str(), 1);
  EXPECT_EQ(model_folder("someone/small"), folder_ / "cache/models--someone--small/snapshots/aaa");
  EXPECT_EQ(model_folder("gpt2"), folder_ / "cache/models--openai-community--gpt2/snapshots/bbb");
  EXPECT_EQ(model_folder("someone/other"), "someone/other");
  EXPECT_EQ(model_folder("someone--small"), "someone--small");
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", folder_.path().c_str(), 1);
  fs::rename(folder_ / "cache", folder_ / "hub");
  EXPECT_EQ(model_folder("someone/small"), folder_ / "hub/models--someone--small/snapshots/aaa");
  ::unsetenv("HF_HOME");
}

TEST_F(ModelPlace, OfLinksToNothingIsNamed) {
  folder_.write("moved/notes.txt", "x");
  link("moved/README.md", "nowhere");
  EXPECT_NO_THROW(refuse_broken_links(folder_ / "moved")) << "inkling does not read it";
  link("moved/model.safetensors", "../../blobs/abc");
  const std::string message = input_error([&] { refuse_broken_links(folder_ / "moved"); });
  EXPECT_TRUE(contains(message, "moved/model.safetensors is a link to ../../blobs/abc, which is not there"));
  EXPECT_TRUE(contains(message, "cp -rL"));
  link("model", "nowhere");
  EXPECT_TRUE(contains(hint_for_missing(folder_ / "model"), "it is a link to nowhere"));
}

TEST_F(ModelPlace, ThatIsANameOnTheHubComesWithTheCommandThatFetchesIt) {
  const auto fetched = [](const std::string& name) { return "hf download " + name; };
  EXPECT_TRUE(contains(hint_for_missing("openai-community/gpt2"), fetched("openai-community/gpt2")));
  EXPECT_TRUE(contains(hint_for_missing("Some-One/Small_1.5B/"), fetched("Some-One/Small_1.5B")));
  EXPECT_TRUE(contains(hint_for_missing("gpt2"), fetched("openai-community/gpt2")));
  EXPECT_TRUE(contains(hint_for_missing("https://hub.example/a/b/tree/main"), fetched("a/b")));
  for (const std::string& name :
       {(folder_ / "a").string(), std::string("a/b/c"), std::string("x y/z"), std::string("..")}) {
    EXPECT_FALSE(contains(hint_for_missing(name), "hf download")) << name;
  }
}

}  // namespace
}  // namespace inkling
