#include "checkpoint/model_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/strings.h"
#include "formats/json_fields.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;

// Hugging Face's names for activations; the first of an activation is the one that is written.
constexpr std::pair<std::string_view, Activation> activation_names[] = {{"gelu_new", Activation::gelu_tanh},
                                                                        {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                                        {"gelu", Activation::gelu},
                                                                        {"relu", Activation::relu},
                                                                        {"relu2", Activation::relu_squared}};

std::string name_of(Activation activation) {
  const auto* found = std::find_if(std::begin(activation_names), std::end(activation_names),
                                   [&](const auto& each) { return each.second == activation; });
  return std::string(found->first);
}

Activation gpt2_activation(const JsonFields& config) {
  const std::string name = config.optional_text("activation_function").value_or("gelu_new");
  std::vector<std::string> known;
  for (const auto& [each, activation] : activation_names) {
    if (each == name) return activation;
    known.emplace_back(each);
  }
  config.refuse(str("activation_function is ", quote(name), ", and can be computed here as ", join(known, ", ")));
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

Json gpt2_json(const GptShape& shape, double dropout) {
  Json config = {{"architectures", {"GPT2LMHeadModel"}},
                 {"model_type", "gpt2"},
                 {"vocab_size", shape.vocab_size},
                 {"n_positions", shape.block_size},
                 {"n_ctx", shape.block_size},
                 {"n_embd", shape.n_embd},
                 {"n_layer", shape.n_layer},
                 {"n_head", shape.n_head},
                 {"n_inner", shape.inner() == 4 * shape.n_embd ? Json() : Json(shape.inner())},
                 {"activation_function", name_of(shape.activation)},
                 {"layer_norm_epsilon", shape.norm_epsilon},
                 {"resid_pdrop", dropout},
                 {"embd_pdrop", dropout},
                 {"attn_pdrop", dropout},
                 {"scale_attn_weights", true},
                 {"scale_attn_by_inverse_layer_idx", false},
                 {"tie_word_embeddings", shape.tie_embeddings}};
  if (!shape.bias) config["inkling"] = {{"bias", false}};
  return config;
}

// What a folder says of a model whose file has biases of zeros or weights of ones, because the family has them.
bool has(const JsonFields& config, const char* weights) {
  return !config.has("inkling") || config.section("inkling").optional_flag(weights).value_or(true);
}

GptShape read_gpt2(const JsonFields& config) {
  require_flag(config, "scale_attn_weights", true, "attention without its scale");
  require_flag(config, "scale_attn_by_inverse_layer_idx", false, "attention scaled by layer");
  require_flag(config, "add_cross_attention", false, "attention to an encoder");
  GptShape shape;
  shape.n_layer = config.whole("n_layer", 1, most_layers);
  shape.n_head = config.whole("n_head", 1, most_heads);
  shape.n_embd = config.whole("n_embd", 1, widest);
  shape.block_size = config.whole("n_positions", 1, longest_block);
  shape.vocab_size = config.whole("vocab_size", 1, largest_vocabulary);
  if (config.has("n_inner")) shape.n_inner = config.whole("n_inner", 1, widest_inner);
  shape.activation = gpt2_activation(config);
  shape.norm_epsilon = epsilon(config, "layer_norm_epsilon", 1e-5);
  shape.bias = has(config, "bias");
  shape.tie_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  if (shape.n_embd % shape.n_head != 0) {
    config.refuse(str("n_embd ", shape.n_embd, " is not divisible by n_head ", shape.n_head));
  }
  return shape;
}

// transformers 4 reads the first of these fields, 5 the second.
void write_rope(Json& config, const GptShape& shape) {
  if (shape.position != Position::rope) return;
  config["rope_theta"] = shape.rope_theta;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", shape.rope_theta}};
}

// Either field will do; 10,000 where neither is there. transformers 5 reads an older file's rope_scaling in place of
// rope_parameters.
double read_rope_theta(const JsonFields& config) {
  std::vector<std::pair<std::string, double>> thetas;
  const auto read = [&](const JsonFields& fields, const std::string& name) {
    if (const auto theta = fields.optional_real("rope_theta")) thetas.emplace_back(name, *theta);
    if (fields.optional_real("partial_rotary_factor").value_or(1.0) != 1.0) {
      config.refuse(str("partial_rotary_factor is not 1: heads that turn in part cannot be computed here"));
    }
  };
  read(config, "rope_theta");
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(name)) continue;
    const JsonFields rope = config.section(name);
    if (rope.has("full_attention")) config.refuse(str(name, " differs by layer, which cannot be computed here"));
    for (const char* key : {"rope_type", "type"}) {
      const std::string type = rope.optional_text(key).value_or("default");
      if (type == "default") continue;
      config.refuse(str(name, " has the ", key, " ", quote(type), ", which cannot be computed here"));
    }
    read(rope, str(name, ".rope_theta"));
  }
  if (thetas.empty()) return 10'000;
  const auto& [first, theta] = thetas.front();
  for (const auto& [name, other] : thetas) {
    if (other == theta) continue;
    config.refuse(str(first, " is ", format_shortest(theta), ", and ", name, " is ", format_shortest(other)));
  }
  if (theta < 1 || theta > 1e12) config.refuse(str(first, " is ", format_shortest(theta), ", and must be 1 to 1e12"));
  return theta;
}

// Llama's names for sizes.
Json llama_sizes(const GptShape& shape) {
  return {{"vocab_size", shape.vocab_size},
          {"max_position_embeddings", shape.block_size},
          {"hidden_size", shape.n_embd},
          {"intermediate_size", shape.inner()},
          {"num_hidden_layers", shape.n_layer},
          {"num_attention_heads", shape.n_head},
          {"num_key_value_heads", shape.attention().n_kv_head},
          {"head_dim", shape.attention().head_size},
          {"tie_word_embeddings", shape.tie_embeddings}};
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

Json llama_json(const GptShape& shape, double dropout, std::string_view architecture, std::string_view type) {
  Json config = {{"architectures", {architecture}}, {"model_type", type}};
  config.update(llama_sizes(shape));
  config["hidden_act"] = shape.activation == Activation::swiglu ? "silu" : "gelu";
  config["rms_norm_eps"] = shape.norm_epsilon;
  config["attention_dropout"] = dropout;
  if (!shape.norm_weights) config["inkling"] = {{"norm_weights", false}};
  write_rope(config, shape);
  return config;
}

// A Mistral is a Llama with one window in all layers, a Qwen3 one with norms of queries and keys; both without biases.
Json llama_family_json(Family family, const GptShape& shape, double dropout) {
  if (family == Family::mistral) {
    Json config = llama_json(shape, dropout, "MistralForCausalLM", "mistral");
    config["sliding_window"] = shape.attention(0).pattern.window;
    return config;
  }
  const bool is_qwen3 = family == Family::qwen3;
  Json config =
      llama_json(shape, dropout, is_qwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM", is_qwen3 ? "qwen3" : "llama");
  config["attention_bias"] = shape.bias;
  if (!is_qwen3) config["mlp_bias"] = shape.bias;
  return config;
}

void refuse_windows(const JsonFields& config) {
  // layer_types says it all where it is there.
  if (!config.has("layer_types")) return require_flag(config, "use_sliding_window", false, "a Llama's window");
  for (const std::string& type : config.texts("layer_types")) {
    if (type != "full_attention") {
      config.refuse(str("layer_types names ", quote(type), ", which cannot be computed here in a Llama"));
    }
  }
}

// The window of Mistral and Qwen3; transformers takes 4,096 where the file has none, and null is full attention.
AttentionPattern read_window(const JsonFields& config) {
  if (config.is_null("sliding_window")) return {};
  return {config.has("sliding_window") ? config.whole("sliding_window", 1, longest_block) : 4096, 1};
}

// Qwen3's windows. layer_types says it all where it is there; elsewhere the first max_window_layers are full.
std::vector<AttentionPattern> read_windows(const JsonFields& config, std::int64_t n_layer) {
  std::vector<AttentionPattern> patterns(static_cast<std::size_t>(n_layer));
  const bool slides = config.optional_flag("use_sliding_window").value_or(false);
  const AttentionPattern window = slides ? read_window(config) : AttentionPattern{};
  if (!config.has("layer_types")) {
    const std::int64_t full = config.has("max_window_layers") ? config.whole("max_window_layers", 0, most_layers) : 28;
    for (std::int64_t i = full; i < n_layer; ++i) patterns[static_cast<std::size_t>(i)] = window;
    return shortest_patterns(std::move(patterns));
  }
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != patterns.size()) {
    config.refuse(str("layer_types names ", types.size(), " layers, and num_hidden_layers is ", n_layer));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "full_attention") continue;
    if (types[i] != "sliding_attention") {
      config.refuse(str("layer_types names ", quote(types[i]), ", which cannot be computed here"));
    }
    if (!slides) config.refuse("layer_types names \"sliding_attention\", and use_sliding_window is not true");
    if (window.is_full()) config.refuse("layer_types names \"sliding_attention\", and sliding_window is null");
    patterns[i] = window;
  }
  return shortest_patterns(std::move(patterns));
}

GptShape read_llama(const JsonFields& config, Family family) {
  const bool is_qwen3 = family == Family::qwen3, has_biases = family == Family::llama;
  const std::string activation = config.optional_text("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "gelu") {
    config.refuse(str("hidden_act is ", quote(activation), ", and only silu and gelu can be computed here"));
  }
  GptShape shape = has_biases ? read_llama_sizes(config) : read_llama_sizes(config, is_qwen3 ? 32 : 8);
  if (is_qwen3 && !shape.head_size) shape.head_size = 128;  // as transformers has it
  shape.norm = NormKind::rmsnorm;
  shape.norm_epsilon = epsilon(config, "rms_norm_eps", 1e-6);
  shape.norm_weights = has(config, "norm_weights");
  shape.position = Position::rope;
  shape.rope_theta = read_rope_theta(config);
  shape.activation = activation == "silu" ? Activation::swiglu : Activation::geglu;
  shape.qk_norm = is_qwen3;
  if (family == Family::llama) refuse_windows(config);
  if (family == Family::mistral) shape.patterns = shortest_patterns({read_window(config)});
  if (is_qwen3) shape.patterns = read_windows(config, shape.n_layer);
  shape.bias = config.optional_flag("attention_bias").value_or(false);
  if (!has_biases && shape.bias)
    config.refuse("attention_bias is true: biases in attention alone cannot be computed here");
  if (has_biases && config.optional_flag("mlp_bias").value_or(false) != shape.bias) {
    config.refuse("attention_bias and mlp_bias differ: biases in one of the two cannot be computed here");
  }
  return shape;
}

// What the layers see, whichever way the list of the setting repeats over them; none: all are full.
std::vector<AttentionPattern> patterns_of(const GptShape& shape) { return shortest_patterns(shape.layer_patterns()); }

// The names of our own settings, where Llama has none. auto_map names what transformers runs, of modeling_inkling.py.
Json inkling_json(const GptShape& shape, double dropout) {
  Json config = {{"architectures", {"InklingForCausalLM"}},
                 {"auto_map",
                  {{"AutoConfig", "modeling_inkling.InklingConfig"},
                   {"AutoModelForCausalLM", "modeling_inkling.InklingForCausalLM"}}},
                 {"model_type", "inkling"}};
  config.update(llama_sizes(shape));
  config["norm"] = std::string(word_of(shape.norm));
  config["norm_epsilon"] = shape.norm_epsilon;
  config["position"] = std::string(word_of(shape.position));
  config["activation"] = std::string(word_of(shape.activation));
  config["norm_weights"] = shape.norm_weights;
  config["qk_norm"] = shape.qk_norm;
  config["embedding_norm"] = shape.embedding_norm;
  config["conv"] = shape.conv;
  if (!patterns_of(shape).empty()) config["attention"] = pattern_texts(shape.layer_patterns());
  config["logit_softcap"] = shape.logit_softcap;
  config["bias"] = shape.bias;
  config["dropout"] = dropout;
  write_rope(config, shape);
  return config;
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
    const PatternReading reading = read_pattern(text);
    if (!reading.value) config.refuse(str("attention names ", quote(text), ", which ", reading.problem));
    patterns.push_back(*reading.value);
  }
  return shortest_patterns(std::move(patterns));
}

GptShape read_inkling(const JsonFields& config) {
  GptShape shape = read_llama_sizes(config);
  shape.norm = named<NormKind>(config, "norm");
  shape.norm_epsilon = epsilon(config, "norm_epsilon", 1e-5);
  shape.position = named<Position>(config, "position");
  shape.rope_theta = read_rope_theta(config);
  shape.activation = named<Activation>(config, "activation");
  shape.norm_weights = config.optional_flag("norm_weights").value_or(true);
  shape.qk_norm = config.flag("qk_norm");
  shape.embedding_norm = config.optional_flag("embedding_norm").value_or(false);
  if (config.has("conv")) shape.conv = config.whole("conv", 0, longest_conv);
  shape.patterns = read_patterns(config, shape.n_layer);
  shape.logit_softcap = config.real("logit_softcap");
  const bool is_bound = shape.logit_softcap >= least_softcap && shape.logit_softcap <= most_softcap;
  if (shape.logit_softcap != 0 && !is_bound) config.refuse_value("logit_softcap", "0, or from 0.001 to 1,000,000");
  shape.bias = config.flag("bias");
  return shape;
}

GptShape read_family(Family family, const JsonFields& config) {
  switch (family) {
    case Family::gpt2:
      return read_gpt2(config);
    case Family::llama:
    case Family::mistral:
    case Family::qwen3:
      return read_llama(config, family);
    case Family::inkling:
      break;
  }
  return read_inkling(config);
}

std::string attention_setting(const GptShape& shape) {
  const std::vector<std::string> texts = pattern_texts(patterns_of(shape));
  return str("model.attention: ", texts.size() == 1 ? texts.front() : str("[", join(texts, ", "), "]"));
}

// What InklingForCausalLM alone has.
std::vector<std::string> unlike_all(const GptShape& shape) {
  std::vector<std::string> found;
  if (shape.embedding_norm) found.emplace_back("model.embedding_norm: true");
  if (shape.conv > 0) found.push_back(str("model.conv: ", shape.conv));
  if (shape.logit_softcap != 0) found.push_back(str("model.logit_softcap: ", format_shortest(shape.logit_softcap)));
  return found;
}

// The settings that GPT-2 has otherwise.
std::vector<std::string> unlike_gpt2(const GptShape& shape) {
  const AttentionForm heads = shape.attention();
  std::vector<std::string> found = unlike_all(shape);
  if (shape.norm != NormKind::layernorm) found.push_back(str("model.norm: ", word_of(shape.norm)));
  if (shape.position != Position::learned) found.push_back(str("model.position: ", word_of(shape.position)));
  if (is_gated(shape.activation)) found.push_back(str("model.activation: ", word_of(shape.activation)));
  if (heads.n_kv_head != heads.n_head) found.push_back(str("model.n_kv_head: ", heads.n_kv_head));
  if (heads.queries() != shape.n_embd) found.push_back(str("model.head_size: ", heads.head_size));
  if (shape.qk_norm) found.emplace_back("model.qk_norm: true");
  if (!patterns_of(shape).empty()) found.push_back(attention_setting(shape));
  return found;
}

// One window in all layers, which Mistral has.
bool has_one_window(const GptShape& shape) {
  const std::vector<AttentionPattern> patterns = patterns_of(shape);
  return patterns.size() == 1 && patterns.front().dilation == 1;
}

// Those that Llama, Mistral and Qwen3 have otherwise.
std::vector<std::string> unlike_llama(const GptShape& shape) {
  std::vector<std::string> found = unlike_all(shape);
  if (shape.norm != NormKind::rmsnorm) found.push_back(str("model.norm: ", word_of(shape.norm)));
  if (shape.position != Position::rope) found.push_back(str("model.position: ", word_of(shape.position)));
  if (!is_gated(shape.activation)) found.push_back(str("model.activation: ", word_of(shape.activation)));
  // transformers 5 opens no Llama whose hidden_size its heads do not divide, whatever head_dim is.
  if (!shape.qk_norm && shape.n_embd % shape.n_head != 0) found.push_back(str("model.n_head: ", shape.n_head));
  if (shape.qk_norm && shape.bias) found.emplace_back("model.bias: true beside model.qk_norm: true");
  if (!patterns_of(shape).empty()) {
    if (!has_one_window(shape)) {
      found.push_back(attention_setting(shape));
    } else if (shape.qk_norm || shape.bias) {
      const std::string_view beside = shape.qk_norm ? "model.qk_norm: true" : "model.bias: true";
      found.push_back(str(beside, " beside ", attention_setting(shape)));
    }
  }
  return found;
}

constexpr std::pair<std::string_view, Family> families[] = {{"gpt2", Family::gpt2},
                                                            {"llama", Family::llama},
                                                            {"mistral", Family::mistral},
                                                            {"qwen3", Family::qwen3},
                                                            {"inkling", Family::inkling}};

}  // namespace

Family family_of(const GptShape& shape) {
  if (unlike_gpt2(shape).empty()) return Family::gpt2;
  if (!unlike_llama(shape).empty()) return Family::inkling;
  if (shape.qk_norm) return Family::qwen3;
  return patterns_of(shape).empty() ? Family::llama : Family::mistral;
}

std::vector<std::string> unknown_elsewhere(const GptShape& shape) {
  if (family_of(shape) != Family::inkling) return {};
  std::vector<std::string> of_gpt2 = unlike_gpt2(shape), of_llama = unlike_llama(shape);
  return of_gpt2.size() < of_llama.size() ? of_gpt2 : of_llama;
}

std::string print_model_config(const ModelDescription& model, double dropout, const TextEnds& ends) {
  Json config = model.family == Family::gpt2      ? gpt2_json(model.shape, dropout)
                : model.family == Family::inkling ? inkling_json(model.shape, dropout)
                                                  : llama_family_json(model.family, model.shape, dropout);
  config["initializer_range"] = 0.02;
  config["use_cache"] = true;
  config["eos_token_id"] = ends.last ? Json(*ends.last) : Json();
  config["bos_token_id"] = ends.first ? Json(*ends.first) : Json();
  config["torch_dtype"] = config["dtype"] = "float32";  // transformers 4 reads the first, 5 the second
  return config.dump(2) + "\n";
}

ModelDescription read_model_config(const std::filesystem::path& folder) {
  const JsonFields config(folder / "config.json", "fetch or save the model again, or choose another");
  const std::string type = config.text("model_type");
  std::vector<std::string> known;
  for (const auto& [name, family] : families) {
    known.emplace_back(name);
    if (name != type) continue;
    if (config.has("quantization_config")) config.refuse("the weights are quantized, which cannot be computed here");
    const ModelDescription model = {.shape = read_family(family, config), .family = family};
    const std::int64_t head_size = model.shape.attention().head_size;
    if (model.shape.position == Position::rope && head_size % 2 != 0) {
      config.refuse(str("head_dim is ", head_size, ", and rotary positions need an even number"));
    }
    return model;
  }
  config.refuse(str("model_type is ", quote(type), ", and can be opened here as ", join(known, ", ")));
}

}  // namespace inkling
