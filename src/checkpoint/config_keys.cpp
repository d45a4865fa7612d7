#include "checkpoint/config_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace inkling {
namespace {

// What shapes nothing in any family: dropout, labels, how a text is generated, who wrote the file.
constexpr std::string_view idle_keys[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "attn_pdrop",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "eos_token_ids",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "min_length",
    "n_ctx",
    "n_special",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "predict_special_tokens",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_last_hidden_states",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "xla_device",
};

const ConfigKey* find_config_key(std::string_view name, Family family) {
  const char letter = letter_of(family);
  for (const ConfigKey& key : config_keys()) {
    if (key.name == name && key.families.find(letter) != std::string_view::npos) return &key;
  }
  return nullptr;
}

}  // namespace

std::span<const ConfigKey> config_keys() {
  using enum KeyUse;
  // A key that stands here once for some families and once for others differs in its use.
  static constexpr ConfigKey keys[] = {
      {"model_type", "glmq2i", read},
      {"vocab_size", "glmq2i", read},
      {"tie_word_embeddings", "glmq2i", read},
      {"inkling", "glmq2", read},
      {"n_embd", "g", read},
      {"n_head", "g", read},
      {"n_inner", "g", read},
      {"n_layer", "g", read},
      {"n_positions", "g", read},
      {"activation_function", "g", read},
      {"layer_norm_epsilon", "g", read},
      {"hidden_size", "glmq2i", read},  // this and the next three are other names for GPT-2's sizes
      {"max_position_embeddings", "glmq2i", read},
      {"num_attention_heads", "glmq2i", read},
      {"num_hidden_layers", "glmq2i", read},
      {"intermediate_size", "lmq2i", read},
      {"num_key_value_heads", "lmq2i", read},
      {"head_dim", "lmq2i", read},
      {"original_max_position_embeddings", "lmq2i", read},
      {"rope_parameters", "lmq2i", read},
      {"rope_scaling", "lmq2i", read},
      {"rope_theta", "lmq2i", read},
      {"partial_rotary_factor", "lmq2i", read},
      {"hidden_act", "lmq2", read},
      {"rms_norm_eps", "lmq2", read},
      {"layer_types", "lmq2", read},
      {"sliding_window", "lmq2", read},
      {"use_sliding_window", "lmq2", read},
      {"max_window_layers", "q2", read},
      {"attention_bias", "l", read},
      {"mlp_bias", "l", read},
      {"activation", "i", read},
      {"attention", "i", read},
      {"bias", "i", read},
      {"conv", "i", read},
      {"embedding_norm", "i", read},
      {"logit_softcap", "i", read},
      {"norm", "i", read},
      {"norm_epsilon", "i", read},
      {"norm_weights", "i", read},
      {"position", "i", read},
      {"qk_norm", "i", read},
      {"quantization_config", "glmq2i", fixed, "null", "quantized weights"},
      {"compression_config", "glmq2i", fixed, "null", "compressed weights"},
      {"per_layer_config", "glmq2i", fixed, "{}", "layers that differ"},
      {"pruned_heads", "glmq2i", fixed, "{}", "layers without some of their heads"},
      {"add_cross_attention", "glmq2i", fixed, "false", "attention to an encoder"},
      {"is_encoder_decoder", "glmq2i", fixed, "false", "an encoder"},
      {"layer_types", "g", fixed, "null", "layers that differ"},
      {"scale_attn_weights", "g", fixed, "true", "attention without its scale"},
      {"scale_attn_by_inverse_layer_idx", "g", fixed, "false", "attention scaled by layer"},
      {"attention_bias", "mq", fixed, "false", "biases in attention alone"},
      {"mlp_bias", "mq", fixed, "false", "biases in the MLP alone"},
      {"original_max_position_embeddings", "g", nothing},
      {"rope_interleaved", "lmq2", fixed, "false", "pairs of neighbours that turn"},
      {"max_window_layers", "lm", nothing},
      {"attention_bias", "2", nothing},  // it has some of them, whatever this says
      {"mlp_bias", "2", nothing},
      {"auto_map", "i", nothing},  // of another family it names code that computes something of its own
      {"dropout", "i", nothing},
  };
  return keys;
}

char letter_of(Family family) {
  switch (family) {
    case Family::gpt2:
      return 'g';
    case Family::llama:
      return 'l';
    case Family::mistral:
      return 'm';
    case Family::qwen2:
      return '2';
    case Family::qwen3:
      return 'q';
    case Family::inkling:
      break;
  }
  return 'i';
}

std::vector<std::string> check_config_keys(const JsonFields& config, Family family) {
  std::vector<std::string> unknown;
  for (const std::string& name : config.names()) {
    if (!config.has(name)) continue;
    const ConfigKey* const key = find_config_key(name, family);
    if (key != nullptr && key->use == KeyUse::fixed &&
        nlohmann::json::parse(config.json(name)) != nlohmann::json::parse(key->value)) {
      config.refuse_value(name, str(key->value, ": ", key->other, " cannot be computed here"));
    }
    const bool is_idle = std::find(std::begin(idle_keys), std::end(idle_keys), name) != std::end(idle_keys);
    if (key == nullptr && !is_idle) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace inkling
