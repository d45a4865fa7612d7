"""A training step as docs/formats.md has it, in plain Python and PyTorch, written from that page alone.

Settings are by name, as `model.n_embd`, with what COMMON of replay.py leaves out at its default. Weights, gradients and
what the optimizer keeps are by the names of model.safetensors without `transformer.` in front.
"""
import json
import math
import struct

import torch
from torch.nn import functional as F

# Random numbers

MASK, GAMMA = 2**64 - 1, 0x9E3779B97F4A7C15
FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(x):
    for shift, factor in zip((30, 27), FACTORS):
        x = (x ^ (x >> shift)) * factor & MASK
    return x ^ (x >> 31)


def key(seed, purpose, step):
    return mix((mix((mix(seed + GAMMA & MASK) ^ purpose) + GAMMA & MASK) ^ step) + GAMMA & MASK)


def bits(of_key, index):
    return mix(of_key + (index + 1) * GAMMA & MASK)


def unit(of_key, index):
    return (bits(of_key, index) >> 11) / 2**53


def below(of_key, index, n):
    return (bits(of_key, index) * n) >> 64


def normal(of_key, index):
    return math.sqrt(-2 * math.log(1 - unit(of_key, 2 * index))) * math.cos(2 * math.pi * unit(of_key, 2 * index + 1))


def permutation(of_key, size, i):
    h = max(1, ((size - 1).bit_length() + 1) // 2)
    while True:
        left, right = i >> h, i % 2**h
        for turn in range(4):
            left, right = right, left ^ (bits(of_key, turn << 32 | right) % 2**h)
        i = left * 2**h + right
        if i < size:
            return i


def upper_halves(of_key, count):
    """bits(of_key, 0 to count - 1) >> 32, in int64, whose products are those modulo 2^64."""
    signed = lambda number: number - 2**64 if number >> 63 else number  # noqa: E731
    x = torch.arange(1, count + 1) * signed(GAMMA) + signed(of_key)
    for shift, factor in zip((30, 27), FACTORS):
        x = (x ^ (x >> shift & MASK >> shift)) * signed(factor)
    return (x ^ (x >> 31 & MASK >> 31)) >> 32 & 0xFFFFFFFF


# Tokens and windows

def read_data(folder):
    """Tokens of the training split, and the separator of a vocabulary of characters."""
    description, tokens = json.loads((folder / "dataset.json").read_text()), []
    for shard in description["train"]["shards"]:
        content = (folder / shard).read_bytes()
        magic, version, count = struct.unpack_from("<3i", content)
        assert (magic, version, len(content)) == (20240520, 1, 1024 + 2 * count)
        tokens += struct.unpack_from(f"<{count}H", content, 1024)
    return tokens, description["vocab_size"] - 1


def pack(tokens, separator, length):
    """The windows of `data.documents: align`: of each its pieces as (first token, inputs)."""
    begins = [i for i, token in enumerate(tokens) if token == separator and i] + [len(tokens) - 1]
    pieces = []
    for begin, end in zip([0] + begins, begins):
        pieces += [(first, min(length, end - first)) for first in range(begin, end, length)]
    windows, room = [], []
    for first, inputs in sorted(pieces, key=lambda piece: -piece[1]):  # which leaves equal ones in their order
        free, at = min(((free, at) for at, free in enumerate(room) if free >= inputs), default=(None, None))
        if at is None:
            at, free = len(windows), length
            windows.append([])
            room.append(length)
        windows[at].append((first, inputs))
        room[at] = free - inputs
    return windows


class Windows:
    def __init__(self, settings, tokens, separator):
        self.tokens, self.separator = tokens, separator
        self.documents, self.order = settings["data.documents"], settings["data.order"]
        self.length, self.seed = settings["model.block_size"], settings["training.seed"]
        self.packed = pack(tokens, separator, self.length) if self.documents == "align" else None

    def pieces(self, n):
        if self.packed:
            count = len(self.packed)
            return self.packed[permutation(key(self.seed, 2, n // count), count, n % count) if self.order == "epoch" else
                               below(key(self.seed, 3, 0), n, count)]
        if self.order == "random":
            return [(below(key(self.seed, 3, 0), n, len(self.tokens) - self.length), self.length)]
        count = max(1, (len(self.tokens) - 1) // self.length - 1)
        epoch, i = divmod(n, count)
        phase = below(key(self.seed, 3, epoch), 0, len(self.tokens) - 1 - count * self.length + 1)
        return [(phase + self.length * permutation(key(self.seed, 2, epoch), count, i), self.length)]

    def row(self, n):
        """Tokens, targets (-1: not scored), positions, and the column where the document of each token begins."""
        inputs, targets, starts = [], [], []
        for first, count in self.pieces(n):
            begin = len(inputs)
            for i in range(first, first + count):
                if self.documents != "join" and self.tokens[i] == self.separator:
                    begin = len(inputs)
                starts.append(begin)
                inputs.append(self.tokens[i])
                targets.append(self.tokens[i + 1])
        empty = self.length - len(inputs)
        starts += [len(inputs)] * empty
        return (inputs + [self.separator] * empty, targets + [-1] * empty, [i - at for i, at in enumerate(starts)], starts)


# The model

def shapes(settings, vocabulary):
    """Shapes by name, in the order of the page's table."""
    c, bias = settings["model.n_embd"], settings.get("model.bias", "true") == "true"
    layer = {"ln_1": [c], "attn.c_attn": [c, 3 * c], "attn.c_proj": [c, c], "ln_2": [c], "mlp.c_fc": [c, 4 * c],
             "mlp.c_proj": [4 * c, c]}
    parts = {f"h.{number}.{name}": shape for number in range(settings["model.n_layer"]) for name, shape in layer.items()}
    every = {"wte.weight": [vocabulary, c], "wpe.weight": [settings["model.block_size"], c]}
    for name, shape in {**parts, "ln_f": [c]}.items():
        every[f"{name}.weight"] = shape
        if bias:
            every[f"{name}.bias"] = shape[-1:]
    return every


def initial_weights(settings, vocabulary):
    weights, number = {}, 0
    for name, shape in shapes(settings, vocabulary).items():
        if len(shape) == 1:
            weights[name] = torch.full(shape, float(name.endswith("weight")))
            continue
        deviation = 0.02 / math.sqrt(2 * settings["model.n_layer"]) if "c_proj" in name else 0.02
        own = key(settings["training.seed"], 1, number)
        weights[name] = torch.tensor([normal(own, i) * deviation for i in range(math.prod(shape))],
                                     dtype=torch.float64).float().view(shape)
        number += 1
    return weights


def dropout_factors(settings, step):
    """Of each site what it multiplies with, for all rows of the batch."""
    b, t, c, h = (settings[name] for name in ("training.batch_size", "model.block_size", "model.n_embd", "model.n_head"))
    p = settings.get("model.dropout", 0)
    scale = torch.tensor(1 / (1 - p), dtype=torch.float32).double()
    of_step = bits(key(settings["training.seed"], 4, step), 0)
    sites = [(b, t, c)] + [(b, h, t, t), (b, t, c), (b, t, c)] * settings["model.n_layer"]
    return [(upper_halves(bits(of_step, j), math.prod(shape)) >= math.floor(p * 2**32)).view(shape) * scale
            for j, shape in enumerate(sites)]


def mean_loss(settings, weights, rows, factors):
    """Nats per scored token of these rows; `factors` are theirs."""
    tokens, targets, positions, starts = (torch.tensor(part) for part in zip(*rows))
    heads, width = settings["model.n_head"], settings["model.n_embd"]
    factor = iter(factors)
    columns = torch.arange(tokens.shape[1])
    hidden = (columns > columns[:, None]) | (columns < starts[:, :, None])  # [B, queries, keys]
    norm = lambda x, name: F.layer_norm(x, [width], weights[f"{name}.weight"], weights.get(f"{name}.bias"), 1e-5)  # noqa: E731
    linear = lambda x, name: x @ weights[f"{name}.weight"] + weights.get(f"{name}.bias", 0)  # noqa: E731
    x = (weights["wte.weight"][tokens] + weights["wpe.weight"][positions]) * next(factor)
    for layer in range(settings["model.n_layer"]):
        part = f"h.{layer}."
        q, k, v = (each.unflatten(2, (heads, -1)).transpose(1, 2)
                   for each in linear(norm(x, part + "ln_1"), part + "attn.c_attn").split(width, 2))
        scores = (q @ k.transpose(2, 3) / math.sqrt(width // heads)).masked_fill(hidden[:, None], -math.inf)
        attended = (scores.softmax(3) * next(factor)) @ v
        x = x + linear(attended.transpose(1, 2).flatten(2), part + "attn.c_proj") * next(factor)
        inner = F.gelu(linear(norm(x, part + "ln_2"), part + "mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, part + "mlp.c_proj") * next(factor)
    return F.cross_entropy((norm(x, "ln_f") @ weights["wte.weight"].t()).flatten(0, 1), targets.flatten(), ignore_index=-1)


# A step

def tree_sum(leaves):
    """The sum of gradients by name, ((0 + 1) + (2 + 3)) + …"""
    if len(leaves) == 1:
        return leaves[0]
    first = 2 ** ((len(leaves) - 1).bit_length() - 1)
    left, right = tree_sum(leaves[:first]), tree_sum(leaves[first:])
    return {name: left[name] + right[name] for name in left}


def shares(settings, rows):
    """Of each micro-batch its rows, and its share of the batch's scored targets."""
    size = settings["training.micro_batch_size"]
    scored = lambda part: sum(target >= 0 for row in part for target in row[1])  # noqa: E731
    parts = [rows[i:i + size] for i in range(0, len(rows), size)]
    return [(part, scored(part) / scored(rows)) for part in parts]


def gradient(settings, weights, rows, step):
    """The loss of the batch, and its gradient by name."""
    factors, size = dropout_factors(settings, step), settings["training.micro_batch_size"]
    loss, leaves = 0.0, []
    for number, (part, share) in enumerate(shares(settings, rows)):
        fresh = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        own = mean_loss(settings, fresh, part, [site[number * size:(number + 1) * size] for site in factors])
        leaves.append(dict(zip(fresh, torch.autograd.grad(own * share, list(fresh.values())))))
        loss += own.item() * share
    return loss, tree_sum(leaves)


def learning_rate(settings, s):
    peak, low = settings["optimizer.learning_rate"], settings["schedule.min_learning_rate"]
    warm, end = settings["schedule.warmup_steps"], settings["training.max_steps"]
    if s < warm:
        return peak * (s + 1) / (warm + 1)
    return low + (peak - low) * (1 + math.cos(math.pi * (s - warm) / (end - warm))) / 2


def orthogonal(g, m):
    x = g + 0.95 * m
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.t()
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x * math.sqrt(max(1, x.shape[1] / x.shape[0]))


def is_muons(settings, name):
    return settings.get("optimizer.name") == "muon" and name.startswith("h.") and ".c_" in name and name.endswith("weight")


def update(settings, weights, state, g, rate, t):
    """Changes weights and state, both by name; t counts updates from 1."""
    peak = settings["optimizer.learning_rate"]
    for name, w in weights.items():
        if is_muons(settings, name):
            a = rate * (settings["optimizer.muon.learning_rate"] / peak)
            m = state.setdefault(f"momentum.{name}", torch.zeros_like(w))
            m.mul_(0.95).add_(g[name])
            parts = 3 if "c_attn" in name else 1
            turned = torch.cat([orthogonal(*part) for part in zip(g[name].chunk(parts, 1), m.chunk(parts, 1))], 1)
            w.mul_(1 - a * 0.1).sub_(a * turned)
            continue
        is_vector = w.dim() == 1
        a = rate * (settings.get("optimizer.vector_learning_rate", peak) / peak) if is_vector else rate
        m = state.setdefault(f"moment1.{name}", torch.zeros_like(w))
        v = state.setdefault(f"moment2.{name}", torch.zeros_like(w))
        m.mul_(0.9).add_(0.1 * g[name])
        v.mul_(0.95).add_(0.05 * g[name] * g[name])
        w.mul_(1 - a * (0 if is_vector else 0.1))
        w.sub_(a / (1 - 0.9**t) * m / (v.sqrt() / math.sqrt(1 - 0.95**t) + 1e-8))


def replay(settings, windows, weights):
    """Lines as log.jsonl has them, the last weights, what the optimizer keeps, and the average of the weights."""
    weights = {name: weight.double() for name, weight in weights.items()}
    average, ema = {name: weight.clone() for name, weight in weights.items()}, settings.get("training.ema", 0)
    lines, state, batch = [], {}, settings["training.batch_size"]
    for step in range(settings["training.max_steps"]):
        loss, g = gradient(settings, weights, [windows.row(step * batch + r) for r in range(batch)], step)
        norm = math.sqrt(sum(part.square().sum().item() for part in g.values()))
        rate = learning_rate(settings, step)
        lines.append({"loss": loss, "grad_norm": norm, "learning_rate": rate})
        if norm > 1:
            g = {name: part * (1 / (norm + 1e-6)) for name, part in g.items()}
        update(settings, weights, state, g, rate, step + 1)
        for name, weight in weights.items():
            average[name].mul_(ema).add_((1 - ema) * weight)
    return lines, weights, state, average
