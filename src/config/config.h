// The settings of a run. One YAML file is the whole truth, and --set overrides it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "config/bpe_settings.h"
#include "kernels/kernel_settings.h"

namespace inkling {

// fields.cpp lists what every member means, what it may be and what changing it on a resume means; docs/formats.md
// shows that list as tables. The words that stand for an enum's values are at the end. An empty optional is the word
// auto.

enum class TokenizerKind { byte, character, sentencepiece, bpe };
enum class PieceModel { unigram, bpe };

struct TokenizerConfig {
  TokenizerKind kind = TokenizerKind::character;
  std::optional<std::string> from = {};         // a path, for bpe also gpt2; auto: learned from the text
  std::optional<Pattern> pattern = {};          // bpe alone; auto: what `from` says, or gpt2
  std::uint64_t vocab_size = 4096;              // of what is learned: sentencepiece, bpe
  PieceModel model_type = PieceModel::unigram;  // sentencepiece alone
  double character_coverage = 0.9995;           // sentencepiece alone
};

enum class WindowKind { epoch, random };

// Whether documents in one window see each other, and where windows begin.
enum class Documents { join, mask, align };

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
};

// The largest of what a model may have: layers, heads, channels of a token or a head and inside the MLP, positions,
// tokens.
inline constexpr std::int64_t most_layers = 1000, most_heads = 1000, widest = 65'536, widest_inner = 1'048'576,
                              longest_block = 1'048'576, largest_vocabulary = 4'294'967'295;

// The most positions that a convolution of the model sees.
inline constexpr std::int64_t longest_conv = 32;

// What float32 still computes with.
inline constexpr double least_softcap = 1e-3, most_softcap = 1e6, least_norm_epsilon = 1e-30;

// How a token knows where it stands: by a learned table of positions, by queries and keys that turn with it (rotary
// position embedding, Su et al. 2021), or only by what the mask hides from it.
enum class Position { learned, rope, none };

// The transformer's shape. The vocabulary is the tokenizer's, not a setting.
struct GptShape {
  std::int64_t n_layer = 6, n_head = 6, n_embd = 384, block_size = 256, vocab_size = 0;
  bool bias = true;
  bool tie_embeddings = true;                  // the output head is the token table
  std::optional<std::int64_t> n_kv_head = {};  // as many keys and values as queries
  std::optional<std::int64_t> head_size = {};  // n_embd / n_head
  std::optional<std::int64_t> n_inner = {};    // channels between the two layers of the MLP
  Activation activation = Activation::gelu_tanh;
  double logit_softcap = 0.0;  // 0: off
  bool qk_norm = false;        // RMSNorm of each query and key, before they turn
  Position position = Position::learned;
  double rope_theta = 10'000;
  NormKind norm = NormKind::layernorm;
  double norm_epsilon = 1e-5;
  bool norm_weights = true;     // of RMSNorms, those of qk_norm too; LayerNorms always have them
  bool embedding_norm = false;  // a norm right behind the embeddings
  std::int64_t conv = 0;        // positions of the convolutions behind the two norms of each block; 0: there are none
  std::vector<AttentionPattern> patterns = {};  // repeated over the layers, as short as can be; none: all are full

  bool norm_bias() const { return bias && norm == NormKind::layernorm; }
  bool has_weights(NormKind kind) const { return norm_weights || kind == NormKind::layernorm; }
  // The heads, which are the same in every layer; and with what they see in this one.
  AttentionForm attention() const { return {n_head, n_kv_head.value_or(n_head), head_size.value_or(n_embd / n_head)}; }
  AttentionForm attention(std::size_t layer) const {
    AttentionForm form = attention();
    if (!patterns.empty()) form.pattern = patterns[layer % patterns.size()];
    return form;
  }
  // Whether text can go on without end in bounded memory: each layer sees a window that fits into the block, which it
  // was trained to see, and no table of positions ends.
  bool is_endless() const;
  // For a gated MLP, which has three matrices, 8 C / 3 rounded up to a multiple of 64 gives as many weights as 4 C.
  std::int64_t inner() const {
    return n_inner.value_or(is_gated(activation) ? (8 * n_embd + 191) / 192 * 64 : 4 * n_embd);
  }
  std::int64_t widened() const { return inkling::widened(activation, inner()); }

  auto all() const {
    return std::tuple(n_layer, qk_norm, logit_softcap, tie_embeddings, n_head, attention().n_kv_head,
                      attention().head_size, n_embd, block_size, vocab_size, bias, inner(), activation, position,
                      position == Position::rope ? rope_theta : 0.0, norm, norm_epsilon, norm_weights, embedding_norm,
                      conv, layer_patterns());
  }
  std::vector<AttentionPattern> layer_patterns() const;  // one for each layer
  // Compares what `auto` comes to.
  bool operator==(const GptShape& other) const { return all() == other.all(); }
};

// How new weights begin: as GPT-2's do, or such that every block and the head give nothing at first, so that the first
// steps already learn what matters (nanochat, modded-nanogpt).
enum class Initialization { gpt2, zero_output };

struct ModelConfig : GptShape {
  double dropout = 0.0;
  Initialization initialization = Initialization::gpt2;
  std::optional<std::string> init_from = {};  // a model's folder; auto: new weights
};

enum class OptimizerName { adamw, muon };

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

// Returns "full", "local 128" or "dilated 64 4", as model.attention writes it.
std::string pattern_text(const AttentionPattern& pattern);
std::vector<std::string> pattern_texts(const std::vector<AttentionPattern>& patterns);

// Reads one of them again: what the text says, or what is wrong with it.
struct PatternReading {
  std::optional<AttentionPattern> value;
  std::string problem;  // "has a window of 0, and …"
};
PatternReading read_pattern(std::string_view text);

// Returns the shortest list that gives every layer the same when it repeats; an empty one where all are full.
std::vector<AttentionPattern> shortest_patterns(std::vector<AttentionPattern> patterns);

// Returns "cpu", "cuda" or "cuda:1", as runtime.device writes it.
std::string device_text(const DeviceChoice& device);

enum class Dtype { float32, bfloat16 };

// fused computes with our own loops on the CPU, in float32 (without gradients also from weights in bfloat16), and with
// our own kernels on a GPU, in float32 and bfloat16 with the gradients of weights in float32. reference composes
// LibTorch's operations, on any device and in any dtype; it is slower, and is the second opinion on fused.
enum class Kernels { fused, reference };

struct RuntimeConfig {
  std::optional<DeviceChoice> device = {};
  std::optional<Dtype> dtype = {};
  std::optional<std::int64_t> threads = {};  // auto: what base/thread_choice.h allows
  std::optional<Kernels> kernels = {};
  std::optional<double> memory_limit_gib = {};  // auto: what train/fit.h makes of what is free
  bool deterministic = true;
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

// Completes the shape of a run that starts from a model: what the person left out of model:, or wrote as auto, becomes
// what `stored` has. Throws an Error input for settings that do not fit together.
void complete_shape(Config& config, const GptShape& stored);

// Does so where the model's weights are in `folder`. Throws an Error input with the place of a setting that says
// otherwise than `stored`; block_size may.
void inherit_shape(Config& config, const GptShape& stored, const std::string& folder);

// Returns YAML with every setting written out. parse_config() reads the same Config from it.
std::string print_config(const Config& config);

// OnResume says what it means that a setting changes between a run and its resumption.
enum class OnResume {
  free,    // applies without anybody's consent: max_steps, intervals, logging, paths
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

// Returns the reference for docs/formats.md: one Markdown table for each section.
std::string config_reference();

// SourceKind says what the names in data.source and data.validation_source stand for.
enum class SourceKind {
  text,         // files, folders, .jsonl
  grammar,      // one *.grammar
  token_files,  // *.bin, with data.vocab_size
};
SourceKind source_kind(const DataConfig& data);

// Resolved is what a run made of every `auto`. A checkpoint keeps it in state.json, so that a resumed run uses the
// same.
struct Resolved {
  DeviceChoice device;
  Dtype dtype = Dtype::float32;
  std::int64_t threads = 1;
  Kernels kernels = Kernels::fused;
  bool deterministic = true;
  std::int64_t micro_batch_size = 0;  // 0: not known, because an older version wrote the checkpoint
};

// The words that stand for the values of an enum in files, flags and messages. Each enum has a line, in its own order.
template <std::size_t count>
using Words = std::array<std::string_view, count>;

// clang-format off
template <class Enum> inline constexpr Words<0> words_of{};
template <> inline constexpr Words<4> words_of<TokenizerKind>{"byte", "char", "sentencepiece", "bpe"};
template <> inline constexpr Words<3> words_of<Pattern>{"gpt2", "cl100k", "llama3"};
template <> inline constexpr Words<2> words_of<PieceModel>{"unigram", "bpe"};
template <> inline constexpr Words<2> words_of<WindowKind>{"epoch", "random"};
template <> inline constexpr Words<3> words_of<Documents>{"join", "mask", "align"};
template <> inline constexpr Words<6> words_of<Activation>{"gelu_tanh", "gelu", "relu", "relu_squared", "swiglu", "geglu"};
template <> inline constexpr Words<3> words_of<Position>{"learned", "rope", "none"};
template <> inline constexpr Words<2> words_of<NormKind>{"layernorm", "rmsnorm"};
template <> inline constexpr Words<2> words_of<Initialization>{"gpt2", "zero_output"};
template <> inline constexpr Words<2> words_of<OptimizerName>{"adamw", "muon"};
template <> inline constexpr Words<4> words_of<ScheduleName>{"cosine", "linear", "wsd", "constant"};
template <> inline constexpr Words<3> words_of<Recompute>{"none", "gelu", "block"};
template <> inline constexpr Words<2> words_of<Dtype>{"float32", "bfloat16"};
template <> inline constexpr Words<2> words_of<Kernels>{"fused", "reference"};
// clang-format on

// Returns "char" for TokenizerKind::character.
template <class Enum>
constexpr std::string_view word_of(Enum value) {
  return words_of<Enum>[static_cast<std::size_t>(value)];
}

}  // namespace inkling
