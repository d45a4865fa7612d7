"""Every key of config.json, changed one by one in folders that transformers makes: whatever transformers computes then, inkling
computes too or refuses by the key's name."""
import copy

import torch
from comparison import open_with_transformers, read_config, some_tokens, write_config
from transformers import GPT2Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

LLAMA_SIZES = {"vocab_size": 101, "hidden_size": 48, "intermediate_size": 112, "num_hidden_layers": 3,
               "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": None,
               "eos_token_id": None}
MODELS = [
    GPT2Config(vocab_size=101, n_embd=48, n_layer=3, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=None),
    LlamaConfig(**LLAMA_SIZES),
    MistralConfig(**LLAMA_SIZES, sliding_window=16),
    Qwen2Config(**LLAMA_SIZES, use_sliding_window=True, sliding_window=16, max_window_layers=1),
    Qwen3Config(**LLAMA_SIZES, head_dim=12, use_sliding_window=True, sliding_window=16, max_window_layers=1),
]
MISSING = object()
FULL, SLIDING = "full_attention", "sliding_attention"
# What is tried of rotary positions in those that have them.
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0, "rope_theta": 10000.0}
ROPE_CHANGES = {
    "rope_parameters": [{"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}, LLAMA3],
    "rope_scaling": [{"type": "linear"}, {"rope_type": "linear", "factor": 0.5}, LLAMA3],
}
# What is tried of each key, in every family, whether it has the key or not.
CHANGES = {
    "activation_function": ["gelu", "gelu_fast", "gelu_accurate", "gelu_python_tanh", "gelu_pytorch_tanh", "gelu_python",
                            "relu", "relu2", "quick_gelu", "silu", MISSING],
    "hidden_act": ["swish", "silu", "gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "relu", MISSING],
    "layer_norm_epsilon": [0.1, MISSING], "rms_norm_eps": [0.1, MISSING],
    "scale_attn_weights": [False, MISSING], "scale_attn_by_inverse_layer_idx": [True, MISSING],
    "reorder_and_upcast_attn": [True], "add_cross_attention": [True],
    "n_inner": [96, MISSING], "intermediate_size": [96, MISSING], "head_dim": [None, 24, MISSING],
    "num_key_value_heads": [None, 4, MISSING], "n_head": [2, MISSING], "num_attention_heads": [2, MISSING],
    "hidden_size": [24], "n_embd": [24], "num_hidden_layers": [2], "n_layer": [2], "max_position_embeddings": [32],
    "n_positions": [32], "n_ctx": [32], "vocab_size": [50], "tie_word_embeddings": [True, False, MISSING],
    "attention_bias": [True, MISSING], "mlp_bias": [True, MISSING],
    "layer_types": [[FULL] * 3, [SLIDING] * 3, [FULL, SLIDING, FULL], [SLIDING, FULL, FULL], ["attention"] * 3, [FULL], None,
                    MISSING],
    "sliding_window": [5, 64, None, MISSING], "use_sliding_window": [True, False, MISSING], "max_window_layers": [0, 2, MISSING],
    "rope_theta": [500.0, 10000.0], "original_max_position_embeddings": [16],
    "rope_parameters": [{"rope_type": "default"}, {"rope_theta": 500.0}, {"rope_type": "linear", "factor": 2.0,
                                                                         "rope_theta": 10000.0}, MISSING],
    "rope_scaling": [{}, {"type": "default"}, {"factor": 2.0}, {"type": "linear", "factor": 2.0}, {"rope_theta": 500.0}],
    "partial_rotary_factor": [0.5, 1.0], "rope_interleaved": [False, True],
    "pruned_heads": [{}, {"0": [0]}], "per_layer_config": [{}, {"0": {"hidden_act": "gelu"}}],
    "quantization_config": [{"quant_method": "gptq", "bits": 4}], "is_encoder_decoder": [True], "is_decoder": [True],
    "pretraining_tp": [2], "attention_dropout": [0.5], "resid_pdrop": [0.5],
    "dtype": ["float16"], "pad_token_id": [3], "initializer_range": [0.5], "tie_last_hidden_states": [True],
    "output_attentions": [True], "something_new": [1],
}

@torch.no_grad()
def transformers_logits(folder, tokens):
    """None where transformers does not open the folder, or computes nothing."""
    try:
        return open_with_transformers(folder)(torch.tensor([tokens])).logits[0]
    except Exception:
        return None


def compare_key(inkling, folder, base, key):
    """Each value of one key, with the weights of the folder."""
    said, agree = [], True
    for value in CHANGES[key] + (ROPE_CHANGES.get(key, []) if "rope_parameters" in base else []):
        config = {name: base[name] for name in base if name != key}
        if value is not MISSING:
            config[key] = value
        elif key not in base:
            continue
        write_config(folder, config)
        tokens = some_tokens(50, 32)
        expected, refusal = transformers_logits(folder, tokens), inkling.refusal(folder)
        if refusal:
            ok, word = key in refusal or expected is None, "refused"
        elif expected is None:
            ok, word = False, "COMPUTED, which transformers does not"
        else:
            difference = (inkling.logits(folder, tokens) - expected).abs().max().item()
            ok, word = difference <= 1e-4 * max(1.0, expected.abs().max().item()), f"{difference:.0e} apart"
        agree = agree and ok
        said.append(f"{'missing' if value is MISSING else value} {word}")
    return agree, "; ".join(said)


def check_config_keys(tally, inkling, work, make_model):
    for config in MODELS:
        folder = work / f"keys-{config.model_type}"
        make_model(copy.deepcopy(config)).save_pretrained(folder)
        base = read_config(folder)
        for key in CHANGES:
            tally.judge(f"{config.model_type}'s {key}", compare_key, inkling, folder, base, key)
