// The settings of a run. One YAML file is the whole truth, and --set overrides it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_shape.h"
#include "config/tokenizer_settings.h"
#include "kernels/kernel_settings.h"

namespace inkling {

// fields.cpp lists what every member means, what it may be and what changing it on a resume means; docs/formats.md
// shows that list as tables. An empty optional is the word auto.

enum class WindowKind { epoch, random };
template <>
inline constexpr Words<2> words_of<WindowKind>{"epoch", "random"};

// Whether documents in one window see each other, and where windows begin.
enum class Documents { join, mask, align };
template <>
inline constexpr Words<3> words_of<Documents>{"join", "mask", "align"};

struct DataConfig {
  std::vector<std::string> source;             // at least one after load_config()
  std::vector<std::string> validation_source;  // empty: the tail of each source
  std::string jsonl_field = "text";
  std::optional<std::string> separator = {};  // stands in texts where a document ends; auto: nothing does
  bool raw = false;                           // every file is one text, whatever it is
  std::uint64_t vocab_size = 0;               // above 0 exactly where the sources are ready token files (*.bin)
  bool headerless = false;                    // these are nothing but 16-bit tokens
  TokenizerConfig tokenizer;
  double val_fraction = 0.1;
  WindowKind order = WindowKind::epoch;
  Documents documents = Documents::join;
  std::optional<std::string> dir = {};  // auto: data/<name>-<tokenizer>-<hash of the settings>
  std::uint64_t stories = 20000;
  std::uint64_t grammar_seed = 1;

  bool keeps_documents_apart() const { return documents != Documents::join; }
};

enum class OptimizerName { adamw, muon };
template <>
inline constexpr Words<2> words_of<OptimizerName>{"adamw", "muon"};

// How Muon updates the hidden matrices (Jordan et al. 2024); AdamW updates the rest.
struct MuonConfig {
  double learning_rate = 0.02, momentum = 0.95, weight_decay = 0.1;
  std::int64_t newton_schulz_steps = 5;
};

struct OptimizerConfig {
  OptimizerName name = OptimizerName::adamw;
  double learning_rate = 6e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double grad_clip = 1.0;  // 0: no clipping
  // Peaks of a parameter group; auto: learning_rate.
  std::optional<double> embedding_learning_rate = {}, head_learning_rate = {}, vector_learning_rate = {};
  MuonConfig muon = {};
};

enum class ScheduleName { cosine, linear, wsd, constant };
template <>
inline constexpr Words<4> words_of<ScheduleName>{"cosine", "linear", "wsd", "constant"};

struct ScheduleConfig {
  ScheduleName name = ScheduleName::cosine;
  std::int64_t warmup_steps = 100;
  std::optional<std::int64_t> decay_steps = {};  // auto: training.max_steps
  double decay_fraction = 0.2;                   // of decay_steps, at their end; wsd alone
  double min_learning_rate = 6e-5;
};

// Recompute says what the backward pass computes again instead of keeping it: nothing, what the MLP's activation gave
// (with the fused kernels only), or all of a block but its input.
enum class Recompute { none, gelu, block };
template <>
inline constexpr Words<3> words_of<Recompute>{"none", "gelu", "block"};

// What ends training before its last step.
struct StopConfig {
  std::int64_t patience = 0;  // evaluations in a row without a better validation loss; 0: never
};

struct TrainingConfig {
  std::int64_t max_steps = 5000, batch_size = 12;
  double max_hours = 0.0;  // of wall time that a start of the program takes, after which it saves and ends; 0: no limit
  std::optional<std::int64_t> micro_batch_size = {};  // divides batch_size; auto: as many windows as fit into memory
  Recompute recompute = Recompute::none;
  std::uint64_t seed = 1;
  double ema = 0.0;  // the beta of an average of the weights; 0: none is kept
  StopConfig stop_when;
};

struct EvaluationConfig {
  std::int64_t interval = 250, batches = 20;
};

struct CheckpointConfig {
  std::int64_t interval = 500;
  std::int64_t keep = 1;  // how many of the newest stay; the best one stays as well
};

struct LoggingConfig {
  std::int64_t interval = 10;
  bool tensorboard = false;
  std::int64_t histograms = 0;  // steps; 0: none
};

// Samples that are drawn while the model trains, each time with the same random numbers.
struct SamplingConfig {
  std::int64_t interval = 0;         // steps; 0: none
  std::vector<std::string> prompts;  // none: one sample from the beginning of a document
  std::uint64_t max_tokens = 200;    // of each sample, prompt not counted
  SamplingSettings settings;         // temperature, top_k and top_p
  std::uint64_t seed = 1;
};

struct DeviceChoice {
  bool cuda = false;
  std::optional<int> index = {};  // which GPU, counted from 0; none: the setting says cuda alone
  bool operator==(const DeviceChoice&) const = default;
};

// Returns "cpu", "cuda" or "cuda:1", as runtime.device writes it.
std::string device_text(const DeviceChoice& device);

enum class Dtype { float32, bfloat16 };
template <>
inline constexpr Words<2> words_of<Dtype>{"float32", "bfloat16"};

// fused computes with our own loops on the CPU, in float32 (without gradients also from weights in bfloat16), and with
// our own kernels on a GPU, in float32 and bfloat16 with the gradients of weights in float32. reference composes
// LibTorch's operations, on any device and in any dtype; it is slower, and is the second opinion on fused.
enum class Kernels { fused, reference };
template <>
inline constexpr Words<2> words_of<Kernels>{"fused", "reference"};

// What a training step shares out over the threads of a CPU: its batch, of which each takes whole micro-batches, or
// each product and loop. On a GPU: whether micro-batches are added up in that same tree, or one after the other.
enum class WorkSplit { batch, products };
template <>
inline constexpr Words<2> words_of<WorkSplit>{"batch", "products"};

struct RuntimeConfig {
  std::optional<DeviceChoice> device = {};
  std::optional<Dtype> dtype = {};
  std::optional<std::int64_t> threads = {};  // auto: what base/thread_choice.h allows
  std::optional<WorkSplit> split = {};
  std::optional<Kernels> kernels = {};
  std::optional<double> memory_limit_gib = {};  // auto: what train/resources.h makes of what is free
  bool deterministic = true;
};

// Several processes that train one model together.
struct RanksConfig {
  double timeout = 120;         // seconds
  bool shard_optimizer = true;  // ZeRO-1 (Rajbhandari et al. 2020)
};

// Where each setting stands that the person wrote ("file:line:column" or "--set section.key=value").
struct WrittenPlaces {
  std::string name;                          // the file, for what is not written anywhere
  std::map<std::string, std::string> files;  // by key
  std::map<std::string, std::string> flags;  // by key; these came later and count more

  // Returns the place of the setting; none if nobody wrote it.
  std::optional<std::string> find(const std::string& key) const;
};

struct Config {
  DataConfig data;
  ModelConfig model;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainingConfig training;
  EvaluationConfig evaluation;
  CheckpointConfig checkpoint;
  LoggingConfig logging;
  SamplingConfig sampling;
  RuntimeConfig runtime;
  RanksConfig ranks;
  WrittenPlaces written;
};

// Reads the file that a person names, which may be a pipe, and applies "section.key=value" overrides in order. Tells
// the person once of each old word. Throws an Error input with file:line:column (or "--set section.key=value") for
// everything that is not a known setting with a value in its range, and for settings that do not fit together (n_embd
// that n_head does not divide …). With model.init_from the shape is not known yet: see inherit_shape().
Config load_config(const std::filesystem::path& path, std::span<const std::string> overrides);

// Does the same for the config.yaml that a run or a checkpoint has kept, whose old words are nobody's concern.
Config load_kept_config(const std::filesystem::path& path, std::span<const std::string> overrides);

// Does the same as load_config() for a text; `name` stands for the path in messages.
Config parse_config(std::string_view yaml, std::string_view name, std::span<const std::string> overrides);

// Returns the defaults with these overrides, for a program that reads no text of the config's own. Throws as
// load_config() does, but data.source may be missing.
Config defaults_with(std::span<const std::string> overrides);

// Returns the config with these overrides, which need not fit together yet. Throws an Error input for what is not a
// known setting with a value in its range.
Config overridden(const Config& config, std::span<const std::string> overrides);

// Gives one setting the value that a flag of its own has: ("runtime.threads", "4", "--threads"). Messages call it by
// the flag. Throws an Error input for a value that it does not take.
void set_setting(Config& config, const std::string& key, const std::string& value, const std::string& flag);

// Throws an Error input if there is nothing to train on.
void require_source(const Config& config);

// Throws an Error input that names the place of a setting which does not fit another one.
void check_fit(const Config& config);

// Does so for the settings of model: alone, which check_fit() leaves out where model.init_from completes them.
void check_model_fit(const Config& config);

// Returns YAML with every setting written out. parse_config() reads the same Config from it.
std::string print_config(const Config& config);

// The same of the settings that differ from the defaults or have a comment, by their keys, which stands behind them.
std::string print_config(const Config& config, const std::map<std::string, std::string>& comments);

// Returns the reference for docs/formats.md: one Markdown table for each section.
std::string config_reference();

// Returns the JSON schema (draft 2020-12) of a config file. It says of one setting what reading the file would say,
// with its old words and its old name, and nothing of settings that must fit together. Each setting also has
// "x-values", what it takes in words, and "x-on-resume".
std::string config_schema();

// Returns how --help names the values of a setting: "auto|float32|bfloat16", "auto|N". Words that are typed as they
// stand are in lower case, places for others in upper case.
std::string values_as_type(std::string_view key);

// SourceKind says what the names in data.source and data.validation_source stand for.
enum class SourceKind {
  text,         // files, folders, .jsonl
  grammar,      // one *.grammar
  token_files,  // *.bin, with data.vocab_size
};
SourceKind source_kind(const DataConfig& data);

}  // namespace inkling
