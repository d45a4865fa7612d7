// Settings that are more than text and numbers: enums by their words, devices, auto, and what a run made of auto.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "config/config.h"
#include "config/fields.h"
#include "config/resume_policy.h"
#include "tests/config/config_testing.h"
#include "tests/temporary_folder.h"

namespace inkling {
namespace {

const std::string source = "data: {source: a}\n";

Config with(const std::string& flag) { return parse_config(source, "run.yaml", std::vector<std::string>{flag}); }

bool prints(const Config& config, const std::string& line) {
  return print_config(config).find(" " + line + "\n") != std::string::npos;
}

template <class Enum>
struct EnumSetting {
  std::string key;
  std::vector<Enum> values;  // all of them, in the order of the declaration
  Enum (*get)(const Config&);
};

template <class Enum>
void expect_every_value_to_return(const EnumSetting<Enum>& setting) {
  ASSERT_EQ(setting.values.size(), words_of<Enum>.size()) << setting.key;
  for (const Enum value : setting.values) {
    const Config config = with(str(setting.key, "=", word_of(value)));
    EXPECT_EQ(setting.get(config), value) << setting.key << "=" << word_of(value);
    const std::string name = setting.key.substr(setting.key.rfind('.') + 1);
    EXPECT_TRUE(prints(config, str(name, ": ", word_of(value)))) << setting.key << "=" << word_of(value);
  }
}

TEST(Enums, ReturnFromTheirWords) {
  expect_every_value_to_return<TokenizerKind>(
      {"data.tokenizer.kind",
       {TokenizerKind::byte, TokenizerKind::character, TokenizerKind::sentencepiece, TokenizerKind::bpe},
       [](const Config& c) { return c.data.tokenizer.kind; }});
  expect_every_value_to_return<PieceModel>({"data.tokenizer.model_type",
                                            {PieceModel::unigram, PieceModel::bpe},
                                            [](const Config& c) { return c.data.tokenizer.model_type; }});
  expect_every_value_to_return<WindowKind>(
      {"data.order", {WindowKind::epoch, WindowKind::random}, [](const Config& c) { return c.data.order; }});
  expect_every_value_to_return<Documents>({"data.documents",
                                           {Documents::join, Documents::mask, Documents::align},
                                           [](const Config& c) { return c.data.documents; }});
  expect_every_value_to_return<Activation>({"model.activation",
                                            {Activation::gelu_tanh, Activation::gelu, Activation::relu,
                                             Activation::relu_squared, Activation::swiglu, Activation::geglu},
                                            [](const Config& c) { return c.model.activation; }});
  expect_every_value_to_return<Position>({"model.position",
                                          {Position::learned, Position::rope, Position::alibi, Position::none},
                                          [](const Config& c) { return c.model.position; }});
  expect_every_value_to_return<NormKind>(
      {"model.norm", {NormKind::layernorm, NormKind::rmsnorm}, [](const Config& c) { return c.model.norm; }});
  expect_every_value_to_return<OptimizerName>({"optimizer.name",
                                               {OptimizerName::adamw, OptimizerName::muon},
                                               [](const Config& c) { return c.optimizer.name; }});
  expect_every_value_to_return<ScheduleName>(
      {"schedule.name",
       {ScheduleName::cosine, ScheduleName::linear, ScheduleName::wsd, ScheduleName::constant},
       [](const Config& c) { return c.schedule.name; }});
  expect_every_value_to_return<Recompute>({"training.recompute",
                                           {Recompute::none, Recompute::gelu, Recompute::block},
                                           [](const Config& c) { return c.training.recompute; }});
  expect_every_value_to_return<Dtype>(
      {"runtime.dtype", {Dtype::float32, Dtype::bfloat16}, [](const Config& c) { return c.runtime.dtype.value(); }});
  expect_every_value_to_return<WorkSplit>({"runtime.split",
                                           {WorkSplit::batch, WorkSplit::products},
                                           [](const Config& c) { return c.runtime.split.value(); }});
  expect_every_value_to_return<Kernels>({"runtime.kernels", {Kernels::fused, Kernels::reference}, [](const Config& c) {
                                           return c.runtime.kernels.value();
                                         }});
}

TEST(Enums, HaveTheWordsThatFilesHold) {
  EXPECT_EQ(word_of(TokenizerKind::byte), "byte");
  EXPECT_EQ(word_of(TokenizerKind::character), "char");
  EXPECT_EQ(word_of(TokenizerKind::sentencepiece), "sentencepiece");
  EXPECT_EQ(word_of(PieceModel::bpe), "bpe");
  EXPECT_EQ(word_of(WindowKind::random), "random");
  EXPECT_EQ(word_of(Activation::geglu), "geglu");
  EXPECT_EQ(word_of(Position::none), "none");
  EXPECT_EQ(word_of(NormKind::rmsnorm), "rmsnorm");
  EXPECT_EQ(word_of(Initialization::zero_output), "zero_output");
  EXPECT_EQ(word_of(ScheduleName::constant), "constant");
  EXPECT_EQ(word_of(Recompute::block), "block");
  EXPECT_EQ(word_of(Dtype::bfloat16), "bfloat16");
  EXPECT_EQ(word_of(Kernels::reference), "reference");
}

TEST(Devices, ReturnFromTheirNames) {
  const std::vector<std::pair<std::string, DeviceChoice>> devices = {{"cpu", {}},
                                                                     {"cuda", {.cuda = true, .index = {}}},
                                                                     {"cuda:0", {.cuda = true, .index = 0}},
                                                                     {"cuda:15", {.cuda = true, .index = 15}}};
  for (const auto& [name, device] : devices) {
    EXPECT_EQ(device_text(device), name);
    EXPECT_EQ(with("runtime.device=" + name).runtime.device, device);
  }
  for (const char* name : {"cuda:", "cuda:01", "cuda:x", "cuda:1x", "cuda:-1", "cuda:+1", "cuda:100", "CPU", "gpu"}) {
    EXPECT_EQ(find_device(name), std::nullopt) << name;
    EXPECT_EQ(
        message_of(source, {str("runtime.device=", name)}),
        str("--set runtime.device=", name, ": runtime.device is \"", name, "\"; write auto, cpu, cuda or cuda:N"));
  }
}

TEST(Auto, IsOneWordForEverySettingThatTakesIt) {
  Config config;
  std::vector<std::string> keys;
  for (const Setting& setting : all_settings(config).settings) {
    if (!setting.takes_auto) continue;
    keys.push_back(setting.key);
    EXPECT_TRUE(prints(with(setting.key + "=auto"), name_of(setting.key) + ": auto")) << setting.key;
  }
  EXPECT_EQ(keys, (std::vector<std::string>{
                      "data.separator", "data.tokenizer.from", "data.tokenizer.pattern", "data.dir", "model.init_from",
                      "model.n_kv_head", "model.head_size", "model.n_inner", "optimizer.embedding_learning_rate",
                      "optimizer.head_learning_rate", "optimizer.vector_learning_rate", "schedule.decay_steps",
                      "training.micro_batch_size", "runtime.device", "runtime.dtype", "runtime.threads",
                      "runtime.split", "runtime.kernels", "runtime.memory_limit_gib"}));
}

TEST(Auto, ReplacesAValueThatWasWrittenBefore) {
  const std::vector<std::string> flags = {"runtime.kernels=fused", "runtime.kernels=auto", "data.dir=a",
                                          "data.dir=auto",         "runtime.threads=3",    "runtime.threads=auto"};
  const Config config = parse_config(source, "run.yaml", flags);
  EXPECT_EQ(config.runtime.kernels, std::nullopt);
  EXPECT_EQ(config.data.dir, std::nullopt);
  EXPECT_EQ(config.runtime.threads, std::nullopt);
}

// What load() writes to stderr.
std::string told(const std::function<void()>& load) {
  testing::internal::CaptureStderr();
  load();
  return testing::internal::GetCapturedStderr();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

TEST(OldWords, AreReadAsTheNewOnesAndToldOnce) {
  const std::string note = "runtime.kernels: aten is called reference now";
  Config config;
  const std::string lines = told([&] {
    config = parse_config(source + "runtime: {kernels: aten}\n", "run.yaml",
                          std::vector<std::string>{"runtime.kernels=aten"});
  });
  EXPECT_EQ(config.runtime.kernels, Kernels::reference);
  EXPECT_TRUE(prints(config, "kernels: reference"));
  EXPECT_EQ(count(lines, note), 1u) << lines;
  EXPECT_EQ(told([&] { with("runtime.kernels=reference"); }), "");
}

TEST(OldWords, OfAFileThatAProgramKeptAreNotTold) {
  const TemporaryFolder folder;
  const fs::path kept = folder.write("config.yaml", source + "runtime: {kernels: aten}\n");
  Config config;
  EXPECT_EQ(told([&] { config = load_kept_config(kept, {}); }), "");
  EXPECT_EQ(config.runtime.kernels, Kernels::reference);
  const std::vector<std::string> flags = {"runtime.kernels=aten"};
  EXPECT_EQ(count(told([&] { load_kept_config(kept, flags); }), "aten is called reference now"), 1u);
}

TEST(OldWords, AreNoChangeOnAResume) {
  const std::string old_file = source +
                               "schedule: {decay_steps: 0}\nruntime: {kernels: aten, memory_limit_gib: 0, threads: 0}\n"
                               "training: {micro_batch_size: 0}\n";
  const std::string new_file =
      source + "schedule: {decay_steps: auto}\nruntime: {kernels: reference, memory_limit_gib: auto}\n";
  const Config before = parse_config(old_file, "old.yaml", {}), after = parse_config(new_file, "new.yaml", {});
  EXPECT_TRUE(compare_configs(before, after).empty());
}

TEST(OldWords, OfASettingsNameIsReadAsTheNewOneAndTold) {
  Config config;
  const std::string lines = told([&] { config = parse_config(source + "model: {gelu: exact}\n", "run.yaml", {}); });
  EXPECT_EQ(config.model.activation, Activation::gelu);
  EXPECT_EQ(count(lines, "model.gelu: exact is called model.activation: gelu now"), 1u) << lines;
  EXPECT_EQ(with("model.gelu=tanh").model.activation, Activation::gelu_tanh);
  EXPECT_EQ(config_reference().find("`gelu`:"), std::string::npos);
  EXPECT_TRUE(compare_configs(config, with("model.activation=gelu")).empty());
}

TEST(OldWords, AreNotAdvertised) {
  EXPECT_EQ(message_of(source, {"runtime.kernels=atem"}),
            "--set runtime.kernels=atem: runtime.kernels is \"atem\"; write one of auto, fused, reference");
  EXPECT_EQ(config_reference().find("aten"), std::string::npos);
}

ResolvedField field(const Resolved& resolved, const std::string& name) {
  const std::vector<ResolvedField> fields = resolved_fields(resolved);
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& one) { return one.name == name; });
  EXPECT_NE(found, fields.end()) << name;
  return *found;
}

TEST(ResolvedFields, ReturnFromTheirJson) {
  const Resolved resolved = {.device = {.cuda = true, .index = 3},
                             .dtype = Dtype::bfloat16,
                             .threads = 7,
                             .split = WorkSplit::batch,
                             .kernels = Kernels::reference,
                             .deterministic = false,
                             .micro_batch_size = 12};
  std::string json;
  Resolved again;
  for (const ResolvedField& one : resolved_fields(resolved)) {
    json += str(one.section, ".", one.name, " ", one.json, "\n");
    EXPECT_TRUE(set_resolved_field(again, one)) << one.name;
  }
  EXPECT_EQ(json,
            "runtime.device \"cuda:3\"\nruntime.dtype \"bfloat16\"\nruntime.threads 7\nruntime.split \"batch\"\n"
            "runtime.kernels \"reference\"\nruntime.deterministic false\ntraining.micro_batch_size 12\n");
  EXPECT_EQ(again.device, resolved.device);
  EXPECT_EQ(again.dtype, resolved.dtype);
  EXPECT_EQ(again.threads, resolved.threads);
  EXPECT_EQ(again.split, resolved.split);
  EXPECT_EQ(again.kernels, resolved.kernels);
  EXPECT_EQ(again.deterministic, resolved.deterministic);
  EXPECT_EQ(again.micro_batch_size, resolved.micro_batch_size);
}

TEST(ResolvedFields, TakeWhatTheSettingsTakeButAuto) {
  Resolved resolved;
  const auto takes = [&](const std::string& name, const std::string& json) {
    ResolvedField changed = field(resolved, name);
    changed.json = json;
    return set_resolved_field(resolved, changed);
  };
  EXPECT_TRUE(takes("kernels", "\"aten\""));
  EXPECT_EQ(resolved.kernels, Kernels::reference);
  for (const auto& [name, json] : std::vector<std::pair<std::string, std::string>>{{"device", "\"auto\""},
                                                                                   {"device", "\"tpu\""},
                                                                                   {"device", "1"},
                                                                                   {"device", "[\"cpu\"]"},
                                                                                   {"dtype", "\"float16\""},
                                                                                   {"dtype", "\"auto\""},
                                                                                   {"threads", "0"},
                                                                                   {"threads", "4097"},
                                                                                   {"threads", "\"2\""},
                                                                                   {"threads", "2.0"},
                                                                                   {"threads", "[]"},
                                                                                   {"kernels", "\"fu\\u0073ed\""},
                                                                                   {"kernels", "true"},
                                                                                   {"kernels", "{}"},
                                                                                   {"deterministic", "1"},
                                                                                   {"deterministic", "\"true\""},
                                                                                   {"micro_batch_size", "-1"}}) {
    EXPECT_FALSE(takes(name, json)) << name << " " << json;
  }
  EXPECT_EQ(field(resolved, "device").allowed, "cpu, cuda or cuda:N");
  EXPECT_EQ(field(resolved, "kernels").allowed, "one of fused, reference");
  EXPECT_EQ(field(resolved, "threads").allowed, "a whole number from 1 to 4096");
}

}  // namespace
}  // namespace inkling
