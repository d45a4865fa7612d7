"""Times training steps of the same GPT in PyTorch, eager or compiled, for side-by-side runs with bench-step.

Usage: python torch_step.py --layers 4 --heads 4 --width 128 --block 64 --batch 12 --vocab 65 [--compile] [--steps 50]
Prints one JSON object with the fields of bench-step. The environment that scripts/environment prints has a Python
whose torch is the LibTorch that inkling links.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, bias, gelu):
        super().__init__()
        self.heads, self.activation = heads, gelu
        self.norm_1 = nn.LayerNorm(width, bias=bias)
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.norm_2 = nn.LayerNorm(width, bias=bias)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        batch, time_steps, width = x.shape
        q, k, v = (
            part.view(batch, time_steps, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).split(width, dim=2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, time_steps, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate=self.gelu))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocab, a.width)
        self.positions = nn.Embedding(a.block, a.width)
        self.blocks = nn.ModuleList(Block(a.width, a.heads, a.bias, a.gelu) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.width, bias=a.bias)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    for name, default in dict(layers=4, heads=4, width=128, block=64, batch=12, vocab=65, steps=50, threads=0).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gelu", choices=["none", "tanh"], default="none")
    parser.add_argument("--bias", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    a = parser.parse_args()
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
    data = torch.randint(a.vocab, (200000,))

    def step():
        starts = torch.randint(len(data) - a.block - 1, (a.batch,))
        tokens = torch.stack([data[s : s + a.block] for s in starts]).to(a.device)
        targets = torch.stack([data[s + 1 : s + a.block + 1] for s in starts]).to(a.device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=cuda):
            loss = run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if cuda:
            torch.cuda.synchronize()

    for _ in range(5):
        step()
    times = []
    for _ in range(a.steps):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1000)
    median = statistics.median(times)
    tenths = statistics.quantiles(times, n=10)
    print(json.dumps({"peer": "torch.compile" if a.compile else "torch eager", "threads": torch.get_num_threads(),
                      "ms_median": median, "ms_p10": tenths[0], "ms_p90": tenths[-1],
                      "tokens_per_second": a.batch * a.block / median * 1000}))


if __name__ == "__main__":
    main()
