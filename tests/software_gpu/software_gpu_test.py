#!/usr/bin/env python3
"""inkling's programs on the GPU in software, judged by their results, their exit codes and what the GPU reports."""
import hashlib
import json
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


# Of the whole shapes, with nothing computed: steps that are recorded, and what 50 more of them cost.
COUNTED = {"data.source": ROOT / "data/fables.grammar", "data.stories": 200, "schedule.warmup_steps": 5,
           "evaluation.interval": 1000, "checkpoint.interval": 1000, "evaluation.batches": 1}
GPT2 = COUNTED | {"model.vocab_size": "auto"}


class Counts(Programs):
    def per_step(self, config, settings):
        """Launches of one step, and waits in 50 more steps with five more lines of the log."""
        ended = [self.train(f"{config}_{steps}", settings | {"training.max_steps": steps, "logging.interval": 10}, config,
                            COMPUTES=0) for steps in (20, 70)]
        few, many = ended
        return (many.launches() - few.launches()) / 50, many.waits() - few.waits(), many


if __name__ == "__main__":
    unittest.main()
