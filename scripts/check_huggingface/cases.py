"""The models that scripts/check-huggingface compares, as tables."""
from transformers import GPT2Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

# Models that inkling trains: (the family they must be saved as, name, settings of the section model:). What no family
# of transformers computes is saved as inkling's own, which brings its Python.
gpt2 = {"norm": "layernorm", "position": "learned", "activation": "gelu_tanh", "bias": "true", "tie_embeddings": "true"}
llama = {"norm": "rmsnorm", "position": "rope", "activation": "swiglu", "bias": "false", "tie_embeddings": "false"}
mistral = {**llama, "attention": "local 7"}
qwen2 = {**llama, "bias": "qkv"}
qwen3 = {**llama, "qk_norm": "true"}
own_family = "InklingForCausalLM"
trained_models = [
    ("GPT2LMHeadModel", "gpt2", gpt2),
    ("GPT2LMHeadModel", "gpt2, no bias, exact GELU", {**gpt2, "bias": "false", "activation": "gelu"}),
    ("GPT2LMHeadModel", "gpt2, untied, ReLU, n_inner, epsilon",
     {**gpt2, "tie_embeddings": "false", "activation": "relu", "n_inner": 80, "norm_epsilon": 1e-3}),
    ("GPT2LMHeadModel", "gpt2, untied, no bias", {**gpt2, "tie_embeddings": "false", "bias": "false"}),
    ("LlamaForCausalLM", "llama", llama),
    ("LlamaForCausalLM", "llama, grouped heads, tied", {**llama, "n_kv_head": 2, "tie_embeddings": "true"}),
    ("LlamaForCausalLM", "llama, one head of keys, GeGLU, bias, theta",
     {**llama, "n_kv_head": 1, "activation": "geglu", "bias": "true", "rope_theta": 500}),
    ("LlamaForCausalLM", "llama, head_size, n_inner, tied, bias, epsilon",
     {**llama, "head_size": 12, "n_inner": 40, "tie_embeddings": "true", "bias": "true", "norm_epsilon": 1e-3}),
    ("LlamaForCausalLM", "llama, linear scaling, theta", {**llama, "rope_scaling": "linear 2.5", "rope_theta": 500}),
    ("LlamaForCausalLM", "llama, scaled as Llama 3, grouped heads, tied",
     {**llama, "rope_scaling": "llama3 8 1 4 24", "rope_theta": 500, "head_size": 16, "n_kv_head": 2, "tie_embeddings": "true"}),
    ("MistralForCausalLM", "mistral", mistral),
    ("MistralForCausalLM", "mistral, a window of two, GeGLU, theta",
     {**mistral, "attention": "local 2", "activation": "geglu", "rope_theta": 500}),
    ("MistralForCausalLM", "mistral, grouped heads, head_size, tied",
     {**mistral, "n_kv_head": 2, "head_size": 12, "tie_embeddings": "true"}),
    ("Qwen2ForCausalLM", "qwen2", qwen2),
    ("Qwen2ForCausalLM", "qwen2, grouped heads, tied, scaled as Llama 3",
     {**qwen2, "n_kv_head": 2, "tie_embeddings": "true", "rope_scaling": "llama3 8 1 4 24"}),
    ("Qwen2ForCausalLM", "qwen2, one head of keys, head_size, GeGLU, theta, epsilon",
     {**qwen2, "n_kv_head": 1, "head_size": 12, "activation": "geglu", "rope_theta": 1e6, "norm_epsilon": 1e-3}),
    ("Qwen2ForCausalLM", "qwen2 with a window", {**qwen2, "attention": "local 7"}),
    ("Qwen2ForCausalLM", "qwen2 with a window in its last layer", {**qwen2, "attention": "[full, local 7]"}),
    ("Qwen3ForCausalLM", "qwen3", qwen3),
    ("Qwen3ForCausalLM", "qwen3, grouped heads, tied", {**qwen3, "n_kv_head": 2, "tie_embeddings": "true"}),
    ("Qwen3ForCausalLM", "qwen3, grouped heads, head_size, GeGLU, theta, epsilon",
     {**qwen3, "n_kv_head": 2, "head_size": 16, "activation": "geglu", "rope_theta": 1e6, "norm_epsilon": 1e-3}),
    ("MistralForCausalLM", "mistral, linear scaling", {**mistral, "rope_scaling": "linear 2"}),
    ("Qwen3ForCausalLM", "qwen3, scaled as Llama 3", {**qwen3, "rope_scaling": "llama3 4 1 3 16"}),
    (own_family, "gpt2 with grouped heads", {**gpt2, "n_kv_head": 2}),
    (own_family, "gpt2 with rope", {**gpt2, "position": "rope"}),
    (own_family, "llama without positions", {**llama, "position": "none"}),
    (own_family, "llama with capped logits", {**llama, "logit_softcap": 20}),
    (own_family, "llama with ReLU", {**llama, "activation": "relu"}),
    (own_family, "qwen3 with bias", {**qwen3, "bias": "true"}),
    (own_family, "qwen3 with biases of queries, keys and values", {**qwen3, "bias": "qkv"}),
    (own_family, "gpt2 with biases of queries, keys and values alone", {**gpt2, "bias": "qkv"}),
    (own_family, "qwen2 with a window in its first layer", {**qwen2, "attention": "[local 7, full]"}),
    (own_family, "mistral with bias", {**mistral, "bias": "true"}),
    (own_family, "qwen3 with a window", {**qwen3, "attention": "local 7"}),
    (own_family, "gpt2 with a window", {**gpt2, "attention": "local 7"}),
    (own_family, "llama with a dilated window", {**llama, "attention": "dilated 4 3"}),
    (own_family, "llama with windows in some layers", {**llama, "attention": "[full, local 7]"}),
]
training_config = """
data:
  source: {grammar}
  stories: 200
  dir: {dir}
  tokenizer:
    kind: char
model:
  n_layer: 2
  n_head: 4
  n_embd: 32
  block_size: 32
optimizer:
  learning_rate: 5e-3
schedule:
  warmup_steps: 0
training:
  batch_size: 8
runtime:
  device: cpu
  threads: 1
"""

# Models that transformers makes. Their sizes differ from each other, so that none can stand for another.
sizes = {"vocab_size": 101, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 128, "bos_token_id": None, "eos_token_id": None}
untied = {**sizes, "intermediate_size": 112, "tie_word_embeddings": False}
tied = {**untied, "tie_word_embeddings": True}
untied_gpt2 = GPT2Config(**sizes, tie_word_embeddings=False)
plain_llama = LlamaConfig(**untied)
grouped_qwen2 = Qwen2Config(**tied, num_key_value_heads=2)
grouped_qwen3 = Qwen3Config(**tied, num_key_value_heads=2, head_dim=12)
windowed_mistral = MistralConfig(**untied, num_key_value_heads=4, sliding_window=16)
llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
llama3_without_length = {key: llama3[key] for key in llama3 if key != "original_max_position_embeddings"}
linear = {"rope_type": "linear", "factor": 2.5}
foreign_models = [
    ("gpt2", GPT2Config(**sizes)),
    ("gpt2, untied, exact GELU, n_inner",
     GPT2Config(**sizes, tie_word_embeddings=False, activation_function="gelu", n_inner=80)),
    ("gpt2, ReLU, epsilon", GPT2Config(**sizes, activation_function="relu", layer_norm_epsilon=1e-2)),
    ("llama", plain_llama),
    ("llama, grouped heads, tied", LlamaConfig(**tied, num_key_value_heads=2)),
    ("llama, head_dim, one head of keys, biases, GELU, theta",
     LlamaConfig(**untied, num_key_value_heads=1, head_dim=20, attention_bias=True, mlp_bias=True, hidden_act="gelu",
                 rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    ("llama, scaled as Llama 3, grouped heads, tied",
     LlamaConfig(**tied, num_key_value_heads=2, head_dim=32, rope_parameters={**llama3, "rope_theta": 500.0})),
    ("llama, linear scaling", LlamaConfig(**untied, rope_parameters={**linear, "rope_theta": 10000.0})),
    ("mistral, scaled as Llama 3",
     MistralConfig(**untied, num_key_value_heads=2, sliding_window=50, rope_parameters={**llama3, "rope_theta": 1e6})),
    ("qwen3, linear scaling",
     Qwen3Config(**tied, num_key_value_heads=4, head_dim=20, rope_parameters={**linear, "rope_theta": 500.0})),
    ("llama, tied, epsilon", LlamaConfig(**tied, rms_norm_eps=1e-2)),
    ("mistral", windowed_mistral),
    ("mistral, grouped heads, head_dim, tied, GELU, theta, epsilon",
     MistralConfig(**tied, num_key_value_heads=2, head_dim=20, hidden_act="gelu", rms_norm_eps=1e-2, sliding_window=50,
                   rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    ("mistral without a window", MistralConfig(**untied, num_key_value_heads=4, sliding_window=None)),
    ("mistral with the window that is left out", MistralConfig(**untied, num_key_value_heads=4)),
    ("mistral, the swish of its gates", MistralConfig(**untied, num_key_value_heads=4, hidden_act="swish")),
    ("qwen2", Qwen2Config(**untied, num_key_value_heads=4)),
    ("qwen2, grouped heads, tied", grouped_qwen2),
    ("qwen2, one head of keys, head_dim, GELU, theta, epsilon",
     Qwen2Config(**untied, num_key_value_heads=1, head_dim=20, hidden_act="gelu", rms_norm_eps=1e-2,
                 rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
    ("qwen2, scaled as Llama 3",
     Qwen2Config(**tied, num_key_value_heads=2, rope_parameters={**llama3, "rope_theta": 500.0})),
    ("qwen2 with windows in some layers",
     Qwen2Config(**untied, num_key_value_heads=2, use_sliding_window=True, sliding_window=16, max_window_layers=1)),
    ("qwen2 with a window in all layers",
     Qwen2Config(**untied, num_key_value_heads=4, use_sliding_window=True, sliding_window=16, max_window_layers=0)),
    ("qwen3 with windows in some layers",
     Qwen3Config(**untied, num_key_value_heads=4, use_sliding_window=True, sliding_window=16, max_window_layers=1)),
    ("qwen3, head_dim", Qwen3Config(**untied, num_key_value_heads=4, head_dim=20)),
    ("qwen3, grouped heads, tied", grouped_qwen3),
    ("qwen3, one head of keys, theta, epsilon",
     Qwen3Config(**untied, num_key_value_heads=1, head_dim=32, rms_norm_eps=1e-2,
                 rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
]

window = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}

# Older versions of transformers write other config.json files for what is the same model: (name, config, changes of the
# file, in which ... stands for a key that is not there).
theta_outside = {"rope_parameters": ..., "rope_theta": 10000.0, "rope_scaling": None}
older_configs = [
    ("llama as transformers 4 writes it", plain_llama, theta_outside),
    ("llama as its first models have it", plain_llama,
     {"rope_parameters": ..., "head_dim": ..., "num_key_value_heads": ..., "attention_bias": ..., "mlp_bias": ...,
      "dtype": ..., "torch_dtype": "float32"}),
    ("qwen3 as transformers 4 writes it", grouped_qwen3, theta_outside),
    ("llama with linear scaling as transformers 4 first had it", plain_llama,
     {**theta_outside, "rope_scaling": {"type": "linear", "factor": 2.0}}),
    ("llama scaled as Llama 3, as transformers 4 writes it", plain_llama, {**theta_outside, "rope_scaling": llama3}),
    ("llama scaled as Llama 3, with its first length outside", plain_llama,
     {**theta_outside, "rope_scaling": llama3_without_length,
      "original_max_position_embeddings": 40}),
    ("llama scaled as Llama 3, without its first length", plain_llama,
     {**theta_outside, "rope_scaling": llama3_without_length}),
    ("qwen2 as transformers 4 writes it", grouped_qwen2, {**theta_outside, "layer_types": ...}),
    ("qwen2 as its first models have it", grouped_qwen2,
     {**theta_outside, "layer_types": ..., "use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 21}),
    ("qwen2 with a window in its first layer", grouped_qwen2,
     {**window, "layer_types": ["sliding_attention", "full_attention"]}),
    ("gpt2 whose config.json ties a head of its own", untied_gpt2, {"tie_word_embeddings": True}),
    ("gpt2 whose config.json does not speak of a head of its own", untied_gpt2, {"tie_word_embeddings": ...}),
    ("llama whose config.json ties a head of its own", plain_llama, {"tie_word_embeddings": True}),
    ("mistral with a window in one layer", windowed_mistral, {"layer_types": ["full_attention", "sliding_attention"]}),
    ("mistral with full attention in all layers", windowed_mistral, {"layer_types": ["full_attention"] * 2}),
]

# They also stored tensors that are no weights: (name, config, their names).
older_tensors = [
    ("gpt2 with its masks", GPT2Config(**sizes),
     ["transformer.h.0.attn.bias", "transformer.h.1.attn.bias"]),
    ("llama with its angles", plain_llama,
     ["model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"]),
]

# What would be computed wrongly if it were opened: (the key that the refusal must name, config, changes of the file).
yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}
refused_configs = [
    ("rope_parameters.rope_type", plain_llama,
     {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}}),
    ("rope_parameters.rope_type", grouped_qwen3, {"rope_parameters": {**yarn, "rope_theta": 10000.0}}),
    ("rope_scaling.rope_type", plain_llama, {**theta_outside, "rope_scaling": yarn}),
    ("rope_scaling.type", plain_llama, {**theta_outside, "rope_scaling": {"type": "dynamic", "factor": 2.0}}),
    ("rope_scaling.low_freq_factor", plain_llama,
     {**theta_outside, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0}}),
    ("rope_scaling.factor", plain_llama, {**theta_outside, "rope_scaling": {"type": "linear", "factor": 0.5}}),
    ("rope_theta", plain_llama, {"rope_theta": 500000.0}),  # beside another one in rope_parameters
    ("hidden_act", plain_llama, {"hidden_act": "relu"}),
    ("tie_word_embeddings", LlamaConfig(**tied), {"tie_word_embeddings": False}),
    ("layer_types", plain_llama, {"layer_types": ["full_attention", "sliding_attention"]}),
    ("use_sliding_window", plain_llama, window),
    ("use_sliding_window", grouped_qwen2, {"layer_types": ["full_attention", "sliding_attention"]}),
    ("head_dim", grouped_qwen2, {"head_dim": None}),
    ("attention_bias", plain_llama, {"attention_bias": True}),  # in attention alone, but for all four matrices
    ("layer_types", grouped_qwen3, {**window, "layer_types": ["full_attention", "chunked_attention"]}),
    ("use_sliding_window", grouped_qwen3, {**window, "use_sliding_window": False,
                                           "layer_types": ["full_attention", "sliding_attention"]}),
]
