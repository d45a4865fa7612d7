"""Times training steps of the same GPT in PyTorch, eager or compiled, for side-by-side runs with bench-step.

Usage: python torch_step.py --layers 4 --heads 4 --width 128 --block 64 --batch 12 --vocab 65 [--compile] [--steps 50]
The model is GPT-2 unless switches change its parts. These make it a Llama:
  --norm rmsnorm --position rope --activation swiglu
Prints one JSON object with the fields of bench-step and the number of parameters. The environment that
scripts/environment prints has a Python whose torch is the LibTorch that inkling links.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
    "swiglu": F.silu,
    "geglu": F.gelu,
}
GATED = {"swiglu", "geglu"}


def norm_of(a, width):
    if a.norm == "rmsnorm":
        return nn.RMSNorm(width, eps=1e-5)
    return nn.LayerNorm(width, bias=a.bias)


class Rotation(nn.Module):
    """RoPE (Su et al. 2021): channels i and i + D/2 of the token at t turn by the angle t / theta^(2i/D)."""

    def __init__(self, head_size, block, theta):
        super().__init__()
        frequencies = theta ** -(torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
        angles = torch.outer(torch.arange(block, dtype=torch.float32), frequencies)  # [T,D/2]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):  # [B,H,T,D]
        cos, sin = (table[: x.size(2)].to(x.dtype) for table in (self.cos, self.sin))
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, a, rotation):
        super().__init__()
        self.heads, self.kv_heads, self.head_size, self.rotation = a.heads, a.kv_heads, a.head_size, rotation
        self.qkv = nn.Linear(a.width, (a.heads + 2 * a.kv_heads) * a.head_size, bias=a.bias)
        self.out = nn.Linear(a.heads * a.head_size, a.width, bias=a.bias)
        # One weight for each channel of a head, the same for all heads, as Qwen3.
        self.q_norm = nn.RMSNorm(a.head_size, eps=1e-5) if a.qk_norm else None
        self.k_norm = nn.RMSNorm(a.head_size, eps=1e-5) if a.qk_norm else None

    def forward(self, x):
        widths = [count * self.head_size for count in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (
            part.unflatten(2, (-1, self.head_size)).transpose(1, 2)  # [B,H,T,D]
            for part in self.qkv(x).split(widths, dim=2)
        )
        if self.q_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotation:
            q, k = self.rotation(q), self.rotation(k)
        # Grouped by the operation itself, which is no slower on a CPU than repeating keys and values for it.
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads < self.heads)
        return self.out(attended.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.gated, self.activation = a.activation in GATED, ACTIVATIONS[a.activation]
        self.up = nn.Linear(a.width, (2 if self.gated else 1) * a.inner, bias=a.bias)  # gate and up in one product
        self.down = nn.Linear(a.inner, a.width, bias=a.bias)

    def forward(self, x):
        if not self.gated:
            return self.down(self.activation(self.up(x)))
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(self.activation(gate) * up)


class Block(nn.Module):
    def __init__(self, a, rotation):
        super().__init__()
        self.norm_1, self.attention = norm_of(a, a.width), Attention(a, rotation)
        self.norm_2, self.mlp = norm_of(a, a.width), Mlp(a)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.softcap = a.softcap
        self.tokens = nn.Embedding(a.vocab, a.width)
        self.positions = nn.Embedding(a.block, a.width) if a.position == "learned" else None
        rotation = Rotation(a.head_size, a.block, a.rope_theta) if a.position == "rope" else None
        self.blocks = nn.ModuleList(Block(a, rotation) for _ in range(a.layers))
        self.norm = norm_of(a, a.width)
        self.head = nn.Embedding(a.vocab, a.width) if a.untied else self.tokens
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        if self.positions:
            x = x + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.head.weight)
        if self.softcap:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in dict(layers=4, heads=4, width=128, block=64, batch=12, vocab=65, steps=50, threads=0).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--norm", choices=["layernorm", "rmsnorm"], default="layernorm")
    parser.add_argument("--position", choices=["learned", "rope", "none"], default="learned")
    parser.add_argument("--rope_theta", type=float, default=10000)
    parser.add_argument("--activation", choices=ACTIVATIONS, default="gelu")
    parser.add_argument("--inner", type=int, default=0, help="0: 4 width; gated 8/3 width, up to a multiple of 64")
    parser.add_argument("--kv_heads", type=int, default=0, help="0: as many as heads")
    parser.add_argument("--head_size", type=int, default=0, help="0: width / heads")
    parser.add_argument("--qk_norm", action="store_true")
    parser.add_argument("--untied", action="store_true")
    parser.add_argument("--softcap", type=float, default=0, help="0: none")
    parser.add_argument("--bias", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    a = parser.parse_args()
    a.kv_heads = a.kv_heads or a.heads
    a.head_size = a.head_size or a.width // a.heads
    a.inner = a.inner or (-(-8 * a.width // (3 * 64)) * 64 if a.activation in GATED else 4 * a.width)
    return a


def cpu_times(step, steps):
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1000)
    return times


def gpu_times(step, steps):
    """By the GPU's clock, while the host runs ahead."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in zip(marks, marks[1:])]


def main():
    a = arguments()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Gpt(a).to(a.device)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    cuda = a.device != "cpu"
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=cuda)
    run = torch.compile(model) if a.compile else model
    data = torch.randint(a.vocab, (200000,), device=a.device)  # on a GPU nothing waits for the host
    window = torch.arange(a.block + 1, device=a.device)

    def step():
        rows = data[torch.randint(len(data) - a.block - 1, (a.batch, 1), device=a.device) + window]
        tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=cuda):
            loss = run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(5):
        step()
    times = gpu_times(step, a.steps) if cuda else cpu_times(step, a.steps)
    median = statistics.median(times)
    tenths = statistics.quantiles(times, n=10)
    print(json.dumps({"peer": "torch.compile" if a.compile else "torch eager", "threads": torch.get_num_threads(),
                      "ms_median": median, "ms_p10": tenths[0], "ms_p90": tenths[-1],
                      "tokens_per_second": a.batch * a.block / median * 1000,
                      "parameters": sum(p.numel() for p in model.parameters())}))


if __name__ == "__main__":
    main()
