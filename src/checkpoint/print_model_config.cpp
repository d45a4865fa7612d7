// From a model's shape to the family that describes it, and to config.json: from model_config.h.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"
#include "checkpoint/config_keys.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_config.h"
#include "checkpoint/rope_config.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(Activation activation) {
  const std::span<const NamedActivation> names =
      is_gated(activation) ? std::span<const NamedActivation>(gated_activations) : plain_activations;
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const NamedActivation& each) { return each.activation == activation; });
  if (found == names.end()) throw Error::internal("checkpoint/config_keys.h has no name for this activation");
  return std::string(found->name);
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
  if (!is_in_every_layer(shape.bias)) config["inkling"] = {{"bias", false}};
  return config;
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

Json llama_json(const GptShape& shape, double dropout, std::string_view architecture, std::string_view type) {
  Json config = {{"architectures", {architecture}}, {"model_type", type}};
  config.update(llama_sizes(shape));
  config["hidden_act"] = name_of(shape.activation);
  config["rms_norm_eps"] = shape.norm_epsilon;
  config["attention_dropout"] = dropout;
  if (!shape.norm_weights) config["inkling"] = {{"norm_weights", false}};
  write_rope(shape, config);
  // transformers 4 has the scaling here; 5 takes it from either place.
  if (shape.rope_scaling.kind != ScalingKind::none) config["rope_scaling"] = scaling_json(shape.rope_scaling);
  return config;
}

// Where the layers with a window begin, if all of these are the last ones and have the same.
std::optional<std::size_t> first_window(const GptShape& shape) {
  const std::vector<AttentionPattern> patterns = shape.layer_patterns();
  const auto is_window = [](const AttentionPattern& pattern) { return !pattern.is_full(); };
  const auto first = std::find_if(patterns.begin(), patterns.end(), is_window);
  const bool is_one = first != patterns.end() && first->dilation == 1 &&
                      std::count(first, patterns.end(), *first) == patterns.end() - first;
  return is_one ? std::optional(static_cast<std::size_t>(first - patterns.begin())) : std::nullopt;
}

// A Mistral is a Llama with one window in all layers, a Qwen3 one with norms of queries and keys, both without biases;
// a Qwen2 has those of queries, keys and values, and may have a window in its last layers.
Json llama_family_json(Family family, const GptShape& shape, double dropout) {
  if (family == Family::mistral) {
    Json config = llama_json(shape, dropout, "MistralForCausalLM", "mistral");
    const AttentionPattern& pattern = shape.attention(0).pattern;
    config["sliding_window"] = pattern.is_full() ? Json() : Json(pattern.window);
    return config;
  }
  if (family == Family::qwen2) {
    Json config = llama_json(shape, dropout, "Qwen2ForCausalLM", "qwen2");
    const std::optional<std::size_t> first = first_window(shape);
    config["use_sliding_window"] = first.has_value();
    if (first) {
      config["sliding_window"] = shape.attention(*first).pattern.window;
      config["max_window_layers"] = *first;  // so many have none
    }
    return config;
  }
  const bool is_qwen3 = family == Family::qwen3;
  Json config =
      llama_json(shape, dropout, is_qwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM", is_qwen3 ? "qwen3" : "llama");
  config["attention_bias"] = is_in_every_layer(shape.bias);
  if (!is_qwen3) config["mlp_bias"] = is_in_every_layer(shape.bias);
  return config;
}

// What the layers see, whichever way the list of the setting repeats over them; none: all are full.
std::vector<AttentionPattern> patterns_of(const GptShape& shape) { return shortest_patterns(shape.layer_patterns()); }

Json bias_json(Bias bias) {
  switch (bias) {
    case Bias::all:
      return true;
    case Bias::none:
      return false;
    case Bias::qkv:
      return std::string(word_of(bias));
  }
  throw Error::internal("an unknown bias");
}

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
  config["bias"] = bias_json(shape.bias);
  config["dropout"] = dropout;
  write_rope(shape, config);
  return config;
}

std::string bias_setting(const GptShape& shape) { return str("model.bias: ", word_of(shape.bias)); }

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
  if (shape.bias == Bias::qkv) found.push_back(bias_setting(shape));
  if (!patterns_of(shape).empty()) found.push_back(attention_setting(shape));
  return found;
}

// One window in all layers, which Mistral has.
bool has_one_window(const GptShape& shape) {
  const std::vector<AttentionPattern> patterns = patterns_of(shape);
  return patterns.size() == 1 && patterns.front().dilation == 1;
}

bool is_qwen2(const GptShape& shape) { return shape.bias == Bias::qkv && !shape.qk_norm; }

// The windows that no family has beside the other settings.
std::vector<std::string> unlike_windows(const GptShape& shape) {
  if (patterns_of(shape).empty() || (is_qwen2(shape) && first_window(shape))) return {};
  if (is_qwen2(shape) || !has_one_window(shape)) return {attention_setting(shape)};
  if (!shape.qk_norm && !is_in_every_layer(shape.bias)) return {};
  const std::string beside = shape.qk_norm ? "model.qk_norm: true" : bias_setting(shape);
  return {str(beside, " beside ", attention_setting(shape))};
}

// Those that Llama, Mistral, Qwen2 and Qwen3 have otherwise.
std::vector<std::string> unlike_llama(const GptShape& shape) {
  std::vector<std::string> found = unlike_all(shape);
  if (shape.norm != NormKind::rmsnorm) found.push_back(str("model.norm: ", word_of(shape.norm)));
  if (shape.position != Position::rope) found.push_back(str("model.position: ", word_of(shape.position)));
  if (!is_gated(shape.activation)) found.push_back(str("model.activation: ", word_of(shape.activation)));
  // transformers 5 opens no Llama whose hidden_size its heads do not divide, whatever head_dim is.
  const bool is_qwen = shape.qk_norm || is_qwen2(shape);
  if (!is_qwen && shape.n_embd % shape.n_head != 0) found.push_back(str("model.n_head: ", shape.n_head));
  if (shape.qk_norm && shape.bias != Bias::none)
    found.push_back(str(bias_setting(shape), " beside model.qk_norm: true"));
  for (const std::string& window : unlike_windows(shape)) found.push_back(window);
  return found;
}

}  // namespace

Family family_of(const GptShape& shape) {
  if (unlike_gpt2(shape).empty()) return Family::gpt2;
  if (!unlike_llama(shape).empty()) return Family::inkling;
  if (shape.qk_norm) return Family::qwen3;
  if (is_qwen2(shape)) return Family::qwen2;
  return patterns_of(shape).empty() ? Family::llama : Family::mistral;
}

Family family_of(const GptShape& shape, std::optional<Family> before) {
  const Family family = family_of(shape);
  const bool is_mistral = before == Family::mistral && family == Family::llama && shape.bias == Bias::none;
  return is_mistral ? Family::mistral : family;
}

std::vector<std::string> unknown_elsewhere(const GptShape& shape) {
  if (family_of(shape) != Family::inkling) return {};
  std::vector<std::string> of_gpt2 = unlike_gpt2(shape), of_llama = unlike_llama(shape);
  return of_gpt2.size() < of_llama.size() ? of_gpt2 : of_llama;
}

std::string print_model_config(const ModelDescription& model, double dropout, const TextEnds& ends,
                               const KeptConfig& kept) {
  Json config = model.family == Family::gpt2      ? gpt2_json(model.shape, dropout)
                : model.family == Family::inkling ? inkling_json(model.shape, dropout)
                                                  : llama_family_json(model.family, model.shape, dropout);
  config["initializer_range"] = 0.02;
  config["use_cache"] = true;
  config["eos_token_id"] = Json::parse(print_ends(kept.last, ends.last));
  config["bos_token_id"] = ends.first ? Json(*ends.first) : kept.first.empty() ? Json() : Json::parse(kept.first);
  config["torch_dtype"] = config["dtype"] = "float32";  // transformers 4 reads the first, 5 the second
  return config.dump(2) + "\n";
}

}  // namespace inkling
