#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "backend/cpu_backend.h"
#include "base/files.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_weights.h"
#include "checkpoint/optimizer_file.h"
#include "checkpoint/state_file.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/temporary_folder.h"
#include "text/build_tokenizer.h"

namespace inkling {
namespace {

void expect_same_states(const Optimizer& a, const Optimizer& b) {
  const auto ours = a.states(), theirs = b.states();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(same_bits(ours[i].value, theirs[i].value)) << ours[i].name << " of " << ours[i].parameter;
  }
}

void expect_same_state(const TrainingState& a, const TrainingState& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.best_val_loss, b.best_val_loss);
  EXPECT_EQ(a.best_step, b.best_step);
  EXPECT_EQ(a.train_loss_at_best, b.train_loss_at_best);
  EXPECT_EQ(a.evaluations_since_best, b.evaluations_since_best);
  EXPECT_EQ(a.overfitting_in_a_row, b.overfitting_in_a_row);
  EXPECT_EQ(a.data_hash, b.data_hash);
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.skipped_steps, b.skipped_steps);
  EXPECT_EQ(a.skipped_in_a_row, b.skipped_in_a_row);
  EXPECT_EQ(a.reports_due, b.reports_due);
  EXPECT_EQ(a.resolved.device, b.resolved.device);
  EXPECT_EQ(a.resolved.dtype, b.resolved.dtype);
  EXPECT_EQ(a.resolved.threads, b.resolved.threads);
  EXPECT_EQ(a.resolved.kernels, b.resolved.kernels);
  EXPECT_EQ(a.resolved.deterministic, b.resolved.deterministic);
  EXPECT_EQ(a.resolved.micro_batch_size, b.resolved.micro_batch_size);
}

class RoundTrip : public testing::TestWithParam<bool> {};

TEST_P(RoundTrip, WeightsMomentsAndStateReturnBitForBit) {
  const TemporaryFolder folder;
  GptShape shape = tiny_shape;
  shape.bias = GetParam() ? Bias::all : Bias::none;
  shape.activation = GetParam() ? Activation::gelu_tanh : Activation::gelu;
  const TinyRun saved(shape);
  saved.save(folder / "a");

  TinyRun loaded(shape);
  loaded.randomize(2);
  ASSERT_FALSE(same_bits(loaded.arena.values(), saved.arena.values()));
  EXPECT_EQ(read_shape(folder / "a"), shape);
  load_weights(folder / "a", shape, loaded.arena);
  loaded.optimizer.set_steps(0);
  load_optimizer(folder / "a", loaded.arena, loaded.optimizer);
  EXPECT_TRUE(same_bits(loaded.arena.values(), saved.arena.values()));
  expect_same_states(loaded.optimizer, saved.optimizer);
  EXPECT_EQ(loaded.optimizer.steps(), saved.optimizer.steps());
  expect_same_state(load_state(folder / "a"), saved.state);
}

INSTANTIATE_TEST_SUITE_P(Biases, RoundTrip, testing::Bool());

TEST(SaveCheckpoint, TheSameRunGivesTheSameBytes) {
  const TemporaryFolder folder;
  const TinyRun run;
  run.save(folder / "a");
  run.save(folder / "b");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "a")) {
    EXPECT_EQ(read_file(entry.path()), read_file(folder / "b" / entry.path().filename())) << entry.path();
  }
}

TEST(SaveCheckpoint, SettingsAndTokenizerStandBesideTheWeights) {
  const TemporaryFolder folder;
  const TinyRun run;
  const auto tokenizer = make_byte_tokenizer(true);
  run.save(folder / "a", tokenizer.get());
  const std::string yaml = read_file(folder / "a" / "config.yaml");
  EXPECT_EQ(print_config(parse_config(yaml, "config.yaml", {})), print_config(run.config));
  EXPECT_EQ(load_tokenizer(folder / "a")->hash(), tokenizer->hash());
  const auto config = nlohmann::json::parse(read_file(folder / "a" / "config.json"));
  EXPECT_EQ(config.at("eos_token_id"), 256);
  EXPECT_EQ(config.at("bos_token_id"), 256);
}

TEST(SaveCheckpoint, ConfigSaysWhatHuggingFaceNeeds) {
  const TemporaryFolder folder;
  GptShape shape = tiny_shape;
  shape.bias = Bias::none;
  TinyRun(shape).save(folder / "a");
  const auto config = nlohmann::json::parse(read_file(folder / "a" / "config.json"));
  const auto expected = nlohmann::json::parse(R"({
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 11, "n_positions": 6, "n_ctx": 6,
    "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": null, "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.125, "embd_pdrop": 0.125, "attn_pdrop": 0.125,
    "initializer_range": 0.02, "scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false,
    "tie_word_embeddings": true, "use_cache": true, "bos_token_id": null, "eos_token_id": null,
    "torch_dtype": "float32", "dtype": "float32", "inkling": {"bias": false}})");
  EXPECT_EQ(config, expected);
}

TEST(SaveCheckpoint, InklingsOwnFamilyBringsThePythonThatItsConfigNames) {
  const TemporaryFolder folder;
  GptShape shape = tiny_shape;
  TinyRun(shape).save(folder / "gpt2");
  shape.position = Position::none;
  TinyRun(shape).save(folder / "inkling");
  const auto config = nlohmann::json::parse(read_file(folder / "inkling" / "config.json"));
  const auto expected = nlohmann::json::parse(R"({"AutoConfig": "modeling_inkling.InklingConfig",
    "AutoModelForCausalLM": "modeling_inkling.InklingForCausalLM"})");
  EXPECT_EQ(config.at("auto_map"), expected);
  const std::string python = read_file(folder / "inkling" / "modeling_inkling.py");
  EXPECT_EQ(python, read_file(fs::path(INKLING_SOURCE_DIR) / "src/checkpoint/modeling_inkling.py"));
  for (const char* name : {"\nclass InklingConfig(", "\nclass InklingForCausalLM("})
    EXPECT_TRUE(contains(python, name));
  EXPECT_FALSE(fs::exists(folder / "gpt2" / "modeling_inkling.py"));
  EXPECT_FALSE(nlohmann::json::parse(read_file(folder / "gpt2" / "config.json")).contains("auto_map"));
}

TEST(LoadWeights, OfInklingsOwnFamilyNeedsNoPython) {
  const TemporaryFolder folder;
  GptShape shape = tiny_shape;
  shape.position = Position::none;
  const TinyRun saved(shape);
  saved.save(folder / "a");
  const fs::path python = folder / "a" / "modeling_inkling.py";
  write_file(python, "# for another transformers\n");
  EXPECT_NO_THROW(check_checkpoint(folder / "a"));
  fs::remove(python);
  EXPECT_NO_THROW(check_checkpoint(folder / "a"));
  edit(folder / "a" / "config.json", "\"auto_map\"", "\"other\"");
  TinyRun loaded(shape);
  loaded.randomize(2);
  load_weights(folder / "a", read_shape(folder / "a"), loaded.arena);
  EXPECT_TRUE(same_bits(loaded.arena.values(), saved.arena.values()));
}

TEST(SaveCheckpoint, ModelWithoutBiasesWritesZeros) {
  const TemporaryFolder folder;
  GptShape shape = tiny_shape;
  shape.bias = Bias::none;
  TinyRun(shape).save(folder / "a");
  const StoredTensors stored(folder / "a" / "model.safetensors");
  EXPECT_EQ(stored.metadata.at("format"), "pt");
  const StoredTensor& bias = stored.tensors.at("transformer.h.1.mlp.c_fc.bias");
  EXPECT_EQ(bias.shape, std::vector<std::uint64_t>{32});
  EXPECT_EQ(bias.bytes, std::vector<std::byte>(32 * 4));
  EXPECT_EQ(stored.tensors.size(), 2U + 2U * 12U + 2U);
  const StoredTensors moments(folder / "a" / "optimizer.safetensors");
  EXPECT_FALSE(moments.tensors.contains("moment1.transformer.h.1.mlp.c_fc.bias"));
  EXPECT_EQ(moments.tensors.at("moment2.transformer.h.1.mlp.c_fc.weight").shape, (std::vector<std::uint64_t>{8, 32}));
}

// Version 1 of optimizer.safetensors had the names of parameters without "transformer." in front.
TEST(LoadOptimizer, ReadsMomentsOfVersion1) {
  const TemporaryFolder folder;
  const TinyRun saved;
  saved.save(folder / "a");
  StoredTensors moments(folder / "a" / "optimizer.safetensors");
  for (const OptimizerState& state : saved.optimizer.states()) {
    moments.rename(str(state.name, ".transformer.", state.parameter), str(state.name, ".", state.parameter));
  }
  moments.metadata["version"] = "1";
  moments.write(folder / "a" / "optimizer.safetensors");
  TinyRun loaded;
  loaded.randomize(9);
  load_optimizer(folder / "a", loaded.arena, loaded.optimizer);
  expect_same_states(loaded.optimizer, saved.optimizer);
}

class OptimizerChange : public testing::TestWithParam<std::pair<OptimizerName, OptimizerName>> {};

// What both keep is taken over bit for bit, and what the new one has for itself begins at zero.
TEST_P(OptimizerChange, TakesOverWhatBothOptimizersKeep) {
  const auto [before, after] = GetParam();
  const TemporaryFolder folder;
  const TinyRun saved(tiny_shape, before);
  saved.save(folder / "a");
  EXPECT_EQ(optimizer_steps(folder / "a"), 3);
  TinyRun goes_on(tiny_shape, after);
  Optimizer optimizer(goes_on.arena, {.name = after}, cpu_backend());
  load_optimizer(folder / "a", goes_on.arena, optimizer);
  EXPECT_EQ(optimizer.steps(), 3);
  for (const OptimizerState& state : optimizer.states()) {
    at::Tensor expected = at::zeros_like(state.value);
    for (const OptimizerState& old : saved.optimizer.states()) {
      if (old.name == state.name && old.parameter == state.parameter) expected = old.value;
    }
    EXPECT_TRUE(same_bits(state.value, expected)) << state.name << " of " << state.parameter;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerChange,
                         testing::Values(std::pair(OptimizerName::adamw, OptimizerName::muon),
                                         std::pair(OptimizerName::muon, OptimizerName::adamw),
                                         std::pair(OptimizerName::muon, OptimizerName::muon)));

TEST(SaveCheckpoint, MuonKeepsAMomentumOfMatricesAndMomentsOfTheRest) {
  const TemporaryFolder folder;
  TinyRun(tiny_shape, OptimizerName::muon).save(folder / "a");
  const StoredTensors stored(folder / "a" / "optimizer.safetensors");
  EXPECT_EQ(stored.metadata.at("format"), "inkling-muon");
  EXPECT_EQ(stored.tensors.size(), 4U * 2U + 2U * (2U + 2U * 8U + 2U));
  for (const char* name : {"momentum.transformer.h.1.mlp.c_fc.weight", "moment1.transformer.h.1.mlp.c_fc.bias",
                           "moment2.transformer.wte.weight", "moment1.transformer.ln_f.weight"}) {
    EXPECT_TRUE(stored.tensors.contains(name)) << name;
  }
  EXPECT_FALSE(stored.tensors.contains("moment1.transformer.h.1.mlp.c_fc.weight"));
}

TEST(LoadOptimizer, RefusesAFileThatLacksWhatItsWriterKeeps) {
  const TemporaryFolder folder;
  TinyRun run(tiny_shape, OptimizerName::muon);
  run.save(folder / "a");
  StoredTensors stored(folder / "a" / "optimizer.safetensors");
  stored.tensors.erase("momentum.transformer.h.0.attn.c_attn.weight");
  stored.write(folder / "a" / "optimizer.safetensors");
  TinyRun by_adamw;
  for (TinyRun* reader : {&run, &by_adamw}) {
    expect_refused([&] { load_optimizer(folder / "a", reader->arena, reader->optimizer); },
                   {"optimizer.safetensors", "\"momentum.transformer.h.0.attn.c_attn.weight\""});
  }
}

TEST(SaveCheckpoint, ReplacesWhatStandsUnderTheName) {
  const TemporaryFolder folder;
  TinyRun run;
  run.save(folder / "a");
  write_file(folder / "a" / "stranger", "of another time");
  run.randomize(2);
  run.save(folder / "a");
  EXPECT_FALSE(fs::exists(folder / "a" / "stranger"));
  TinyRun loaded;
  load_weights(folder / "a", loaded.shape, loaded.arena);
  EXPECT_TRUE(same_bits(loaded.arena.values(), run.arena.values()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "the old folder was left behind";
}

TEST(LoadWeights, FillsTheBfloat16CopyToo) {
  const TemporaryFolder folder;
  const TinyRun saved;
  saved.save(folder / "a");
  ParameterArena arena(gpt_parameters(tiny_shape), at::kCPU, at::kBFloat16, Gradients::none);
  load_weights(folder / "a", tiny_shape, arena);
  EXPECT_TRUE(same_bits(arena.values(), saved.arena.values()));
  EXPECT_TRUE(same_bits(arena.weight("wte.weight").value, saved.arena.master("wte.weight").to(at::kBFloat16)));
}

// The files without which no state.json is accepted.
void write_other_files(const fs::path& folder) {
  for (const char* name : {"config.json", "config.yaml", "model.safetensors", "optimizer.safetensors"}) {
    overwrite(folder / name, "x");
  }
}

TEST(State, EveryNumberReturnsExactly) {
  const TemporaryFolder folder;
  write_other_files(folder.path());
  EXPECT_TRUE(rc::check([&] {
    const auto finite = rc::gen::suchThat(rc::gen::map(rc::gen::arbitrary<std::uint64_t>(),
                                                       [](std::uint64_t bits) { return std::bit_cast<double>(bits); }),
                                          [](double value) { return std::isfinite(value); });
    const auto up_to = [](std::int64_t most) { return *rc::gen::inRange<std::int64_t>(0, most + 1); };
    TrainingState state;
    state.step = up_to(1'000'000'000);
    if (*rc::gen::arbitrary<bool>()) {
      state.best_val_loss = *finite;
      state.best_step = up_to(state.step);
      if (*rc::gen::arbitrary<bool>()) state.train_loss_at_best = *finite;
    }
    state.evaluations_since_best = up_to(state.step);
    state.overfitting_in_a_row = up_to(overfitting_seen);
    state.seconds = std::abs(*finite);
    state.skipped_steps = up_to(state.step);
    state.skipped_in_a_row = up_to(state.skipped_steps);
    state.reports_due = *rc::gen::arbitrary<bool>();
    state.data_hash = "hash \"with\" quotes, ä and \n";
    state.resolved.device =
        *rc::gen::element(DeviceChoice{}, DeviceChoice{.cuda = true}, DeviceChoice{.cuda = true, .index = 7});
    state.resolved.dtype = *rc::gen::element(Dtype::float32, Dtype::bfloat16);
    state.resolved.threads = 1 + up_to(4095);
    state.resolved.kernels = *rc::gen::element(Kernels::fused, Kernels::reference);
    state.resolved.micro_batch_size = up_to(100'000);
    state.resolved.deterministic = *rc::gen::arbitrary<bool>();
    write_state_again(folder.path(), state);
    expect_same_state(load_state(folder.path()), state);
    RC_ASSERT(!testing::Test::HasFailure());
  }));
}

TEST(State, LossThatIsNotFiniteIsNeverTheBest) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  TrainingState state;
  std::vector<bool> best;
  for (const double loss : {nan, infinity, 3.0, nan, -infinity, 3.0, 2.5, 2.75}) {
    ++state.step;
    best.push_back(note_validation_loss(state, loss));
  }
  EXPECT_EQ(best, (std::vector<bool>{false, false, true, false, false, false, true, false}));
  EXPECT_EQ(state.best_val_loss, 2.5);
  EXPECT_EQ(state.best_step, 7);
  EXPECT_EQ(state.evaluations_since_best, 1);
}

TEST(State, OfAnOlderVersionHasNoEvaluationSinceTheBest) {
  const TemporaryFolder folder;
  TinyRun run;
  run.state.train_loss_at_best = 1.5;
  run.state.evaluations_since_best = 2;
  run.state.overfitting_in_a_row = 1;
  run.state.reports_due = true;
  run.save(folder / "a");
  for (const char* field : {"train_loss_at_best", "evaluations_since_best", "overfitting_in_a_row", "reports_due"}) {
    edit(folder / "a/state.json", str("\"", field, "\""), str("\"not_", field, "\""));
  }
  seal_again(folder / "a/state.json");
  run.state.train_loss_at_best.reset();
  run.state.evaluations_since_best = run.state.overfitting_in_a_row = 0;
  run.state.reports_due = false;
  expect_same_state(load_state(folder / "a"), run.state);
}

TEST(State, ResumedAfterAnyLossTheSameOnesAreTheBest) {
  const TemporaryFolder folder;
  write_other_files(folder.path());
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  TrainingState whole, parts;
  for (const double loss : {nan, 3.0, nan, 4.0, 2.0}) {
    ++whole.step;
    ++parts.step;
    EXPECT_EQ(note_validation_loss(whole, loss), note_validation_loss(parts, loss)) << "step " << whole.step;
    write_state_again(folder.path(), parts);
    parts = load_state(folder.path());
    expect_same_state(whole, parts);
  }
}

TEST(State, FirstLossOfNanThatVersion1TookForTheBestCountsAsNone) {
  const TemporaryFolder folder;
  TinyRun run;
  run.state.best_val_loss.reset();
  run.save(folder / "a");
  make_version_1(folder / "a");
  edit(folder / "a/state.json", "\"best_step\": 1", "\"best_step\": 3");
  EXPECT_EQ(load_state(folder / "a").best_step, -1);
}

}  // namespace
}  // namespace inkling
