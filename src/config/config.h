// The settings of a run: one YAML file is the whole truth, --set overrides it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace inkling {

// The meaning, range and class of every member stand in one list: fields.cpp. docs/formats.md shows it as tables.

struct TokenizerConfig {
  std::string kind = "char";           // byte | char | sentencepiece
  std::uint64_t vocab_size = 4096;     // sentencepiece alone
  std::string model_type = "unigram";  // sentencepiece alone: unigram | bpe
  double character_coverage = 0.9995;  // sentencepiece alone
};

struct DataConfig {
  std::vector<std::string> source;             // at least one after load_config()
  std::vector<std::string> validation_source;  // empty: the tail of each source
  std::string jsonl_field = "text";
  std::uint64_t vocab_size = 0;  // above 0 exactly where the sources are ready token files (*.bin)
  TokenizerConfig tokenizer;
  double val_fraction = 0.1;
  std::string order = "epoch";  // epoch | random
  std::string dir = "auto";     // auto: data/<hash of the settings>
  std::uint64_t stories = 20000;
  std::uint64_t grammar_seed = 1;
};

struct ModelConfig {
  std::int64_t n_layer = 6, n_head = 6, n_embd = 384, block_size = 256;
  double dropout = 0.0;
  bool bias = true;
  std::string gelu = "tanh";  // tanh | exact
};

struct OptimizerConfig {
  std::string name = "adamw";
  double learning_rate = 6e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double grad_clip = 1.0;  // 0: no clipping
};

struct ScheduleConfig {
  std::string name = "cosine";  // cosine | constant
  std::int64_t warmup_steps = 100;
  std::int64_t decay_steps = 0;  // 0: training.max_steps
  double min_learning_rate = 6e-5;
};

struct TrainingConfig {
  std::int64_t max_steps = 5000, batch_size = 12;
  std::int64_t micro_batch_size = 0;  // 0: the most that fit into memory; otherwise divides batch_size
  std::string recompute = "none";     // none | gelu | block
  std::uint64_t seed = 1;
};

struct EvaluationConfig {
  std::int64_t interval = 250, batches = 20;
};

struct CheckpointConfig {
  std::int64_t interval = 500;
  std::int64_t keep = 1;  // how many of the newest; the best is kept besides
};

struct LoggingConfig {
  std::int64_t interval = 10;
};

struct RuntimeConfig {
  std::string device = "auto";   // auto | cpu | cuda | cuda:N
  std::string dtype = "auto";    // auto | float32 | bfloat16
  std::int64_t threads = 0;      // 0: one per physical core
  std::string kernels = "auto";  // auto | fused | aten
  double memory_limit_gib = 0;   // 0: what is free
  bool deterministic = true;
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
  RuntimeConfig runtime;
};

// Reads a file and applies "section.key=value" overrides in order. Error input with file:line:column
// (or "--set section.key=value") for everything that is not a known setting with a value in its range, and for
// settings that do not fit together (n_embd that n_head does not divide …).
// What a person names on the command line may be a pipe.
Config load_config(const std::filesystem::path& path, std::span<const std::string> overrides);

// The same for the config.yaml that a run or a checkpoint has kept, which is a file.
Config load_kept_config(const std::filesystem::path& path, std::span<const std::string> overrides);

// The same from text; `name` stands for the path in messages.
Config parse_config(std::string_view yaml, std::string_view name, std::span<const std::string> overrides);

// Whether `text` may stand for the setting `key` ("runtime.device"): for other files that keep settings.
bool is_allowed(const std::string& key, const std::string& text);

// YAML with every setting written out; parse_config() of it gives the same Config, and the same text again.
std::string print_config(const Config& config);

// What changing a setting between a run and its resumption means.
enum class OnResume {
  free,    // applies without a word of consent: max_steps, intervals, logging, paths
  ask,     // needs --accept-changes
  refuse,  // another model or other data: needs --fresh
};

struct ConfigChange {
  std::string key;     // "optimizer.learning_rate"
  std::string before;  // as print_config writes it
  std::string after;
  OnResume on_resume;
};

std::vector<ConfigChange> compare_configs(const Config& before, const Config& after);

// For the person: one line per change, "optimizer.learning_rate: 0.001 -> 0.0005 (needs --accept-changes)".
std::string describe_changes(std::span<const ConfigChange> changes);

// The reference for docs/formats.md: one Markdown table per section, from the field list.
std::string config_reference();

// What the names in data.source and data.validation_source stand for.
enum class SourceKind {
  text,         // files, folders, .jsonl
  grammar,      // one *.grammar
  token_files,  // *.bin, with data.vocab_size
};
SourceKind source_kind(const DataConfig& data);

// schedule.decay_steps, whose 0 stands for training.max_steps.
std::int64_t decay_steps(const Config& config);

}  // namespace inkling
