"""A model of inkling in plain PyTorch, for checkpoints that are of no family which transformers knows:

    AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

Shapes: B texts, T new tokens, S of these and earlier ones, C channels (hidden_size), H heads, D channels of a head."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

GATED = {"swiglu": F.silu, "geglu": F.gelu}
ACTIVATIONS = {"gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "gelu": F.gelu, "relu": F.relu,
               "relu_squared": lambda x: F.relu(x).square(), **GATED}


class InklingConfig(PretrainedConfig):
    """What config.json says: sizes under Llama's names, everything else as inkling's settings are called."""
    model_type, keys_to_ignore_at_inference = "inkling", ["past_key_values"]

    def __init__(self, **fields):
        super().__init__(**{"attention": None, "embedding_norm": False, "conv": 0, "tie_word_embeddings": False, **fields})


class InklingCache:
    """What new tokens need of earlier ones: keys and values, and the last inputs of convolutions, each at its place."""
    is_compileable = is_croppable = False  # asked by generate

    def __init__(self):
        self.length, self.kept = 0, {}

    def get_seq_length(self, layer=0):
        return self.length

    def extend(self, place, new, most=None):
        """Returns what is kept at the place with new [..., T, D] behind it; the last `most` rows of that stay."""
        whole = torch.cat([self.kept[place], new], -2) if place in self.kept else new
        self.kept[place] = whole if most is None else whole[..., max(0, whole.size(-2) - most):, :]
        return whole

    def reorder_cache(self, rows):
        self.kept = {place: kept.index_select(0, rows.to(kept.device)) for place, kept in self.kept.items()}


def make_norm(config):
    if config.norm == "rmsnorm":
        return nn.RMSNorm(config.hidden_size, eps=config.norm_epsilon)
    return nn.LayerNorm(config.hidden_size, eps=config.norm_epsilon, bias=config.bias is True)


def rotate(x, cosines, sines):
    """Turns the pairs (i, i + D/2) of heads [B, H, T, D] by angles [B or 1, 1, T, D/2], in float32 (RoPE)."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1).to(x.dtype)


def scale_frequencies(w, rope):
    """Angles per position, [D/2], as rope_type scales them; llama3: by how often a pair turns in what it learned from."""
    if rope.get("rope_type", "default") == "default":
        return w
    if rope["rope_type"] == "linear":
        return w / rope["factor"]
    low, high, turns = rope["low_freq_factor"], rope["high_freq_factor"], w / (2 * math.pi)
    kept = ((turns * rope["original_max_position_embeddings"] - low) / (high - low)).clamp(0, 1)
    return (1 - kept) * w / rope["factor"] + kept * w


def alibi_slopes(heads, device):
    """2^(-8 h / n) for h = 1, ..., n, a power of two; further heads take every other one of 2 n."""
    power = 1 << heads.bit_length() - 1
    return torch.tensor([2.0 ** (-8 * (h + 1 if h < power else h - power + 0.5) / power) for h in range(heads)],
                        dtype=torch.float32, device=device)


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.layer, self.dropout, self.head_dim = layer, config.dropout, config.head_dim
        self.is_alibi = config.position == "alibi"
        words = config.attention[layer].split() if config.attention else ["full"]  # or "local W" or "dilated W R"
        self.apart = int(words[2]) if words[0] == "dilated" else 1  # how far apart the tokens lie that are seen
        self.reach = None if words[0] == "full" else (int(words[1]) - 1) * self.apart  # how far back, at most
        queries, keys = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        has_bias = bool(config.bias)  # true or "qkv": in these three alone
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=has_bias)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=has_bias)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=has_bias)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=config.bias is True)
        self.q_norm = nn.RMSNorm(self.head_dim, eps=config.norm_epsilon) if config.qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(self.head_dim, eps=config.norm_epsilon) if config.qk_norm else nn.Identity()

    def forward(self, x, angles, real, cache):
        q, k, v = (project(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [B, T, H D] -> [B, H, T, D]
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.q_norm(q), self.k_norm(k)
        if angles is not None:
            q, k = rotate(q, *angles), rotate(k, *angles)
        k, v = cache.extend((self.layer, "keys"), k, self.reach), cache.extend((self.layer, "values"), v, self.reach)
        places = torch.arange(k.size(2), device=x.device)
        distance = places[-q.size(2):, None] - places  # [T, S]: the new tokens are the last
        visible = (distance >= 0) & (distance % self.apart == 0)
        if self.reach is not None:
            visible &= distance <= self.reach
        visible = visible & real[:, None, None, -k.size(2):] | (distance == 0)  # padding sees itself, not to become NaN
        if self.is_alibi:
            falling = alibi_slopes(q.size(1), q.device)[:, None, None] * distance
            visible = torch.where(visible, -falling, -torch.inf).to(q.dtype)
        k, v = (each.repeat_interleave(q.size(1) // each.size(1), 1) for each in (k, v))  # for each head of queries
        y = F.scaled_dot_product_attention(q, k, v, visible, self.dropout if self.training else 0.0)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Convolution(nn.Module):
    """y_t = x_t (1 + w_0) + w_1 x_{t-1} + w_2 x_{t-2} + ..., each channel by itself; x is 0 before the text begins."""

    def __init__(self, config, place):
        super().__init__()
        self.place, self.weight = place, nn.Parameter(torch.zeros(config.conv, config.hidden_size))

    def forward(self, x, real, cache):
        new, before = x.size(1), self.weight.size(0) - 1
        x = cache.extend(self.place, x * real[:, -new:, None].to(x.dtype), before)
        x = F.pad(x, (0, 0, before + new - x.size(1), 0))
        return x[:, before:] + sum(w * x[:, before - k : before - k + new] for k, w in enumerate(self.weight))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.activate, sizes = ACTIVATIONS[config.activation], (config.hidden_size, config.intermediate_size)
        has_bias = config.bias is True
        self.gate_proj = nn.Linear(*sizes, bias=has_bias) if config.activation in GATED else None
        self.up_proj = nn.Linear(*sizes, bias=has_bias)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=has_bias)

    def forward(self, x):
        wide = self.up_proj(x)
        return self.down_proj(self.activate(self.gate_proj(x)) * wide if self.gate_proj else self.activate(wide))


class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = make_norm(config), make_norm(config)
        self.input_conv = Convolution(config, (layer, "input")) if config.conv else None
        self.post_attention_conv = Convolution(config, (layer, "post_attention")) if config.conv else None
        self.self_attn, self.mlp, self.dropout = Attention(config, layer), MLP(config), nn.Dropout(config.dropout)

    def forward(self, x, angles, real, cache):
        y = self.input_layernorm(x)
        y = self.input_conv(y, real, cache) if self.input_conv else y
        x = x + self.dropout(self.self_attn(y, angles, real, cache))
        y = self.post_attention_layernorm(x)
        y = self.post_attention_conv(y, real, cache) if self.post_attention_conv else y
        return x + self.dropout(self.mlp(y))


class InklingForCausalLM(PreTrainedModel, GenerationMixin):
    config_class, base_model_prefix, _no_split_modules, _supports_sdpa = InklingConfig, "model", ["Block"], True
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # where tie_word_embeddings says so
    _is_stateful = True  # a cache cannot be cut back, which assisted generation would do

    def __init__(self, config):
        super().__init__(config)
        parts = {"embed_tokens": nn.Embedding(config.vocab_size, config.hidden_size)}
        if config.position == "learned":
            parts["embed_positions"] = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        if config.embedding_norm:
            parts["embedding_norm"] = make_norm(config)
        parts["layers"] = nn.ModuleList(Block(config, layer) for layer in range(config.num_hidden_layers))
        self.model = nn.ModuleDict({**parts, "norm": make_norm(config), "dropout": nn.Dropout(config.dropout)})
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def embed(self, tokens, positions):
        x, most = self.model.embed_tokens(tokens), self.config.max_position_embeddings
        if self.config.position == "learned":
            if positions.max() >= most:
                raise ValueError(f"the text has more than {most} tokens, and this model has learned no more positions")
            x = x + self.model.embed_positions(positions)
        return self.model.dropout(self.model.embedding_norm(x) if self.config.embedding_norm else x)

    def angles(self, positions):
        """Cosines and sines [B or 1, 1, T, D/2] of RoPE. Where texts can go on without end they are taken in float64."""
        reaches = [block.self_attn.reach for block in self.model.layers]
        is_endless = None not in reaches and max(reaches) < self.config.max_position_embeddings
        dtype = torch.float64 if is_endless and positions.device.type != "mps" else torch.float32
        exponents = torch.arange(0, self.config.head_dim, 2, dtype=dtype, device=positions.device) / self.config.head_dim
        rope = getattr(self.config, "rope_parameters", None) or {"rope_theta": self.config.rope_theta}
        angles = positions[:, None, :, None].to(dtype) * scale_frequencies(1 / rope["rope_theta"]**exponents, rope)
        return angles.cos().float(), angles.sin().float()

    def forward(self, input_ids, attention_mask=None, past_key_values=None, labels=None, use_cache=False,
                logits_to_keep=0, return_dict=True, token_type_ids=None):
        """attention_mask [B, S] is 0 for padding and spans what past_key_values holds. labels [B, T]: input_ids or -100."""
        cache = InklingCache() if past_key_values is None else past_key_values
        if not isinstance(cache, InklingCache):
            raise ValueError(f"past_key_values is {type(cache).__name__}, not an InklingCache that this model returned")
        size = (input_ids.size(0), cache.length + input_ids.size(1))
        real = input_ids.new_ones(size) if attention_mask is None else attention_mask
        if real.shape != size:
            raise ValueError(f"attention_mask has the shape {tuple(real.shape)}, and these tokens have {size}")
        positions = (real.long().cumsum(-1) - 1).clamp(min=0)[:, -input_ids.size(1):]  # padding is not counted
        x, angles = self.embed(input_ids, positions), self.angles(positions) if self.config.position == "rope" else None
        for block in self.model.layers:
            x = block(x, angles, real.bool(), cache)
        cache.length = size[1]
        logits, bound = self.lm_head(self.model.norm(x)[:, -logits_to_keep:]), self.config.logit_softcap
        logits = bound * torch.tanh(logits / bound) if bound else logits
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten())
        output = CausalLMOutputWithPast(loss, logits, cache if use_cache else None)
        return output if return_dict else output.to_tuple()

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, past_key_values=None, use_cache=True, **kwargs):
        if kwargs.get("position_ids") is not None:
            raise ValueError("this model takes positions from attention_mask; leave position_ids out")
        cache = InklingCache() if use_cache and past_key_values is None else past_key_values
        new = (input_ids if attention_mask is None else attention_mask).size(1) - (cache.get_seq_length() if cache else 0)
        new = kwargs.get("next_sequence_length", new) or input_ids.size(1)  # transformers 5 says it, or None for all
        return {"input_ids": input_ids[:, -new:], "attention_mask": attention_mask, "past_key_values": cache,
                "use_cache": use_cache, "logits_to_keep": kwargs.get("logits_to_keep", 0)}

    @classmethod
    def _supports_default_dynamic_cache(cls):
        return False  # prepare_inputs_for_generation makes the cache
