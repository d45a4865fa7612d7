#!/usr/bin/env python3
"""Runs of inkling-train on a CPU are what docs/formats.md says: another program replays them (specification.py).

`replay.py [FOLDER OF PROGRAMS]` trains small models with `runtime.split: batch`, with 1 and with 3 threads, which must give
the same bits, and prints what it compared, the largest relative error and its limit. The exit code is 1 if one is above it.

- 100 steps are replayed from the initial weights on, each loss, norm and rate is compared, and at the end the weights, what
  the optimizer keeps and the average, each tensor by the norm of the difference over the norm. The replay computes in
  float64, so that what differs is how inkling rounds to float32. The bias of the keys alone is not compared at the end: it
  moves all scores of a query by the same amount, so its gradient is nothing but rounding, of which AdamW makes whole steps.
- In which order the gradients of micro-batches are added shows in their last bits alone. A rate of 1e-30 leaves all weights
  as they are, so a run with one window a step saves the gradients of single windows, as moments with beta1 0. A batch of
  these windows must have their sum, to the bit; shares that are powers of two scale them without rounding.
"""
import itertools
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
sys.dont_write_bytecode = True
import torch  # noqa: E402
from specification import Windows, initial_weights, read_data, replay, shares, tree_sum  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin"
STEPS = 100
# Relative errors; 0 asks for the same bits. The losses of a run are promised to 1e-5. What steps change may be as far off as if
# each added four roundings to float32, all to the same side. The rate and the sum of squares are computed in float64.
DRIFT = STEPS * 4 * 2**-24
LIMITS = {"loss": 1e-5, "grad_norm": DRIFT, "learning_rate": 1e-12, "model": DRIFT, "optimizer": DRIFT, "ema": DRIFT,
          "same bits with 3 threads": 0, "initial weights": 0, "sum of gradients": 0, "sum of losses": 0,
          "sum of squares": 1e-12}

COMMON = {"data.tokenizer.kind": "char", "model.n_layer": 2, "model.n_head": 2, "model.n_embd": 32, "model.block_size": 32,
          "runtime.device": "cpu", "runtime.split": "batch", "training.seed": 7, "training.max_steps": STEPS,
          "evaluation.interval": 1000, "evaluation.batches": 1, "checkpoint.interval": 1000, "logging.interval": 1}
DROPPING = {**COMMON, "model.dropout": 0.1, "training.batch_size": 10, "training.micro_batch_size": 2,
            "optimizer.learning_rate": 2e-3, "schedule.warmup_steps": 10, "schedule.min_learning_rate": 2e-4}
CASES = {
    "AdamW, whole epochs": {**DROPPING, "data.order": "epoch", "data.documents": "join",
                            "optimizer.vector_learning_rate": 1e-3},
    "AdamW, documents aligned": {**DROPPING, "data.order": "epoch", "data.documents": "align"},
    "Muon with an average, random windows, documents masked": {
        **DROPPING, "data.order": "random", "data.documents": "mask", "optimizer.name": "muon", "training.ema": 0.9,
        "optimizer.muon.learning_rate": 0.02},
}
# Weights stay as they are, and moment1 is the gradient of the last step.
STILL = {**COMMON, "model.bias": "false", "data.order": "random", "data.documents": "align", "training.micro_batch_size": 1,
         "optimizer.learning_rate": 1e-30, "optimizer.beta1": 0, "optimizer.grad_clip": 0, "schedule.name": "constant",
         "schedule.warmup_steps": 0}


def read_safetensors(path):
    content = path.read_bytes()
    size, = struct.unpack_from("<Q", content)
    header, tensors = json.loads(content[8:8 + size]), {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            numbers = torch.frombuffer(bytearray(content[begin:end]), dtype=torch.float32)
            tensors[name.replace("transformer.", "")] = numbers.view(entry["shape"])
    return tensors


class Run:
    """What inkling-train makes of these settings in a folder of its own."""

    def __init__(self, folder, source, settings, threads=1):
        self.folder, data, config = folder, folder.with_suffix(".data"), folder.with_suffix(".yaml")
        config.write_text(f"data: {{source: {source}, validation_source: {source}, dir: {data}}}\n")
        flags = [f"--set={name}={value}" for name, value in {**settings, "runtime.threads": threads}.items()]
        done = subprocess.run([BIN / "inkling-train", config, "--out", folder, *flags], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"inkling-train ended with {done.returncode}:\n{done.stderr}")
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        self.lines = [{name: line[name] for name in ("loss", "grad_norm", "learning_rate")} for line in lines if "loss" in line]
        self.data, self.last = read_data(data), settings["training.max_steps"]

    def tensors(self, file, step=None):
        return read_safetensors(self.folder / f"checkpoints/step-{step or self.last:06}/{file}.safetensors")

    def gradient(self, step):
        return {name: tensor for name, tensor in self.tensors("optimizer", step).items() if name.startswith("moment1")}


def with_threads(folder, source, settings):
    """The run with one thread, and whether three have made the same."""
    one, three = (Run(folder / f"threads-{threads}", source, settings, threads) for threads in (1, 3))
    files = ["model", "optimizer"] + ["ema"] * ("training.ema" in settings)
    return one, one.lines == three.lines and all(same_bits(one.tensors(file), three.tensors(file)) for file in files)


def same_bits(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name].view(torch.int32), b[name].view(torch.int32)) for name in a)


def largest_error(theirs, ours, width):
    def compared(name, tensor):
        return torch.cat([tensor[:width], tensor[2 * width:]]) if name.endswith("c_attn.bias") else tensor

    assert theirs.keys() == ours.keys(), theirs.keys() ^ ours.keys()
    differences = {name: compared(name, theirs[name].double() - ours[name]) for name in ours}
    return max((differences[name].norm() / compared(name, ours[name]).norm()).item() for name in ours)


def replay_steps(folder, source, settings):
    """Errors by what was compared."""
    run, is_same = with_threads(folder, source, settings)
    tokens, separator = run.data
    weights = initial_weights(settings, separator + 1)
    lines, weights, state, average = replay(settings, Windows(settings, tokens, separator), weights)
    assert len(run.lines) == len(lines) == STEPS
    errors = {name: max(abs(theirs[name] / ours[name] - 1) for theirs, ours in zip(run.lines, lines)) for name in lines[0]}
    ends = {"model": weights, "optimizer": state, **({"ema": average} if "training.ema" in settings else {})}
    for file, ours in ends.items():
        errors[file] = largest_error(run.tensors(file), ours, settings["model.n_embd"])
    return {"same bits with 3 threads": not is_same, **errors}


def texts_of_words(count):
    """Texts of 2 to 9 words, some longer than a window; which window has the least room matters for some."""
    draw = random.Random(2)
    words = "the a fox hen went to den barn home slowly saw it and then ran off".split()
    return [" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in range(count)]


def texts_of_four_windows():
    """Each fills a window of 32 tokens, all but the first with the separator in front of it; the last one half of it."""
    text = ("the fox went home and a hen saw it then ran off to the barn slowly, "
            "where the den was empty and it was a cold night then")
    return [text[:32], text[32:63], text[63:94], text[94:109]]


def add_five_leaves(folder, source):
    """Errors by what was compared: a batch of five windows, and each window alone."""
    alone = {**STILL, "training.batch_size": 1, "training.max_steps": 5, "checkpoint.interval": 1, "checkpoint.keep": 5}
    whole = {**STILL, "training.batch_size": 5, "training.max_steps": 1}
    tokens, separator = Run(folder / "data", source, {**alone, "training.max_steps": 0}).data
    for seed in range(1000):
        windows = Windows({**alone, "training.seed": seed}, tokens, separator)
        rows = [windows.row(n) for n in range(5)]
        share = [share for _, share in shares(whole, rows)]
        if sorted(share) == [1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 4] and len({str(row) for row in rows}) == 4:
            break  # every window comes, and the half full one twice
    else:
        raise AssertionError("no seed draws these windows as often as is wanted")
    alone, whole = ({**settings, "training.seed": seed} for settings in (alone, whole))
    one = Run(folder / "alone", source, alone)
    run, is_same = with_threads(folder, source, whole)
    weights = initial_weights(whole, separator + 1)
    without_bias = [{name: tensor for name, tensor in tensors.items() if name in weights}
                    for tensors in (one.tensors("model", 1), one.tensors("model", 5), run.tensors("model"))]
    leaves = [{name: part * share[n] for name, part in one.gradient(n + 1).items()} for n in range(5)]
    gradient = tree_sum(leaves)
    in_a_row = {name: sum(leaf[name] for leaf in leaves) for name in gradient}
    assert not same_bits(in_a_row, gradient), "these gradients do not tell one order from another"
    norm = math.sqrt(sum(part.double().square().sum().item() for part in gradient.values()))
    return {"same bits with 3 threads": not is_same,
            "initial weights": not all(same_bits(tensors, weights) for tensors in without_bias),
            "sum of gradients": not same_bits(run.gradient(1), gradient),
            "sum of losses": run.lines[0]["loss"] != sum(part * line["loss"] for part, line in zip(share, one.lines)),
            "sum of squares": abs(run.lines[0]["grad_norm"] / norm - 1)}


def judge(case, errors):
    """Whether none is above its limit, nor not a number."""
    said = []
    for name, error in errors.items():
        limit, verdict = LIMITS[name], "" if error <= LIMITS[name] else ": WRONG"
        said.append(f"{name}{verdict}" if limit == 0 else f"{name} {error:.1e} (at most {limit:.1e}){verdict}")
    print(f"{case}: {', '.join(said)}", flush=True)
    return all(error <= LIMITS[name] for name, error in errors.items())


def main():
    torch.set_num_threads(1)  # for models as small as these faster than more
    with tempfile.TemporaryDirectory() as name:
        folders = (Path(name) / str(number) for number in itertools.count())

        def judged(case, texts, compare, *settings):
            folder = next(folders)
            folder.mkdir()
            source = folder / "texts.jsonl"
            source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
            return judge(case, compare(folder, source, *settings))

        good = [judged(case, texts_of_words(250), replay_steps, settings) for case, settings in CASES.items()]
        good.append(judged("Five leaves", texts_of_four_windows(), add_five_leaves))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
