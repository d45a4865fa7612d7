"""Models that are of no family of transformers, drawn from all settings: what modeling_inkling.py in their folders computes
against inkling."""
import os
import random
import shutil

import torch
from comparison import Comparison, is_own, open_with_transformers, read_config
from safetensors.torch import load_file, save_file

SEED = 1
MODELS = 50 if os.environ.get("INKLING_NIGHTLY") else 5
BLOCK_SIZE = 48
SETTINGS = {
    "n_layer": [1, 2, 3], "n_embd": [24, 32], "n_head": [2, 4], "n_kv_head": [1, 2, 4], "head_size": ["auto", 7, 10],
    "n_inner": ["auto", 40], "norm": ["layernorm", "rmsnorm"], "norm_epsilon": [1e-5, 1e-3],
    "position": ["learned", "rope", "alibi", "none"], "rope_theta": [500, 10000],
    "rope_scaling": ["none", "linear 2", "llama3 4 1 3 32"],
    "activation": ["gelu_tanh", "gelu", "relu", "relu_squared", "swiglu", "geglu"], "qk_norm": ["true", "false"],
    "attention": ["full", "local 1", "local 7", "dilated 3 4", "[full, local 5]", "[local 7, dilated 4 3]",
                  "[dilated 2 5, full, local 2]"],
    "logit_softcap": [0, 5], "bias": ["true", "false", "qkv"], "tie_embeddings": ["true", "false"], "dropout": [0, 0.1],
    "norm_weights": ["true", "false"], "embedding_norm": ["true", "false"], "conv": [0, 1, 4]}


def fits(model):
    """As src/config/checks.cpp has it."""
    head_size = model["n_embd"] // model["n_head"] if model["head_size"] == "auto" else model["head_size"]
    has_rmsnorm = model["norm"] == "rmsnorm" or model["qk_norm"] == "true"
    return (model["n_head"] % model["n_kv_head"] == 0 and (model["position"] != "rope" or head_size % 2 == 0)
            and (model["norm_weights"] == "true" or has_rmsnorm))


def drawn_settings(generator):
    while True:
        model = {name: generator.choice(values) for name, values in SETTINGS.items()}
        if fits(model):
            return model


def write_lively_model(folder, checkpoint, seed, norm_weights):
    """The model of a checkpoint that is not trained, with weights so large that every one matters and the likeliest token
    stands out."""
    shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("state.json", "optimizer.safetensors"))
    generator = torch.Generator().manual_seed(seed)
    weights = load_file(folder / "model.safetensors")
    for name, weight in weights.items():
        is_norm = weight.dim() == 1 and name.endswith(".weight")
        if not is_norm:
            weight.normal_(0.0, 0.3, generator=generator)
        elif norm_weights:
            weight.normal_(1.0, 0.3, generator=generator)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


class OwnComparison(Comparison):
    @torch.no_grad()
    def loss(self):
        tokens = torch.tensor([self.tokens])
        expected = torch.nn.functional.cross_entropy(self.expected[:-1], tokens[0, 1:]).item()
        difference = abs(self.model(tokens, labels=tokens).loss.item() - expected)
        self.agree = self.agree and difference <= 1e-5 * max(1.0, expected)
        self.words.append(f"loss {difference:.1e} apart")

    @torch.no_grad()
    def padded(self):
        """Logits of a text beside a longer one, which are those that it has alone."""
        shorter = self.tokens[:len(self.tokens) // 3]
        padding = len(self.tokens) - len(shorter)
        rows = torch.tensor([self.tokens, [0] * padding + shorter])
        mask = torch.ones_like(rows)
        mask[1, :padding] = 0
        difference = (self.model(rows, attention_mask=mask).logits[1, padding:] - self.expected[:len(shorter)]).abs().max()
        self.agree = self.agree and difference.item() <= self.allowed
        self.words.append(f"with padding {difference.item():.1e}")

    def without_cache(self):
        cached, uncached = (self.generated(self.tokens[:8], 32, use_cache=use_cache) for use_cache in (True, False))
        same = (cached.sequences == uncached.sequences).all().item()
        first, second = torch.stack(cached.logits).topk(2).values.unbind(-1)
        is_tie = (first - second).min().item() <= 2 * self.allowed
        self.agree = self.agree and (same or is_tie)
        self.words.append(f"{'the same' if same else 'OTHER'} text without cache")


def drawn_checkpoint(inkling, config, out, generator):
    """Returns settings whose model is saved as inkling's own family, and the model as it is initialised."""
    while True:
        model = {**drawn_settings(generator), "block_size": BLOCK_SIZE}
        settings = {f"model.{name}": value for name, value in model.items()}
        checkpoint = inkling.train(config, out, {**settings, "training.max_steps": 0})
        if is_own(read_config(checkpoint)):
            return model, checkpoint
        shutil.rmtree(out)


def compare_drawn(inkling, config, work, number):
    model, checkpoint = drawn_checkpoint(inkling, config, work / f"drawn{number}-run", random.Random(f"{SEED} {number}"))
    folder = work / f"drawn{number}"
    write_lively_model(folder, checkpoint, number, model["norm_weights"] == "true")
    comparison = OwnComparison(inkling, folder, open_with_transformers(folder))
    comparison.words.insert(0, " ".join(f"{name}={value}" for name, value in model.items()))
    comparison.logits(folder)
    comparison.logits_saved_again()
    is_endless = model["position"] != "learned" and "full" not in model["attention"]  # and all windows fit into the block
    comparison.continuation(beyond=BLOCK_SIZE if is_endless else 0)
    comparison.without_cache()
    comparison.loss()
    comparison.padded()
    return comparison.result()


def check_own(tally, inkling, config, work):
    for number in range(1, MODELS + 1):
        tally.judge(f"model {number} of {MODELS} drawn with seed {SEED}", compare_drawn, inkling, config, work, number)
