"""Runs that start from a folder which transformers made: the loss of the first step against transformers' own on the
same windows, and the checkpoint at the end, tokenizer included."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import torch
from comparison import compare_folder
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, LlamaConfig
from travelling import gpt2_tokenizer, llama3_tokenizer, save_with_tokenizer

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs/finetune_gpt2.yaml"
relative_tolerance = 1e-4
seed = 1
WORD = (1 << 64) - 1


def mixed(x):
    x &= WORD
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & WORD
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & WORD
    return x ^ (x >> 31)


def random_starts(count, tokens, block_size):
    """Where the first windows begin with data.order: random, as docs/formats.md has it."""
    gamma = 0x9e3779b97f4a7c15
    key = mixed(mixed((mixed(seed + gamma) ^ 3) + gamma) + gamma)
    return [(mixed(key + (n + 1) * gamma) * (tokens - block_size)) >> 64 for n in range(count)]


def read_tokens(data):
    (shard,) = sorted(data.glob("train-*.bin"))
    kind = numpy.uint16 if int.from_bytes(shard.read_bytes()[:4], "little") == 20240520 else numpy.uint32
    return torch.from_numpy(numpy.fromfile(shard, kind, offset=1024).astype(numpy.int64))


@torch.no_grad()
def transformers_loss(folder, tokens, batch_size, block_size):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    losses = []
    for start in random_starts(batch_size, len(tokens), block_size):
        window = tokens[start:start + block_size + 1]
        logits = model(window[None, :-1]).logits[0]
        losses.append(torch.nn.functional.cross_entropy(logits.double(), window[1:]).item())
    return sum(losses) / len(losses)


def compare_finetuned(inkling, work, folder, text, batch_size, block_size, steps=20):
    data, out = work / f"{folder.name}-data", work / f"{folder.name}-run"
    settings = {
        "model.init_from": folder, "model.block_size": block_size, "data.source": text, "data.dir": data,
        "training.max_steps": steps, "training.batch_size": batch_size, "training.seed": seed,
        "evaluation.interval": steps, "evaluation.batches": 1, "checkpoint.interval": steps}
    checkpoint = inkling.train(CONFIG, out, settings)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    expected = transformers_loss(folder, read_tokens(data), batch_size, block_size)
    difference = abs(losses[0] - expected)
    same_loss = difference <= relative_tolerance * expected and len(losses) == steps
    agree, words = compare_folder(inkling, checkpoint)
    sample = text.read_text()[:5000]
    ours, theirs = (AutoTokenizer.from_pretrained(each)(sample).input_ids for each in (checkpoint, folder))
    same_tokens = ours == theirs
    return same_loss and agree and same_tokens, (
        f"loss of the first step {losses[0]:.6f} and {expected:.6f} ({difference:.1e} apart), after {steps} steps "
        f"{losses[-1]:.4f}; {words}; {len(ours)} tokens of its tokenizer {'the same' if same_tokens else 'OTHERS'}")


def some_text(work):
    """A text that everybody has."""
    text = work / "text.txt"
    text.write_text("".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))))
    return text


def guide_lines():
    """The ten lines of docs/guide.md, but for the download."""
    section = (ROOT / "docs/guide.md").read_text().split("## Bring a model, take a model away\n")[1].split("\n## ")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    if len(lines) != 10 or not lines[0].startswith("hf download openai-community/gpt2 --local-dir models/gpt2 "):
        raise RuntimeError(f"docs/guide.md has other lines than these ten, of which the first is a download: {lines}")
    return lines[1:]


def compare_guide(inkling, work, text):
    """Runs them as they stand, in a folder with a small GPT-2 in place of the real one."""
    folder = work / "guide"
    save_with_tokenizer(folder / "models/gpt2", AutoModelForCausalLM.from_config(
        GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=128)), gpt2_tokenizer(), "<|endoftext|>")
    (folder / "data").mkdir()
    (folder / "data/shakespeare.txt").write_text(text.read_text())
    (folder / "build").mkdir()
    (folder / "build/bin").symlink_to(inkling.train_program.parent.resolve())
    (folder / "configs").symlink_to(ROOT / "configs")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-e"], input="\n".join(guide_lines()), text=True, capture_output=True, cwd=folder,
                          env={**os.environ, "PATH": path})
    started, written = "starts from models/gpt2" in done.stderr, done.stdout.rpartition("ROMEO:")[2]
    agree = done.returncode == 0 and started and len(written) > 40
    return agree, f"transformers writes {len(written)} characters" if agree else f"{done.stdout}{done.stderr}"


def check_finetuning(tally, inkling, work, make_model):
    tally.judge("the guide's lines", compare_guide, inkling, work, some_text(work))
    small = {"n_layer": 2, "n_head": 4, "n_embd": 32}
    llama = LlamaConfig(
        vocab_size=50260, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128, bos_token_id=50257, eos_token_id=50258)
    made = {
        "finetune-gpt2": (GPT2Config(**small, n_positions=128), gpt2_tokenizer(), "<|endoftext|>", 128),
        "finetune-gpt2-cut": (GPT2Config(**small, n_positions=128), gpt2_tokenizer(), "<|endoftext|>", 48),
        "finetune-llama": (llama, llama3_tokenizer(), "<|end_of_text|>", 96),
    }
    for name, (config, tokenizer, eos, block_size) in made.items():
        save_with_tokenizer(work / name, make_model(config), tokenizer, eos)
        tally.judge(f"{name}, {block_size} of {config.max_position_embeddings} positions", compare_finetuned, inkling,
                    work, work / name, some_text(work), 4, block_size)


def check_finetuning_gpt2(tally, inkling, work, text):
    """The real shape, with transformers' own initial values."""
    torch.manual_seed(seed)
    folder = work / "gpt2"
    save_with_tokenizer(folder, AutoModelForCausalLM.from_config(GPT2Config()), gpt2_tokenizer(), "<|endoftext|>")
    tally.judge("GPT-2 (124M)", compare_finetuned, inkling, work, folder, text, 1, 1024)
