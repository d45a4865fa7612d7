#!/usr/bin/env python3
"""inkling's programs on the GPU in software, judged by their results, their exit codes and what the GPU reports."""
import hashlib
import json
import re
import shutil
import struct
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from machine import ROOT, flags, run, start_ranks  # noqa: E402

# A run of seconds: no corpus is needed.
TINY = {"data.source": ROOT / "data/fables.grammar", "data.stories": 200, "data.tokenizer.kind": "char",
        "optimizer.name": "adamw", "optimizer.embedding_learning_rate": "auto", "model.n_layer": 2, "model.n_head": 2,
        "model.n_embd": 64, "model.block_size": 32, "training.batch_size": 8, "training.max_steps": 12,
        "schedule.warmup_steps": 5, "evaluation.interval": 6, "evaluation.batches": 2, "logging.interval": 1}
FLOAT = {"runtime.dtype": "float32"}


# A run of the whole shape whose corpus is small: text for characters, a shard of tokens for GPT-2.
COUNTED = {"schedule.warmup_steps": 5, "evaluation.interval": 1000, "checkpoint.interval": 1000, "evaluation.batches": 1,
           "logging.interval": 10}
CHAR = COUNTED | {"data.source": ROOT / "data/fables.grammar", "data.stories": 200}
REFERENCE = {"runtime.kernels": "reference"}


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

    def weights(self, name, file="model.safetensors"):
        newest = sorted((self.folder / name / "checkpoints").glob(f"*/{file}"))[-1]
        return hashlib.sha256(newest.read_bytes()).hexdigest()

    def gpt2(self):
        """The shipped configuration of GPT-2 124M on a shard as llm.c writes it, with a micro-batch of one window."""
        shard, config = self.folder / "tokens.bin", self.folder / "gpt2.yaml"
        count = 40000
        shard.write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + bytes(2 * count))
        text = (ROOT / "configs/gpt2_124m.yaml").read_text()
        data = f"data:\n  source: {shard}\n  validation_source: {shard}\n  vocab_size: 50257\n"
        config.write_text(re.sub(r"^data:\n(?:[ ].*\n)*", data, text, flags=re.MULTILINE))
        return config, COUNTED | {"training.batch_size": 1, "training.micro_batch_size": 1}


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

    def test_a_recipe_is_made_by_what_the_gpu_takes(self):
        text = self.folder / "book.txt"
        text.write_bytes((ROOT / "data/fables.grammar").read_bytes()[:3000])
        ended = self.done("inkling-train", text, "--minutes", 1, "--dry-run", "--out", self.folder / "run")
        self.assertIn("runs on cuda:0 in bfloat16, fused kernels", ended.err)
        self.assertGreater(ended.report["graph_launches"], 900, "the small model alone takes so many steps")


class Ranks(Programs):
    """Several processes, a GPU each, which exchange by a stand-in of NCCL that refuses to be recorded."""

    def start(self, count, name, settings, config="fables", **machine):
        arguments = [config if isinstance(config, Path) else ROOT / f"configs/{config}.yaml", "--out", self.folder / name, *flags(settings)]
        processes = start_ranks(count, self.folder, *arguments, **machine)
        for process in processes:
            self.addCleanup(process.kill)
        return processes

    def ranks(self, count, name, settings, code=0, **machine):
        ended = [process.wait(120) for process in self.start(count, name, settings, **machine)]
        self.assertEqual(ended, [code] * count, self.said(0) + self.said(count - 1))

    def said(self, rank):
        return (self.folder / f"said-{rank}").read_text(encoding="utf-8")[-3000:]

    def test_they_give_the_bits_of_one(self):
        forms = {"muon": FLOAT | {"optimizer.name": "muon", "training.ema": 0.9}, "bfloat16": {},
                 "whole": {"ranks.shard_optimizer": "false"}, "reference": FLOAT | {"runtime.kernels": "reference"}}
        for name, form in forms.items():
            settings = TINY | {"training.micro_batch_size": 2, "runtime.split": "batch", "training.max_steps": 4,
                               "schedule.warmup_steps": 2, "evaluation.interval": 4, "data.dir": self.folder / "data"} | form
            self.train(name, settings)
            for count in (2, 4) if name == "muon" else (2,):
                with self.subTest(name, ranks=count):
                    self.ranks(count, f"{name}-{count}", settings)
                    self.assertEqual(self.losses(f"{name}-{count}"), self.losses(name))
                    self.assertEqual(self.weights(f"{name}-{count}"), self.weights(name))
                    for rank in range(count):
                        report = json.loads((self.folder / f"report-{rank}").read_text())
                        exchanges = report["counts"]["ncclSend and ncclRecv"]
                        self.assertGreaterEqual(exchanges, 2 * 4)
                        if name != "reference":
                            self.assertGreater(report["graph_launches"], 4)

    def test_they_keep_their_share_of_the_master_values_and_go_on_as_others(self):
        settings = TINY | {"training.micro_batch_size": 2, "runtime.split": "batch", "training.ema": 0.9, "logging.tensorboard": "true",
                           "data.dir": self.folder / "data", "schedule.decay_steps": 12, "logging.histograms": 3}
        self.train("one", settings)
        self.ranks(4, "several", settings | {"training.max_steps": 5})
        self.ranks(2, "several", settings | {"training.max_steps": 8})
        self.train("several", settings)
        self.assertEqual(self.losses("several"), self.losses("one"))
        self.assertEqual(self.weights("several"), self.weights("one"))
        self.assertEqual(self.weights("several", "ema.safetensors"), self.weights("one", "ema.safetensors"))

    def test_what_they_keep_is_shared_out(self):
        """Two moments, the average and the master values of 16 million parameters, in float32."""
        config, settings = self.gpt2()
        settings |= {"model.n_layer": 2, "model.n_head": 4, "model.n_embd": 256, "training.ema": 0.9, "training.max_steps": 2,
                     "schedule.warmup_steps": 1, "training.batch_size": 4}
        held = {}  # MiB
        for shares in ("true", "false"):
            self.ranks(4, shares, settings | {"ranks.shard_optimizer": shares}, config=config, COMPUTES=0)
            said = self.said(0)
            expected, held[shares] = (float(re.search(rf"training {word} ([\d.,]+) MiB", said)[1].replace(",", ""))
                                      for word in ("holds about", "held"))
            self.assertAlmostEqual(held[shares], expected, delta=max(0.05 * held[shares], 64))
        parameters = int(re.search(r"([\d,]+) parameters", self.said(0))[1].replace(",", ""))
        share = (held["false"] - held["true"]) / (4 * 4 * parameters / 2**20)
        self.assertAlmostEqual(share, 3 / 4, delta=0.05)

    def test_all_come_down_where_one_lacks_memory(self):
        lacking = {"config": "shakespeare_char", "of_rank": {1: {"LACK_IN_RECORDING": 1}}, "COMPUTES": 0}
        self.ranks(2, "auto", ROOM | AUTO, **lacking)
        self.assertEqual(self.said(0).count("auto is 16, because the GPU's memory is too small for 32"), 1, self.said(0))
        self.ranks(2, "written", ROOM | {"training.micro_batch_size": 32}, code=3, **lacking)
        self.assertRegex(self.said(0), r"the GPU's memory is too small for rank 1 \(.+\)")
        self.assertIn("the GPU's memory is too small: training holds about", self.said(1))

    def test_gpus_of_unequal_memory_take_what_the_smaller_one_holds(self):
        self.ranks(2, "auto", ROOM | AUTO, config="shakespeare_char", of_rank={1: {"MEMORY_MIB": 900}}, COMPUTES=0)
        self.assertIn("4 times 16 windows", self.said(0))

    def test_gpus_of_unequal_memory_evaluate_alike(self):
        """Stories: of how many are scored together, a GPU's memory decides."""
        settings = TINY | FLOAT | {"training.micro_batch_size": 4, "model.block_size": 256, "runtime.split": "batch",
                                   "training.max_steps": 6, "data.dir": self.folder / "data"}
        self.train("one", settings)
        self.ranks(2, "unequal", settings, of_rank={1: {"MEMORY_MIB": 400}})
        of_one, of_ranks = (json.loads((self.folder / name / "checkpoints/step-000006/state.json").read_text())["best_val_loss"]
                            for name in ("one", "unequal"))
        self.assertAlmostEqual(of_ranks, of_one, delta=1e-5)

    def test_one_that_fails_ends_the_others_while_they_wait_on_their_gpus(self):
        settings = TINY | FLOAT | {"training.max_steps": 100000, "data.dir": self.folder / "data", "checkpoint.interval": 5,
                                   "ranks.timeout": 4}
        processes = self.start(2, "run", settings, of_rank={1: {"EXCHANGES": 100}})
        self.assertEqual([process.wait(60) for process in processes], [3, 3], self.said(0) + self.said(1))
        self.assertIn("lost contact with rank 1 (", self.said(0))

    def test_a_killed_one_ends_the_others_in_two_seconds(self):
        settings = TINY | FLOAT | {"training.max_steps": 100000, "data.dir": self.folder / "data", "checkpoint.interval": 5}
        for victim in (0, 1):
            with self.subTest(victim=victim):
                out = f"run{victim}"
                processes = self.start(2, out, settings)
                until = time.monotonic() + 60
                while not list((self.folder / out / "checkpoints").glob("step-*")):
                    self.assertLess(time.monotonic(), until, self.said(0))
                    time.sleep(0.01)
                processes[victim].kill()
                begun = time.monotonic()
                self.assertEqual(processes[1 - victim].wait(30), 3, self.said(1 - victim))
                self.assertLess(time.monotonic() - begun, 2)
                self.assertIn(f"lost contact with rank {victim} (", self.said(1 - victim))


class Counts(Programs):
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


# A step of 64 windows reserves about 1,540 MiB, of 32 about 860.
ROOM = CHAR | {"training.max_steps": 4, "schedule.warmup_steps": 1, "evaluation.interval": 4, "sampling.interval": 0}
AUTO = {"training.micro_batch_size": "auto"}
COMES_DOWN = "training.micro_batch_size: auto is 32, because the GPU's memory is too small for 64"


class Memory(Programs):
    def made(self, name):
        return sorted(path.name for path in (self.folder / name).rglob("*") if path.is_file())

    def test_auto_comes_down_where_the_first_step_does_not_fit(self):
        # 1,525 MiB are free: more than the 1,512 that are expected of 64 windows, and less than the 1,538 that they take.
        ended = self.train("auto", ROOM | AUTO, "shakespeare_char", MEMORY_MIB=2045, COMPUTES=0)
        self.assertEqual(ended.err.count(COMES_DOWN), 1, ended.err)

    def test_auto_comes_down_where_a_recording_lacks_memory(self):
        for dropout in (0, 0.1):
            ended = self.train(f"recording{dropout}", ROOM | AUTO | {"model.dropout": dropout}, "shakespeare_char",
                               LACK_IN_RECORDING=1, COMPUTES=0)
            self.assertEqual(ended.err.count(COMES_DOWN), 1, ended.err)

    def test_what_a_person_wrote_is_refused_and_nothing_is_made(self):
        ended = self.train("written", ROOM | {"training.micro_batch_size": 64}, "shakespeare_char", code=3, MEMORY_MIB=1500,
                           COMPUTES=0)
        self.assertIn("the GPU's memory is too small: training holds about", ended.err)
        self.assertIn("training.micro_batch_size: 32 instead of 64", ended.err)
        self.assertEqual(self.made("written"), [".lock"])

    def test_a_resumed_run_comes_down_and_loses_nothing(self):
        self.train("run", TINY | {"runtime.device": "cpu", "training.max_steps": 6, "training.micro_batch_size": 8})
        log = (self.folder / "run/log.jsonl").read_text()
        ended = run("inkling-train", ROOT / "configs/fables.yaml", "--out", self.folder / "run", "--accept-changes",
                    *flags(TINY | FLOAT | AUTO | {"runtime.device": "cuda"}), LACK_IN_RECORDING=1)
        self.assertEqual(ended.code, 0, ended.err)
        self.assertIn("the GPU's memory is too small for training.micro_batch_size: 8", ended.err)
        self.assertTrue((self.folder / "run/log.jsonl").read_text().startswith(log))
        self.assertEqual(len(self.losses("run")), 12)

    def test_lack_of_it_outside_training_is_not_an_internal_error(self):
        self.train("run", TINY | {"runtime.device": "cpu"})
        for program, *arguments in (("inkling-sample", "--prompt", "One"), ("inkling-eval",)):
            ended = run(program, self.folder / "run", *arguments, "--device", "cuda", MEMORY_MIB=20)
            self.assertEqual(ended.code, 3, ended.err)
            self.assertIn("the GPU's memory is too small", ended.err)
            self.assertIn("runtime.device: cpu", ended.err)
            self.assertNotIn("internal error", ended.err)


class Estimates(Programs):
    def test_what_a_step_holds_is_expected(self):
        """LibTorch's allocator is its own, so what it reserves here is what it reserves on a GPU."""
        sys.path.insert(0, str(ROOT / "scripts"))
        from gpu_check.runs import MEMORY_CONFIGS, MEMORY_FORMS, MEMORY_TOLERANCE
        share, least = MEMORY_TOLERANCE
        for config, rows in MEMORY_CONFIGS.items():
            for form, (kernels, settings) in MEMORY_FORMS.items():
                settings = settings | {"runtime.kernels": kernels, "training.batch_size": rows, "training.micro_batch_size": rows}
                with self.subTest(f"{config}, {form}"):
                    ended = self.done("bench-step", ROOT / f"configs/{config}.yaml", "--memory", "--json", *flags(settings), COMPUTES=0)
                    found = json.loads(ended.out)
                    expected, held = found["expected_bytes"], found["held_bytes"]
                    self.assertLess(abs(expected - held), max(share * held, least), f"{expected >> 20}, {held >> 20} MiB")


class OldGpu(Programs):
    def test_auto_means_reference_and_float32(self):
        ended = self.train("dry", TINY, CAPABILITY=75)
        self.assertIn("runs on cuda:0 in float32, reference kernels", ended.err)

    def test_fused_says_what_it_needs(self):
        text = "the fused kernels need a GPU of compute capability 8.0 (Ampere) or later; this one has 7.5"
        ended = self.train("fused", TINY | {"runtime.kernels": "fused"}, code=3, CAPABILITY=75)
        self.assertIn(text, ended.err)
        self.train("run", TINY | {"runtime.device": "cpu"})
        for program, *arguments in (("inkling-sample", "--prompt", "One"), ("inkling-eval",)):
            ended = run(program, self.folder / "run", *arguments, "--device", "cuda", "--kernels", "fused", CAPABILITY=75)
            self.assertEqual(ended.code, 3, ended.err)
            self.assertIn(text, ended.err)


class Family(Programs):
    def test_products_go_on_where_cublaslt_has_none_or_the_first_fails(self):
        self.train("plain", TINY | FLOAT)
        for settings in ({"ALGORITHMS": "fail"}, {"ALGORITHMS": "none"}, {"EPILOGUES": "none"}):
            with self.subTest(**settings):
                self.train("other", TINY | FLOAT | {"training.max_steps": 6}, **settings)
                for ours, theirs in zip(self.losses("other"), self.losses("plain")):
                    self.assertAlmostEqual(ours, theirs, delta=1e-5)
                shutil.rmtree(self.folder / "other")

    def test_cublaslt_has_every_product_of_a_step(self):
        """Where it has none, another way gives the same numbers, only more slowly."""
        two_steps = TINY | {"model.bias": "true", "model.activation": "gelu_tanh", "training.max_steps": 2, "schedule.warmup_steps": 1}
        counts = self.train("run", two_steps, "shakespeare_char").report["counts"]
        self.assertEqual([what for what in counts if "refuses" in what], [])
        for epilogue in ("BIAS", "GELU_AUX_BIAS", "DGELU", "BGRADA"):
            self.assertIn(f"cublasLtMatmul {epilogue}", counts)

    def test_the_reference_model_draws_its_dropout_as_the_fused_one(self):
        for name, settings in (("fused", {}), ("reference", REFERENCE)):
            self.train(name, TINY | FLOAT | settings | {"model.dropout": 0.2})
        for ours, theirs in zip(self.losses("fused"), self.losses("reference")):
            self.assertAlmostEqual(ours, theirs, delta=1e-5)

    def test_more_windows_than_a_grid_holds(self):
        tiny = CHAR | {"model.n_layer": 1, "model.n_head": 1, "model.n_embd": 8, "model.block_size": 2,
                       "training.batch_size": 100000, "training.max_steps": 1, "schedule.warmup_steps": 0}
        ended = self.train("refused", tiny | {"training.micro_batch_size": 100000}, "shakespeare_char", code=2)
        self.assertIn("training.micro_batch_size 100000: attention on a GPU takes at most 65535 windows", ended.err)
        ended = self.train("taken", tiny, "shakespeare_char", COMPUTES=0)
        self.assertIn("a batch is 2 times 50000 windows", ended.err)

    def test_more_dilated_heads_than_a_grid_holds(self):
        settings = {"model.n_layer": 1, "model.block_size": 8192, "model.attention": "[dilated 2 4096]", "model.n_head": 24,
                    "model.head_size": 32, "training.batch_size": 1, "training.micro_batch_size": 1}
        self.done("bench-step", ROOT / "configs/gpt2_124m.yaml", "--steps", 1, *flags(settings), COMPUTES=0)

    def test_texts_of_unequal_lengths_wait_once_for_their_recordings(self):
        self.train("run", TINY)
        ended = self.done("inkling-sample", self.folder / "run", "--prompt", "One ", "--count", 4, "--max-tokens", 30,
                          "--device", "cuda")
        recorded = [wait["count"] for wait in ended.report["waits"] if "cuda::record" in str(wait["place"])]
        self.assertLessEqual(sum(recorded), 1, recorded)


if __name__ == "__main__":
    unittest.main()
