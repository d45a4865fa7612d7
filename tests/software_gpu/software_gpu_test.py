#!/usr/bin/env python3
"""inkling's programs on the GPU in software, judged by their results, their exit codes and what the GPU reports."""
import hashlib
import json
import re
import shutil
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from machine import ROOT, flags, run  # noqa: E402

# A run of seconds: no corpus is needed.
TINY = {"data.source": ROOT / "data/fables.grammar", "data.stories": 200, "data.tokenizer.kind": "char",
        "optimizer.name": "adamw", "optimizer.embedding_learning_rate": "auto", "model.n_layer": 2, "model.n_head": 2,
        "model.n_embd": 64, "model.block_size": 32, "training.batch_size": 8, "training.max_steps": 12,
        "schedule.warmup_steps": 5, "evaluation.interval": 6, "evaluation.batches": 2, "logging.interval": 1}
FLOAT = {"runtime.dtype": "float32"}


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def done(self, program, *arguments, **settings):
        ended = run(program, *arguments, **settings)
        self.assertEqual(ended.code, 0, ended.err[-3000:])
        return ended

    def train(self, name, settings, config="fables", code=0, **machine):
        """Returns how it ended; its log and weights are in the folder of this name."""
        ended = run("inkling-train", ROOT / f"configs/{config}.yaml", "--out", self.folder / name, *flags(settings), **machine)
        self.assertEqual(ended.code, code, ended.err[-3000:])
        return ended

    def losses(self, name):
        lines = map(json.loads, (self.folder / name / "log.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if "loss" in line]

    def weights(self, name):
        newest = sorted((self.folder / name / "checkpoints").glob("*/model.safetensors"))[-1]
        return hashlib.sha256(newest.read_bytes()).hexdigest()


class Results(Programs):
    def test_a_recorded_step_learns_what_the_cpu_learns(self):
        self.train("cpu", TINY | FLOAT | {"runtime.device": "cpu"})
        for name, settings, tolerance in (("fused", FLOAT, 1e-5), ("reference", FLOAT | {"runtime.kernels": "reference"}, 1e-5),
                                          ("bfloat16", {}, 0.05), ("micro_batches", FLOAT | {"training.micro_batch_size": 2}, 1e-5)):
            with self.subTest(name):
                ended = self.train(name, TINY | settings)
                self.assertEqual(len(self.losses(name)), 12)
                for ours, theirs in zip(self.losses(name), self.losses("cpu")):
                    self.assertAlmostEqual(ours, theirs, delta=tolerance)
                if name != "reference":
                    self.assertGreater(ended.report["graph_launches"], 10)

    def test_what_a_model_writes_is_what_the_cpu_writes(self):
        self.train("run", TINY | FLOAT)
        arguments = [self.folder / "run", "--prompt", "One ", "--count", 4, "--seed", 1, "--max-tokens", 40]
        on_cpu = self.done("inkling-sample", *arguments, "--device", "cpu").out
        for kernels in ("fused", "reference"):
            form = ["--device", "cuda", "--dtype", "float32", "--kernels", kernels]
            self.assertEqual(self.done("inkling-sample", *arguments, *form).out, on_cpu, kernels)
        for device in ("cpu", "cuda"):
            self.done("inkling-eval", self.folder / "run", "--device", device)


# A run of the whole shape whose corpus is small: text for characters, a shard of tokens for GPT-2.
COUNTED = {"schedule.warmup_steps": 5, "evaluation.interval": 1000, "checkpoint.interval": 1000, "evaluation.batches": 1,
           "logging.interval": 10}
CHAR = COUNTED | {"data.source": ROOT / "data/fables.grammar", "data.stories": 200}
REFERENCE = {"runtime.kernels": "reference"}


class Counts(Programs):
    def gpt2(self):
        """The shipped configuration of GPT-2 124M on a shard as llm.c writes it, with a micro-batch of one window."""
        shard, config = self.folder / "tokens.bin", self.folder / "gpt2.yaml"
        count = 40000
        shard.write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + bytes(2 * count))
        text = (ROOT / "configs/gpt2_124m.yaml").read_text()
        data = f"data:\n  source: {shard}\n  validation_source: {shard}\n  vocab_size: 50257\n"
        config.write_text(re.sub(r"^data:\n(?:[ ].*\n)*", data, text, flags=re.MULTILINE))
        return config, COUNTED | {"training.batch_size": 1, "training.micro_batch_size": 1}

    def cost(self, config, settings):
        """Launches of one step, and the calls that waited in 50 more steps, with their places; five lines were logged."""
        ends = []
        for steps in (20, 70):
            ends.append(self.done("inkling-train", config, "--out", self.folder / f"{steps}",
                                  *flags(settings | {"training.max_steps": steps}), COMPUTES=0))
        few, many = ({str(wait["place"]): wait for wait in ended.report["waits"]} for ended in ends)
        more = [(wait["count"] - few.get(place, {"count": 0})["count"], wait) for place, wait in many.items()]
        for folder in (self.folder / "20", self.folder / "70"):
            shutil.rmtree(folder)
        return (ends[1].launches() - ends[0].launches()) / 50, [pair for pair in more if pair[0] > 0]

    def check(self, config, settings, most_launches):
        launches, waits = self.cost(config, settings)
        self.assertLessEqual(launches, most_launches)
        logged = [(count, wait["call"]) for count, wait in waits if "Trainer::results" in str(wait["place"])]
        others = [(count, wait["call"], wait["place"][:12]) for count, wait in waits
                  if "Trainer::results" not in str(wait["place"]) and "Upload::operator()" not in str(wait["place"])]
        self.assertLessEqual(sum(count for count, _ in logged), 5, logged)
        self.assertEqual(others, [])

    def test_a_step_of_gpt2(self):
        config, settings = self.gpt2()
        self.check(config, settings, 340)
        self.check(config, settings | REFERENCE, 900)

    def test_a_step_of_shakespeare_char(self):
        config = ROOT / "configs/shakespeare_char.yaml"
        self.check(config, CHAR, 340)
        self.check(config, CHAR | REFERENCE, 900)


if __name__ == "__main__":
    unittest.main()
