"""Runs of inkling-train whose results are kept, for the scripts that compare what settings are worth."""

import hashlib
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = pathlib.Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin"
SCRIPT = pathlib.Path(sys.argv[0]).name


def output_of(program, *arguments):
    """Returns a program's standard output; its standard error is shown. Where it fails, this program ends too."""
    done = subprocess.run([PROGRAMS / program, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{SCRIPT}: {program} failed; give the same command again to go on from here")
    return done.stdout


def parameter_count(checkpoint):
    """Returns how many numbers were trained. The optimizer keeps a mean of each one's gradient, with its shape in the
    file's header, whose length is in the first 8 bytes. The weights' own file may hold more: a family's format has
    biases, or norms' weights, even where the model has none."""
    with open(checkpoint / "optimizer.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    means = ("moment1.", "momentum.")  # of AdamW and of Muon
    return sum(math.prod(about["shape"]) for name, about in header.items() if name.startswith(means))


def settings_in(path):
    """Returns the settings of a configuration by their keys, as they are written."""
    found, sections = {}, []
    for line in output_of("inkling-train", path, "--print-config").splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, value = line.strip().partition(": ") if ": " in line else (line.strip().rstrip(":"), "", "")
        sections = sections[:depth] + [name]
        if value:
            found[".".join(sections)] = value
    return found


def overriding(settings):
    """Returns the flags that give a run these settings."""
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def seconds_of(folder):
    """Returns how long a run took from its first step to its last, evaluations and checkpoints between them included."""
    lines = [json.loads(line) for line in open(folder / "log.jsonl")]
    return [line["seconds"] for line in lines if "seconds" in line][-1]


def bits_per_byte(run, threads, checkpoint="newest"):
    """Returns what a checkpoint of a run loses on its whole validation split, given its own context."""
    told = output_of("inkling-eval", run, "--checkpoint", checkpoint, "--device", "cpu", "--threads", str(threads), "--json")
    return json.loads(told)["bits_per_byte"]


def loss_within(checkpoint, context, threads):
    """Returns the loss on the whole validation split where no token is guessed from more than `context` tokens: in windows
    of that length. The model's positions must not be learned ones, of which a shorter block has fewer."""
    state = shutil.ignore_patterns("optimizer.safetensors", "state.json")  # state.json knows config.json's size
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(checkpoint, copy, dirs_exist_ok=True, ignore=state)
        about = pathlib.Path(copy, "config.json")
        about.write_text(json.dumps(json.loads(about.read_text()) | {"max_position_embeddings": context}))
        return json.loads(output_of("inkling-eval", copy, "--device", "cpu", "--threads", str(threads), "--json"))["loss"]


def measure(config, folder, settings, threads):
    """Returns the loss on the whole validation split (for a grammar's stories also the excess, its share above the best
    possible loss), the last checkpoint, the parameters and the seconds of one run, which trains the config with these
    settings (training.max_steps among them) unless its results are known already."""
    asked = {"config": hashlib.sha256((ROOT / config).read_bytes()).hexdigest(), "threads": threads, "settings": settings}
    result = folder.with_suffix(".json")
    if result.exists():
        kept = json.loads(result.read_text())
        if kept["asked"] == asked:
            return kept
    output_of("inkling-train", config, *overriding(settings | {"runtime.threads": threads}), "--out", folder)
    last = str(settings["training.max_steps"])
    evaluation = json.loads(output_of("inkling-eval", folder, "--checkpoint", last, "--device", "cpu",
                                      "--threads", str(threads), "--json"))
    measured = {
        "asked": asked,
        "loss": evaluation["loss"],
        "excess": evaluation.get("excess_ratio"),
        "checkpoint": str(ROOT / evaluation["checkpoint"]),
        "parameters": parameter_count(ROOT / evaluation["checkpoint"]),
        "seconds": seconds_of(folder),
    }
    unfinished = result.with_suffix(".part")
    unfinished.write_text(json.dumps(measured))
    unfinished.replace(result)
    return measured
