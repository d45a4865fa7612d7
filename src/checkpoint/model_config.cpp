#include "checkpoint/model_config.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "checkpoint/config_keys.h"
#include "checkpoint/rope_config.h"
#include "config/limits.h"
#include "formats/json.h"

namespace inkling {
namespace {

Activation read_activation(const JsonFields& config, const char* key, std::span<const NamedActivation> names) {
  const std::string name = config.optional_text(key).value_or(std::string(names.front().name));
  std::vector<std::string> known;
  for (const NamedActivation& each : names) {
    if (each.name == name) return each.activation;
    known.emplace_back(each.name);
  }
  config.refuse(str(key, " is ", quote(name), ", and can be computed here as ", join(known, ", ")));
}

// Returns a norm's epsilon. missing: what transformers takes without the field.
double epsilon(const JsonFields& config, const char* name, double missing) {
  const double value = config.optional_real(name).value_or(missing);
  if (value >= least_norm_epsilon && value <= 1) return value;
  config.refuse_value(name, "from 1e-30 to 1");
}

// Returns the value of an enum that the field names by a word of our settings.
template <class Enum>
Enum named(const JsonFields& config, const char* name) {
  const std::string word = config.text(name);
  const std::vector<std::string> words(words_of<Enum>.begin(), words_of<Enum>.end());
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<Enum>(found - words.begin());
  config.refuse(str(name, " is ", quote(word), ", and is one of ", join(words, ", ")));
}

void require_flag(const JsonFields& config, const char* name, bool required, const char* meaning) {
  if (config.optional_flag(name).value_or(required) == required) return;
  config.refuse(str(name, " is ", required ? "false" : "true", ": ", meaning, " cannot be computed here"));
}

// What a folder says of a model whose file has biases of zeros or weights of ones, because the family has them.
bool has(const JsonFields& config, const char* weights) {
  if (!config.has("inkling")) return true;
  const JsonFields inkling = config.section("inkling");
  inkling.refuse_unknown({weights});
  return inkling.optional_flag(weights).value_or(true);
}

// A size of GPT-2, which transformers also takes under the name that it has in other families.
std::int64_t gpt2_size(const JsonFields& config, const char* name, const char* other, std::int64_t largest) {
  if (!config.has(other)) return config.whole(name, 1, largest);
  const std::int64_t size = config.whole(other, 1, largest);
  if (config.has(name) && config.whole(name, 1, largest) != size) {
    config.refuse(str(name, " is ", config.json(name), ", and ", other, " is ", size, ", which means the same"));
  }
  return size;
}

GptShape read_gpt2(const JsonFields& config) {
  GptShape shape;
  shape.n_layer = gpt2_size(config, "n_layer", "num_hidden_layers", most_layers);
  shape.n_head = gpt2_size(config, "n_head", "num_attention_heads", most_heads);
  shape.n_embd = gpt2_size(config, "n_embd", "hidden_size", widest);
  shape.block_size = gpt2_size(config, "n_positions", "max_position_embeddings", longest_block);
  shape.vocab_size = config.whole("vocab_size", 1, largest_vocabulary);
  if (config.has("n_inner")) shape.n_inner = config.whole("n_inner", 1, widest_inner);
  shape.activation = read_activation(config, "activation_function", plain_activations);
  shape.norm_epsilon = epsilon(config, "layer_norm_epsilon", 1e-5);
  shape.bias = has(config, "bias") ? Bias::all : Bias::none;
  shape.tie_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  if (shape.n_embd % shape.n_head != 0) {
    config.refuse(str("n_embd ", shape.n_embd, " is not divisible by n_head ", shape.n_head));
  }
  return shape;
}

// missing_kv_heads: how many heads of keys transformers takes without their field. None, or where the field is null: as
// many as of queries.
GptShape read_llama_sizes(const JsonFields& config, std::optional<std::int64_t> missing_kv_heads = {}) {
  GptShape shape;
  if (!config.is_null("num_key_value_heads")) shape.n_kv_head = missing_kv_heads;
  shape.n_layer = config.whole("num_hidden_layers", 1, most_layers);
  shape.n_head = config.whole("num_attention_heads", 1, most_heads);
  if (config.has("num_key_value_heads")) shape.n_kv_head = config.whole("num_key_value_heads", 1, most_heads);
  if (config.has("head_dim")) shape.head_size = config.whole("head_dim", 1, widest);
  shape.n_embd = config.whole("hidden_size", 1, widest);
  shape.block_size = config.whole("max_position_embeddings", 1, longest_block);
  shape.vocab_size = config.whole("vocab_size", 1, largest_vocabulary);
  shape.n_inner = config.whole("intermediate_size", 1, widest_inner);
  shape.tie_embeddings = config.optional_flag("tie_word_embeddings").value_or(false);
  if (!shape.head_size && shape.n_embd % shape.n_head != 0) {
    config.refuse(str("hidden_size ", shape.n_embd, " is not divisible by num_attention_heads ", shape.n_head));
  }
  if (shape.n_head % shape.attention().n_kv_head != 0) {
    config.refuse(str("num_attention_heads ", shape.n_head, " is not divisible by num_key_value_heads ",
                      shape.attention().n_kv_head));
  }
  return shape;
}

// The window of Mistral and both Qwens; transformers takes 4,096 where the file has none, and null is full attention.
AttentionPattern read_window(const JsonFields& config) {
  if (config.is_null("sliding_window")) return {};
  return {config.has("sliding_window") ? config.whole("sliding_window", 1, longest_block) : 4096, 1};
}

// transformers computes a Llama without windows, whatever its file says of them.
void refuse_windows(const JsonFields& config, std::int64_t block_size) {
  require_flag(config, "use_sliding_window", false, "a Llama's window");
  if (!config.has("sliding_window") || config.has("use_sliding_window")) return;
  if (config.whole("sliding_window", 0) < block_size) config.refuse_value("sliding_window", "null in a Llama");
}

// The layers' windows as layer_types has them. why_none: what keeps the model from having any; empty where nothing
// does.
std::vector<AttentionPattern> read_layer_types(const JsonFields& config, std::int64_t n_layer,
                                               std::string_view why_none) {
  std::vector<AttentionPattern> patterns(static_cast<std::size_t>(n_layer));
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != patterns.size()) {
    config.refuse(str("layer_types names ", types.size(), " layers, and num_hidden_layers is ", n_layer));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "full_attention" || types[i] == "attention") continue;  // the second is an older name
    if (types[i] != "sliding_attention") {
      config.refuse(str("layer_types names ", quote(types[i]), ", which cannot be computed here"));
    }
    if (!why_none.empty()) config.refuse(str("layer_types names ", quote(types[i]), ", and ", why_none));
    patterns[i] = read_window(config);
    if (patterns[i].is_full()) config.refuse("layer_types names \"sliding_attention\", and sliding_window is null");
  }
  return patterns;
}

// transformers opens a Mistral with layer_types as a Ministral, where each layer is as they say; without them all
// layers have the window.
std::vector<AttentionPattern> mistral_windows(const JsonFields& config, std::int64_t n_layer) {
  if (config.has("layer_types")) return read_layer_types(config, n_layer, "");
  const AttentionPattern window = read_window(config);
  if (!window.is_full() && config.optional_flag("use_sliding_window") == false) {
    config.refuse("use_sliding_window is false, and a Mistral has the window of sliding_window all the same");
  }
  return {window};
}

// A Qwen has its window where use_sliding_window is true, and without layer_types in the layers behind the first
// max_window_layers.
std::vector<AttentionPattern> qwen_windows(const JsonFields& config, std::int64_t n_layer) {
  const bool slides = config.optional_flag("use_sliding_window").value_or(false);
  if (config.has("layer_types"))
    return read_layer_types(config, n_layer, slides ? "" : "use_sliding_window is not true");
  std::vector<AttentionPattern> patterns(static_cast<std::size_t>(n_layer));
  const std::int64_t full = config.has("max_window_layers") ? config.whole("max_window_layers", 0, most_layers) : 28;
  for (std::int64_t i = full; slides && i < n_layer; ++i) patterns[static_cast<std::size_t>(i)] = read_window(config);
  return patterns;
}

std::vector<AttentionPattern> read_windows(const JsonFields& config, Family family, const GptShape& shape) {
  if (family == Family::mistral) return mistral_windows(config, shape.n_layer);
  if (family == Family::qwen2 || family == Family::qwen3) return qwen_windows(config, shape.n_layer);
  if (config.has("layer_types")) return read_layer_types(config, shape.n_layer, "a Llama has no windows");
  refuse_windows(config, shape.block_size);
  return {};
}

// What transformers takes for heads of keys where a file does not say it.
std::optional<std::int64_t> usual_kv_heads(Family family) {
  switch (family) {
    case Family::mistral:
      return 8;
    case Family::qwen2:
    case Family::qwen3:
      return 32;
    case Family::gpt2:
    case Family::llama:
    case Family::inkling:
      break;
  }
  return std::nullopt;
}

Bias read_llama_bias(const JsonFields& config, Family family) {
  if (family == Family::qwen2) return Bias::qkv;
  if (family != Family::llama) return Bias::none;
  const bool in_attention = config.optional_flag("attention_bias").value_or(false);
  if (config.optional_flag("mlp_bias").value_or(false) != in_attention) {
    config.refuse("attention_bias and mlp_bias differ: biases in one of the two cannot be computed here");
  }
  return in_attention ? Bias::all : Bias::none;
}

GptShape read_llama(const JsonFields& config, Family family) {
  const bool is_qwen3 = family == Family::qwen3;
  if ((is_qwen3 || family == Family::qwen2) && config.is_null("head_dim")) {
    config.refuse(str("head_dim is null, and must be a number in a ", is_qwen3 ? "Qwen3" : "Qwen2"));
  }
  GptShape shape = read_llama_sizes(config, usual_kv_heads(family));
  if (is_qwen3 && !shape.head_size) shape.head_size = 128;  // as transformers has it
  shape.norm = NormKind::rmsnorm;
  shape.norm_epsilon = epsilon(config, "rms_norm_eps", 1e-6);
  shape.norm_weights = has(config, "norm_weights");
  shape.position = Position::rope;
  read_rope(config, shape);
  shape.activation = read_activation(config, "hidden_act", gated_activations);
  shape.qk_norm = is_qwen3;
  shape.patterns = shortest_patterns(read_windows(config, family, shape));
  shape.bias = read_llama_bias(config, family);
  return shape;
}

// One for each layer; a folder without them has full attention.
std::vector<AttentionPattern> read_patterns(const JsonFields& config, std::int64_t n_layer) {
  if (!config.has("attention")) return {};
  const std::vector<std::string> texts = config.texts("attention");
  if (texts.size() != static_cast<std::size_t>(n_layer)) {
    config.refuse(str("attention names ", texts.size(), " layers, and num_hidden_layers is ", n_layer));
  }
  std::vector<AttentionPattern> patterns;
  for (const std::string& text : texts) {
    const WordsReading<AttentionPattern> reading = read_pattern(text);
    if (!reading.value) config.refuse(str("attention names ", quote(text), ", which ", reading.problem));
    patterns.push_back(*reading.value);
  }
  return shortest_patterns(std::move(patterns));
}

Bias read_bias(const JsonFields& config) {
  const std::string value = config.json("bias");
  if (value == "true") return Bias::all;
  if (value == "false") return Bias::none;
  if (value == quote(word_of(Bias::qkv))) return Bias::qkv;
  config.refuse_value("bias", "true, false or \"qkv\"");
}

GptShape read_inkling(const JsonFields& config) {
  GptShape shape = read_llama_sizes(config);
  shape.norm = named<NormKind>(config, "norm");
  shape.norm_epsilon = epsilon(config, "norm_epsilon", 1e-5);
  shape.position = named<Position>(config, "position");
  read_rope(config, shape);
  shape.activation = named<Activation>(config, "activation");
  shape.norm_weights = config.optional_flag("norm_weights").value_or(true);
  shape.qk_norm = config.flag("qk_norm");
  shape.embedding_norm = config.optional_flag("embedding_norm").value_or(false);
  if (config.has("conv")) shape.conv = config.whole("conv", 0, longest_conv);
  shape.patterns = read_patterns(config, shape.n_layer);
  shape.logit_softcap = config.real("logit_softcap");
  const bool is_bound = shape.logit_softcap >= least_softcap && shape.logit_softcap <= most_softcap;
  if (shape.logit_softcap != 0 && !is_bound) config.refuse_value("logit_softcap", "0, or from 0.001 to 1,000,000");
  shape.bias = read_bias(config);
  return shape;
}

GptShape read_family(Family family, const JsonFields& config) {
  switch (family) {
    case Family::gpt2:
      return read_gpt2(config);
    case Family::llama:
    case Family::mistral:
    case Family::qwen2:
    case Family::qwen3:
      return read_llama(config, family);
    case Family::inkling:
      break;
  }
  return read_inkling(config);
}

constexpr std::pair<std::string_view, Family> families[] = {{"gpt2", Family::gpt2},       {"llama", Family::llama},
                                                            {"mistral", Family::mistral}, {"qwen2", Family::qwen2},
                                                            {"qwen3", Family::qwen3},     {"inkling", Family::inkling}};

}  // namespace

ModelDescription read_model_config(const std::filesystem::path& folder) {
  const JsonFields config(folder / "config.json", model_remedy);
  const std::string type = config.text("model_type");
  std::vector<std::string> known;
  for (const auto& [name, family] : families) {
    known.emplace_back(name);
    if (name != type) continue;
    std::vector<std::string> unknown = check_config_keys(config, family);
    GptShape shape = read_family(family, config);
    if (shape.position == Position::rope) {
      for (const std::string& key : unknown_rope_keys(config)) unknown.push_back(key);
      const std::int64_t head_size = shape.attention().head_size;
      if (head_size % 2 != 0) {
        config.refuse(str("head_dim is ", head_size, ", and rotary positions need an even number"));
      }
    }
    return {.shape = std::move(shape), .family = family, .unknown_keys = std::move(unknown)};
  }
  config.refuse(str("model_type is ", quote(type), ", and can be opened here as ", join(known, ", ")));
}

}  // namespace inkling
