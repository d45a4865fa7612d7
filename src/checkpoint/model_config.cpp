#include "checkpoint/model_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/strings.h"
#include "formats/json_fields.h"

namespace inkling {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t largest_inner = 1 << 20;

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

// Returns a norm's epsilon; 1e-5 where the field is missing.
double epsilon(const JsonFields& config, const char* name) {
  const double value = config.optional_real(name).value_or(1e-5);
  if (value > 0 && value <= 1) return value;
  config.refuse_value(name, "above 0 and at most 1");
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

void check_gpt2(const JsonFields& config) {
  require_flag(config, "scale_attn_weights", true, "attention without its scale");
  require_flag(config, "scale_attn_by_inverse_layer_idx", false, "attention scaled by layer");
  require_flag(config, "add_cross_attention", false, "attention to an encoder");
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

GptShape read_gpt2(const JsonFields& config) {
  GptShape shape;
  shape.n_layer = config.whole("n_layer", 1, 1000);
  shape.n_head = config.whole("n_head", 1, 1000);
  shape.n_embd = config.whole("n_embd", 1, 65'536);
  shape.block_size = config.whole("n_positions", 1, 65'536);
  shape.vocab_size = config.whole("vocab_size", 1, 4'294'967'295);
  if (config.has("n_inner")) shape.n_inner = config.whole("n_inner", 1, largest_inner);
  shape.activation = gpt2_activation(config);
  shape.norm_epsilon = epsilon(config, "layer_norm_epsilon");
  if (config.has("inkling")) shape.bias = config.section("inkling").optional_flag("bias").value_or(true);
  shape.tie_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  check_gpt2(config);
  return shape;
}

// transformers 4 reads the first of these fields, 5 the second.
void write_rope(Json& config, const GptShape& shape) {
  if (shape.position != Position::rope) return;
  config["rope_theta"] = shape.rope_theta;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", shape.rope_theta}};
}

// Either field will do; 10,000 where neither is there.
double read_rope_theta(const JsonFields& config) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(name)) continue;
    const JsonFields rope = config.section(name);
    const std::string old_type = rope.optional_text("type").value_or("default");
    const std::string type = rope.optional_text("rope_type").value_or(old_type);
    if (type != "default")
      config.refuse(str(name, " has the rope_type ", quote(type), ", which cannot be computed here"));
    if (rope.optional_real("partial_rotary_factor").value_or(1.0) != 1.0) {
      config.refuse(str(name, " has a partial_rotary_factor, which cannot be computed here"));
    }
  }
  const std::optional<double> outer = config.optional_real("rope_theta");
  const std::optional<double> inner =
      config.has("rope_parameters") ? config.section("rope_parameters").optional_real("rope_theta") : std::nullopt;
  if (outer && inner && *outer != *inner) {
    config.refuse(
        str("rope_theta is ", format_shortest(*outer), ", and in rope_parameters it is ", format_shortest(*inner)));
  }
  const double theta = outer.value_or(inner.value_or(10'000));
  if (theta < 1 || theta > 1e12)
    config.refuse(str("rope_theta is ", format_shortest(theta), ", and must be 1 to 1e12"));
  return theta;
}

// Llama's names for sizes, and the names of our own settings for the rest.
Json inkling_json(const GptShape& shape, double dropout) {
  Json config = {{"architectures", {"InklingForCausalLM"}},
                 {"model_type", "inkling"},
                 {"vocab_size", shape.vocab_size},
                 {"max_position_embeddings", shape.block_size},
                 {"hidden_size", shape.n_embd},
                 {"num_hidden_layers", shape.n_layer},
                 {"num_attention_heads", shape.n_head},
                 {"num_key_value_heads", shape.attention().n_kv_head},
                 {"head_dim", shape.attention().head_size},
                 {"intermediate_size", shape.inner()},
                 {"activation", std::string(word_of(shape.activation))},
                 {"bias", shape.bias},
                 {"tie_word_embeddings", shape.tie_embeddings},
                 {"logit_softcap", shape.logit_softcap},
                 {"qk_norm", shape.qk_norm},
                 {"position", std::string(word_of(shape.position))},
                 {"norm", std::string(word_of(shape.norm))},
                 {"norm_epsilon", shape.norm_epsilon},
                 {"dropout", dropout}};
  write_rope(config, shape);
  return config;
}

GptShape read_inkling(const JsonFields& config) {
  GptShape shape;
  shape.n_layer = config.whole("num_hidden_layers", 1, 1000);
  shape.n_head = config.whole("num_attention_heads", 1, 1000);
  if (config.has("num_key_value_heads")) shape.n_kv_head = config.whole("num_key_value_heads", 1, 1000);
  if (config.has("head_dim")) shape.head_size = config.whole("head_dim", 1, 65'536);
  shape.n_embd = config.whole("hidden_size", 1, 65'536);
  shape.block_size = config.whole("max_position_embeddings", 1, 65'536);
  shape.vocab_size = config.whole("vocab_size", 1, 4'294'967'295);
  shape.n_inner = config.whole("intermediate_size", 1, largest_inner);
  shape.activation = named<Activation>(config, "activation");
  shape.logit_softcap = config.real("logit_softcap");
  if (shape.logit_softcap < 0) config.refuse_value("logit_softcap", "0 or more");
  shape.qk_norm = config.flag("qk_norm");
  shape.position = named<Position>(config, "position");
  shape.rope_theta = read_rope_theta(config);
  shape.norm = named<NormKind>(config, "norm");
  shape.norm_epsilon = epsilon(config, "norm_epsilon");
  shape.bias = config.flag("bias");
  shape.tie_embeddings = config.flag("tie_word_embeddings");
  return shape;
}

}  // namespace

Family family_of(const GptShape& shape) {
  const AttentionForm heads = shape.attention();
  const bool has_all_keys = heads.n_kv_head == shape.n_head && heads.queries() == shape.n_embd;
  const bool is_gpt2 =
      has_all_keys && shape.logit_softcap == 0 && !shape.qk_norm && shape.position == Position::learned && shape.norm == NormKind::layernorm && !is_gated(shape.activation);
  return is_gpt2 ? Family::gpt2 : Family::inkling;
}

std::string print_model_config(const ModelDescription& model, double dropout, std::optional<std::uint64_t> separator) {
  const bool is_gpt2 = model.family == Family::gpt2;
  Json config = is_gpt2 ? gpt2_json(model.shape, dropout) : inkling_json(model.shape, dropout);
  config["initializer_range"] = 0.02;
  config["use_cache"] = true;
  config["bos_token_id"] = config["eos_token_id"] = separator ? Json(*separator) : Json();
  config["torch_dtype"] = config["dtype"] = "float32";  // transformers 4 reads the first, 5 the second
  return config.dump(2) + "\n";
}

ModelDescription read_model_config(const std::filesystem::path& folder) {
  const JsonFields config(folder / "config.json", "fetch or save the model again, or choose another");
  const std::string type = config.text("model_type");
  if (type != "gpt2" && type != "inkling") {
    config.refuse(str("model_type is ", quote(type), ", and only gpt2 and inkling can be opened here"));
  }
  if (config.has("quantization_config")) config.refuse("the weights are quantized, which cannot be computed here");
  const ModelDescription model = {.shape = type == "gpt2" ? read_gpt2(config) : read_inkling(config),
                                  .family = type == "gpt2" ? Family::gpt2 : Family::inkling};
  if (const GptShape& shape = model.shape; !shape.head_size && shape.n_embd % shape.n_head != 0) {
    config.refuse(str("n_embd ", shape.n_embd, " is not divisible by n_head ", shape.n_head));
  }
  if (const AttentionForm heads = model.shape.attention();
      model.shape.position == Position::rope && heads.head_size % 2 != 0) {
    config.refuse(str("head_dim is ", heads.head_size, ", and rotary positions need an even number"));
  }
  if (const GptShape& shape = model.shape; shape.n_head % shape.attention().n_kv_head != 0) {
    config.refuse(str("num_attention_heads ", shape.n_head, " is not divisible by num_key_value_heads ",
                      shape.attention().n_kv_head));
  }
  return model;
}

}  // namespace inkling
