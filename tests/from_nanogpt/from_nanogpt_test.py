#!/usr/bin/env python3
"""scripts/from-nanogpt: folders that inkling opens and that compute what nanoGPT computes; nothing in a pickle runs."""
import contextlib
import io
import json
import math
import os
import pickle
import runpy
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts" / "from_nanogpt"))
main = runpy.run_path(str(ROOT / "scripts" / "from_nanogpt" / "__main__.py"))["main"]
CHARACTERS = "\n !Oabcdefghimnorstuy日本é"
SIZES = {"n_layer": 2, "n_head": 2, "n_embd": 24, "block_size": 48, "vocab_size": len(set(CHARACTERS))}


def random_model(bias):
    """Weights under nanoGPT's names and in its shapes; large, so that the likeliest token is never in doubt."""
    torch.manual_seed(5)
    c, tensors = SIZES["n_embd"], {}
    linears = [("attn.c_attn", 3 * c, c), ("attn.c_proj", c, c), ("mlp.c_fc", 4 * c, c), ("mlp.c_proj", c, 4 * c)]
    for layer in range(SIZES["n_layer"]):
        for name, out, inside in linears:
            tensors[f"transformer.h.{layer}.{name}.weight"] = 0.3 * torch.randn(out, inside)
            tensors[f"transformer.h.{layer}.{name}.bias"] = 0.3 * torch.randn(out)
    for norm in ["ln_f"] + [f"h.{layer}.ln_{i}" for layer in range(SIZES["n_layer"]) for i in (1, 2)]:
        tensors[f"transformer.{norm}.weight"] = 1 + 0.3 * torch.randn(c)
        tensors[f"transformer.{norm}.bias"] = 0.3 * torch.randn(c)
    if not bias:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith(".bias")}
    tensors["transformer.wte.weight"] = tensors["lm_head.weight"] = torch.randn(SIZES["vocab_size"], c)
    tensors["transformer.wpe.weight"] = torch.randn(SIZES["block_size"], c)
    return tensors


def logits_of(tensors, tokens):
    """nanoGPT's model as its README's equations have it, for one text: [T] to [T,V]."""
    part = lambda name: tensors.get(f"transformer.{name}")  # noqa: E731
    linear = lambda x, name: F.linear(x, part(f"{name}.weight"), part(f"{name}.bias"))  # noqa: E731
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], part(f"{name}.weight"), part(f"{name}.bias"), 1e-5)  # noqa: E731
    t, heads = len(tokens), SIZES["n_head"]
    x = part("wte.weight")[tokens] + part("wpe.weight")[:t]
    future = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
    for layer in range(SIZES["n_layer"]):
        qkv = linear(norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn.c_attn")
        q, k, v = (each.view(t, heads, -1).transpose(0, 1) for each in qkv.split(SIZES["n_embd"], 1))
        scores = (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).masked_fill(future, -math.inf)
        x = x + linear((scores.softmax(-1) @ v).transpose(0, 1).reshape(t, -1), f"h.{layer}.attn.c_proj")
        x = x + linear(F.gelu(linear(norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc")), f"h.{layer}.mlp.c_proj")
    return norm(x, "ln_f") @ tensors["lm_head.weight"].t()


def greedy_text(tensors, prompt, count):
    characters = sorted(set(CHARACTERS))
    tokens = [characters.index(each) for each in prompt]
    for _ in range(count):
        tokens.append(int(logits_of(tensors, torch.tensor(tokens))[-1].argmax()))
    return "".join(characters[token] for token in tokens)


class RunsAProgram:
    """A pickle of it creates a file when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class FromNanogpt(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"

    def write_checkpoint(self, tensors, **arguments):
        path = self.folder / "ckpt.pt"
        arguments = {**SIZES, "bias": True, "dropout": 0.2, **arguments}
        torch.save({"model": tensors, "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}}, "model_args": arguments,
                    "iter_num": 5, "best_val_loss": torch.tensor(1.5), "config": {"compile": True}}, path)
        return str(path)

    def write_vocabulary(self, characters=None, **fields):
        path = self.folder / "meta.pkl"
        tokens = {each: i for i, each in enumerate(characters or sorted(set(CHARACTERS)))}
        path.write_bytes(pickle.dumps({"vocab_size": len(tokens), "itos": {i: c for c, i in tokens.items()}, "stoi": tokens,
                                       **fields}))
        return str(path)

    def refusal(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(main([*arguments, str(self.out)]), 2)
        self.assertFalse(self.out.exists())
        return said.getvalue()

    def test_inkling_computes_what_nanogpt_computes(self):
        for bias in (True, False):
            tensors = random_model(bias)
            prefix = "_orig_mod." if bias else ""  # as torch.compile leaves it, or does not
            named = {prefix + name: tensor for name, tensor in tensors.items()}
            named[prefix + "transformer.h.0.attn.bias"] = torch.ones(1, 1, 48, 48)  # the mask, where there is no flash
            out = self.folder / f"out-{bias}"
            subprocess.run([ROOT / "scripts/from-nanogpt", self.write_checkpoint(named, bias=bias), self.write_vocabulary(),
                            out], check=True, capture_output=True)
            sample = subprocess.run([BIN / "inkling-sample", out, "--prompt", "O ", "--temperature", "0", "--max-tokens", "40",
                                     "--json"], check=True, capture_output=True, text=True).stdout
            self.assertEqual("O " + json.loads(sample)["text"].removeprefix("O "), greedy_text(tensors, "O ", 40))

    def test_the_vocabulary_alone_goes_into_a_folder_that_is_there(self):
        self.out.mkdir()
        (self.out / "config.json").write_text("{}")
        self.assertEqual(main([self.write_vocabulary(), str(self.out)]), 0)
        description = json.loads((self.out / "inkling_tokenizer.json").read_text())
        self.assertEqual(description["characters"], "".join(sorted(set(CHARACTERS))))
        self.assertEqual((self.out / "config.json").read_text(), "{}")

    def test_gpt2_stands_for_its_own_tokenizer(self):
        self.assertEqual(main(["gpt2", str(self.out)]), 0)
        self.assertEqual(sorted(each.name for each in self.out.iterdir()), ["merges.txt", "vocab.json"])

    def test_nothing_is_overwritten(self):
        self.out.mkdir()
        (self.out / "inkling_tokenizer.json").write_text("mine")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(main([self.write_vocabulary(), str(self.out)]), 2)
        self.assertIn("inkling_tokenizer.json is there already", said.getvalue())
        self.assertEqual((self.out / "inkling_tokenizer.json").read_text(), "mine")

    def test_no_program_in_a_pickle_runs(self):
        trap = self.folder / "it-ran"
        hostile = self.folder / "meta.pkl"
        for fields in ({"stoi": RunsAProgram(trap)}, {"stoi": {"a": 0}, "more": [RunsAProgram(trap)]}):
            hostile.write_bytes(pickle.dumps(fields))
            self.assertIn("meta.pkl: it names", self.refusal(str(hostile)))
        checkpoint = self.write_checkpoint(random_model(True), dropout=RunsAProgram(trap))
        self.assertIn("it would run a program", self.refusal(checkpoint))
        self.assertFalse(trap.exists())
        pickle.loads(hostile.read_bytes())  # the trap works
        self.assertTrue(trap.exists())

    def test_a_vocabulary_that_is_not_inklings_is_refused_with_the_reason(self):
        self.assertIn("not single characters", self.refusal(self.write_vocabulary(["ab", "c"])))
        self.assertIn("order of the characters", self.refusal(self.write_vocabulary(["b", "a"])))
        self.assertIn("no dict \"stoi\"", self.refusal(self.write_vocabulary(stoi=[1, 2])))
        larger = self.write_vocabulary([chr(97 + i) for i in range(SIZES["vocab_size"] + 1)])
        self.assertIn("do not belong together", self.refusal(self.write_checkpoint(random_model(True)), larger))

    def test_a_model_that_is_not_nanogpts_is_refused_with_the_tensor(self):
        tensors = random_model(True)
        self.assertIn("n_layer 0", self.refusal(self.write_checkpoint(tensors, n_layer=0)))
        self.assertIn("ask for a tensor h.2.attn.c_attn.weight", self.refusal(self.write_checkpoint(tensors, n_layer=3)))
        self.assertIn("wte.weight of the shape [99, 24]", self.refusal(self.write_checkpoint(tensors, vocab_size=99)))
        changed = {**tensors, "transformer.h.0.attn.gate": torch.ones(3)}
        self.assertIn("it holds h.0.attn.gate", self.refusal(self.write_checkpoint(changed)))
        untied = {**tensors, "lm_head.weight": tensors["lm_head.weight"] + 1}
        self.assertIn("nanoGPT ties the two", self.refusal(self.write_checkpoint(untied)))
        without = {name: tensor for name, tensor in tensors.items() if name != "transformer.ln_f.bias"}
        self.assertIn("ln_f.bias of the shape [24], and it has none", self.refusal(self.write_checkpoint(without)))

    def test_files_cut_short_are_refused(self):
        for path in (self.write_checkpoint(random_model(True)), self.write_vocabulary()):
            whole = Path(path).read_bytes()
            for size in range(0, len(whole), len(whole) // 60 + 1):
                Path(path).write_bytes(whole[:size])
                self.assertIn(f"from-nanogpt: {path}: it ", self.refusal(path))

    def test_wrong_use_is_told(self):
        for arguments in ([], ["out"], ["a.pt", "b.pt", "out"], ["a.pt", "meta.pkl"]):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(main(arguments), 2)
            self.assertIn("usage: from-nanogpt", said.getvalue())
        self.assertIn("nowhere.pt", self.refusal("nowhere.pt"))


if __name__ == "__main__":
    unittest.main()
