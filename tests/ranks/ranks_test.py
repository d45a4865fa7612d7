#!/usr/bin/env python3
"""inkling-train as several ranks on this machine's CPU: the same bits as one, and what it does when one is lost."""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin"
# Everything that a rank could get wrong is at work: Muon, dropout, averages, documents kept apart, 8 leaves a step.
RUN = """
data: {source: stories.jsonl, val_fraction: 0.1, tokenizer: {kind: char}, documents: align}
model: {n_layer: 2, n_head: 2, n_embd: 32, block_size: 32, dropout: 0.1, tie_embeddings: false}
optimizer: {name: muon, learning_rate: 1e-3}
schedule: {warmup_steps: 2, decay_steps: 20}
training: {max_steps: 12, batch_size: 8, micro_batch_size: 1, ema: 0.9}
evaluation: {interval: 6, batches: 2}
checkpoint: {interval: 4}
logging: {interval: 1}
sampling: {interval: 6, max_tokens: 20}
runtime: {device: cpu, threads: 1}
"""
ENDLESS = {"training.max_steps": 1_000_000, "checkpoint.interval": 5, "evaluation.interval": 1_000_000,
           "sampling.interval": 0, "logging.interval": 1000}
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI_", "PMIX_", "MPI_", "SLURM_")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Group:
    """Ranks of one run, as processes that were started with torchrun's variables, or those of place_of(rank)."""

    def __init__(self, folder, ranks, *arguments, port=None, missing=(), of_rank=None, program="inkling-train",
                 inside=None, place_of=None, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        port = port or free_port()
        self.folder, self.processes = folder, {}
        for rank in set(range(ranks)) - set(missing):
            place = place_of(rank) if place_of else {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank,
                                                     "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1"}
            own = place | {"MASTER_PORT": port} | variables
            with open(folder / f"said-{rank}", "w", encoding="utf-8") as said:
                self.processes[rank] = subprocess.Popen(
                    [*(inside or {}).get(rank, ()), BIN / program, *arguments, *(of_rank or {}).get(rank, ())], cwd=folder,
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                    env=clean | {name: str(value) for name, value in own.items()})

    def said(self, rank):
        return (self.folder / f"said-{rank}").read_text(encoding="utf-8")

    def everything(self):
        return "\n".join(f"rank {rank}: {self.said(rank)[-2000:]}" for rank in self.processes)

    def wait(self, seconds=60):
        """Returns the exit codes; a rank that a signal ended has its number, negative."""
        until = time.monotonic() + seconds
        try:
            return [process.wait(max(until - time.monotonic(), 0.01)) for process in self.processes.values()]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not done within {seconds} s: {self.everything()}") from None
        finally:
            self.end()

    def end(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "run.yaml").write_text(RUN)
        stories = (f"The {'old' if i % 3 else 'sly'} fox number {i} went home{' and slept' * (i % 4)}.\n" for i in range(900))
        (self.folder / "stories.jsonl").write_text("".join(json.dumps({"text": story}) + "\n" for story in stories))

    def start(self, ranks, out, settings=None, **machine):
        arguments = ["run.yaml", "--out", out]
        for key, value in (settings or {}).items():
            arguments += ["--set", f"{key}={value}"]
        group = Group(self.folder, ranks, *arguments, *machine.pop("flags", ()), **machine)
        self.addCleanup(group.end)
        return group

    def train(self, ranks, out, settings=None, code=0, seconds=60, **machine):
        group = self.start(ranks, out, settings, **machine)
        self.assertEqual(group.wait(seconds), [code] * len(group.processes), group.everything())
        return group

    def wait_until(self, condition, group, what, seconds=60):
        until = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), until, what + group.everything())
            time.sleep(0.005)

    def checkpoints(self, out):
        folder = self.folder / out / "checkpoints"
        return sorted(path for path in folder.glob("step-*")) if folder.exists() else []

    def is_training(self, out):
        """Behind its second checkpoint, so that all ranks know of the first."""
        return lambda: bool(self.checkpoints(out)) and self.checkpoints(out)[-1].name > "step-000005"

    def log(self, out):
        lines = map(json.loads, (self.folder / out / "log.jsonl").read_text().splitlines())
        return [{key: value for key, value in line.items() if key not in ("seconds", "tokens_per_second")} for line in lines]

    def expect_same(self, one, other, of_log="step"):
        """The weights, states and averages, and the lines of the log that have this key."""
        ours, theirs = ([line for line in self.log(out) if of_log in line] for out in (one, other))
        self.assertEqual(ours, theirs, other)
        newest = self.checkpoints(one)[-1]
        for name in ("model.safetensors", "optimizer.safetensors", "ema.safetensors"):
            if (newest / name).exists():
                theirs = self.folder / other / "checkpoints" / newest.name / name
                self.assertEqual((newest / name).read_bytes(), theirs.read_bytes(), f"{other}: {name}")


class Bits(Ranks):
    def test_any_ranks_and_threads_give_those_of_one(self):
        self.train(1, "one")
        for ranks, threads, shares in ((1, 2, "true"), (2, 1, "true"), (2, 2, "false"), (4, 1, "false"), (4, 2, "true")):
            out = f"{ranks}-{threads}-{shares}"
            self.train(ranks, out, {"runtime.threads": threads, "ranks.shard_optimizer": shares})
            self.expect_same("one", out)

    def test_with_adamw_too(self):
        settings = {"optimizer.name": "adamw", "data.documents": "join", "data.order": "epoch"}
        self.train(1, "one", settings)
        for ranks in (2, 4):
            self.train(ranks, f"{ranks}", settings)
            self.expect_same("one", f"{ranks}")

    def test_with_master_values_of_which_each_keeps_its_own(self):
        halves = {"runtime.dtype": "bfloat16", "logging.tensorboard": "true", "logging.histograms": 4}
        self.train(1, "one", halves)
        for ranks, threads in ((2, 1), (4, 2)):
            self.train(ranks, f"{ranks}", halves | {"runtime.threads": threads})
            self.expect_same("one", f"{ranks}")
        self.train(2, "products", halves | {"runtime.split": "products"})
        for ours, theirs in zip(self.log("one"), self.log("products")):
            if "loss" in ours:
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-2)

    def test_a_run_goes_on_with_other_ranks(self):
        self.train(1, "whole")
        for ranks, steps in ((4, 5), (2, 9), (1, 12)):
            self.train(ranks, "parts", {"training.max_steps": steps})
        self.expect_same("whole", "parts", of_log="loss")

    def test_three_ranks_learn_the_same_to_five_digits(self):
        settings = {"training.max_steps": 200, "sampling.interval": 0, "evaluation.interval": 200, "model.dropout": 0}
        self.train(1, "one", settings)
        group = self.train(3, "three", settings)
        self.assertIn("another number of ranks goes on with other bits, because only 1, 2, 4 or 8 add up", group.said(0))
        for ours, theirs in zip(self.log("one"), self.log("three")):
            if "loss" in ours:
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-5 * ours["loss"])


class Memory(Ranks):
    def test_four_ranks_keep_a_quarter_of_the_states_each(self):
        peaks = {}
        for shares in ("true", "false"):
            settings = ENDLESS | {"model.n_layer": 6, "model.n_embd": 512, "optimizer.name": "adamw", "training.ema": 0,
                                  "checkpoint.interval": 1000, "logging.interval": 1, "ranks.shard_optimizer": shares}
            group = self.start(4, shares, settings)
            self.wait_until(lambda: "step 3/" in group.said(0), group, "no step")
            status = Path(f"/proc/{group.processes[1].pid}/status").read_text()
            peaks[shares] = int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024
            parameters = int(re.search(r"([\d,]+) parameters", group.said(0)).group(1).replace(",", ""))
            group.end()
        saved = (peaks["false"] - peaks["true"]) / (8 * parameters)  # two moments in float32
        print(f"a quarter of the states takes {saved:.3f} of them less than all")
        self.assertAlmostEqual(saved, 3 / 4, delta=0.15)  # what the C library holds varies


class Evaluation(Ranks):
    def test_ranks_share_out_windows_texts_and_questions(self):
        self.train(1, "run")
        (self.folder / "text.txt").write_text("The old fox went home.\nThe sly fox slept.\n" * 40)
        (self.folder / "choices.jsonl").write_text("".join(json.dumps(
            {"context": "The old fox", "endings": [" went home.", " home" + " number" * (i % 5)], "label": 0}) + "\n"
            for i in range(20)))
        for scored in ([], ["--text", "text.txt", "--each"], ["--choices", "choices.jsonl", "--each"]):
            said = []
            for ranks in (1, 2, 3):
                group = Group(self.folder, ranks, "run", "--threads", "1", "--json", *scored, program="inkling-eval")
                self.assertEqual(group.wait(), [0] * ranks, group.everything())
                said.append(group.said(0))
                for rank in range(1, ranks):
                    self.assertEqual(group.said(rank), "")
            self.assertIn("loss" if not scored or scored[0] == "--text" else "accuracy", said[0])
            self.assertEqual(said[1:], said[:1] * 2)


class Losses(Ranks):
    def lose(self, ranks, victim, deed=signal.SIGKILL, seconds=2.0, settings=None):
        group = self.start(ranks, "run", ENDLESS | (settings or {}))
        self.wait_until(self.is_training("run"), group, "no checkpoint")
        begun = time.monotonic()
        group.processes[victim].send_signal(deed)
        for rank, process in group.processes.items():
            if rank != victim:
                self.assertEqual(process.wait(60), 3, group.everything())
        self.assertLess(time.monotonic() - begun, seconds, group.everything())
        group.end()
        for rank in set(group.processes) - {victim}:
            self.assertRegex(group.said(rank), rf"lost contact with rank {victim} \(.+, process \d+\) in step \d+; "
                                               r"the last checkpoint is run/checkpoints/step-\d+", group.everything())
            self.assertNotIn("frame #", group.said(rank))

    def test_a_killed_rank_is_named_at_once(self):
        for victim in (0, 1, 2):
            with self.subTest(victim=victim):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.lose(3, victim)

    def test_a_rank_that_hangs_is_named_after_the_timeout(self):
        for ranks, victim in ((2, 0), (3, 1)):
            with self.subTest(victim=victim):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.lose(ranks, victim, signal.SIGSTOP, 3 + 2.5, {"ranks.timeout": 3})

    def test_a_stop_signal_to_any_rank_saves_once_and_ends_all(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                out = f"run{victim}"
                group = self.start(2, out, ENDLESS)
                self.wait_until(self.is_training(out), group, "no checkpoint")
                for _ in range(3):  # as launchers repeat it
                    group.processes[victim].send_signal(signal.SIGTERM)
                    time.sleep(0.01)
                self.assertEqual(group.wait(), [75, 75], group.everything())
                step = int(re.search(r"after step (\d+) and saved", group.said(0)).group(1))
                self.assertEqual(self.checkpoints(out)[-1].name, f"step-{step:06}")
                self.assertEqual(group.said(1), "")


class Kills(Ranks):
    def test_random_kills_lose_nothing(self):
        nightly = bool(os.environ.get("INKLING_NIGHTLY"))
        self.kill(kills=100 if nightly else 8, steps=8000 if nightly else 600)

    def kill(self, kills, steps, seed=1):
        settings = {"training.max_steps": steps, "checkpoint.interval": 50, "evaluation.interval": steps // 4,
                    "sampling.interval": steps // 3, "ranks.timeout": 3, "logging.interval": 10}
        self.train(1, "whole", settings)
        random_numbers = random.Random(seed)
        for number in range(kills):
            ranks = random_numbers.choice((2, 4))
            victim = random_numbers.randrange(ranks)
            group = self.start(ranks, "parts", settings)
            time.sleep(random_numbers.uniform(0, 1.2))
            group.processes[victim].kill()
            begun, is_training = time.monotonic(), "goes on from" in group.said(0) or "step " in group.said(0)
            codes = set(group.wait(30))
            seconds = time.monotonic() - begun
            with self.subTest(kill=number, victim=victim, training=is_training):
                self.assertLessEqual(codes, {3, -signal.SIGKILL, 0}, group.everything())
                if 0 in codes:
                    self.assertLessEqual(codes, {0, -signal.SIGKILL})
                self.assertLess(seconds, 2 if is_training else 3 * 3, group.everything())
        self.train(2, "parts", settings, seconds=600)  # most of the steps, where a start takes most of a life
        self.expect_same("whole", "parts")


class Start(Ranks):
    def test_a_missing_rank_is_named(self):
        group = self.start(3, "run", {"ranks.timeout": 2}, missing=[2])
        begun = time.monotonic()
        self.assertEqual(group.wait(), [3, 3], group.everything())
        self.assertLess(time.monotonic() - begun, 3 * 2)
        self.assertIn("rank 2 of 3 has not come within 2 s", group.said(0))

    def test_without_rank_0_the_others_say_where_they_looked(self):
        group = self.start(2, "run", {"ranks.timeout": 2}, missing=[0])
        begun = time.monotonic()
        self.assertEqual(group.wait(), [3], group.everything())
        self.assertLess(time.monotonic() - begun, 3 * 2)
        self.assertIn("rank 1 has not reached rank 0 at 127.0.0.1, port", group.said(1))

    def test_a_port_that_is_taken_is_said(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            group = self.start(2, "run", {"ranks.timeout": 2}, port=taken.getsockname()[1])
            self.assertEqual(group.wait(), [3, 3], group.everything())
        self.assertIn("set MASTER_PORT to a free port", group.said(0))

    def test_another_setting_in_one_rank_is_named(self):
        group = self.start(2, "run", of_rank={1: ["--set", "training.seed=7"]})
        self.assertEqual(group.wait(), [2, 2], group.everything())
        for rank in (0, 1):
            self.assertRegex(group.said(rank), r"rank 1 \(.+\) would do something else than rank 0: training.seed is 7 "
                                               r"there, and \d+ in rank 0")

    def test_what_rank_0_refuses_ends_all(self):
        group = self.start(2, "run", {"data.source": "nothing.txt"})
        self.assertEqual(group.wait(), [2, 2], group.everything())
        self.assertIn("nothing.txt", group.said(0))
        self.assertRegex(group.said(1), r"rank 0 \(.+\) could not go on: .*nothing.txt")

    def test_torchruns_single_thread_is_not_taken_for_a_wish(self):
        group = self.train(2, "run", {"runtime.threads": "auto", "training.max_steps": 1, "schedule.warmup_steps": 0},
                           OMP_NUM_THREADS=1, TORCHELASTIC_RUN_ID="none")
        self.assertNotIn("OMP_NUM_THREADS is 1", group.said(0))


class Networks(Ranks):
    """Two machines, as far as the network goes: namespaces, and a cable between them."""

    def setUp(self):
        super().setUp()
        self.machines = []
        for number in (1, 2):
            holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"], stderr=subprocess.DEVNULL)
            self.addCleanup(holder.wait)
            self.addCleanup(holder.kill)
            self.machines.append(holder.pid)
        time.sleep(0.1)
        first, second = self.machines
        try:
            self.ip(first, f"link add cable type veth peer name cable netns {second}")
        except subprocess.CalledProcessError:
            self.skipTest("network namespaces need root")
        for number, machine in enumerate(self.machines, 1):
            for command in (f"addr add 192.168.77.{number}/24 dev cable", "link set cable up", "link set lo up"):
                self.ip(machine, command)

    def ip(self, machine, command):
        subprocess.run(["nsenter", "--net", "--target", str(machine), "ip", *command.split()], check=True,
                       capture_output=True)

    def sent(self, machine, device):
        lines = subprocess.run(["nsenter", "--net", "--target", str(machine), "cat", "/proc/net/dev"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return next(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith(device + ":"))

    def on_machines(self, ranks, out, settings, machines=None, address="192.168.77.1", within=()):
        """A rank on each machine in turn. within: how a command is started on each machine, beside that."""
        machines = machines or self.machines
        inside = {}
        for rank in range(ranks):
            number = rank % len(machines)
            inside[rank] = ["nsenter", "--net", "--target", str(machines[number]), *(within[number] if within else [])]
        return self.start(ranks, out, settings, inside=inside, MASTER_ADDR=address, port=29500,
                          LOCAL_WORLD_SIZE=ranks // len(machines))

    def test_two_machines_give_the_bits_of_one(self):
        self.train(1, "one")
        group = self.on_machines(4, "two", {})
        self.assertEqual(group.wait(), [0] * 4, group.everything())
        self.expect_same("one", "two")

    def test_a_machine_that_calls_itself_a_loopback_address_is_reached(self):
        """As Debian's /etc/hosts has it for a machine's own name."""
        within = []
        for number, address in enumerate(("127.0.1.1", "192.168.77.1")):
            hosts = self.folder / f"hosts-{number}"
            hosts.write_text(f"127.0.0.1 localhost\n{address} first-machine\n")
            within.append(["unshare", "--mount", "bash", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "bash"])
        group = self.on_machines(4, "run", {"training.max_steps": 2, "schedule.warmup_steps": 0}, address="first-machine",
                                 within=within)
        self.assertEqual(group.wait(), [0] * 4, group.everything())

    def test_a_cable_that_is_cut_is_noticed_within_the_timeout(self):
        group = self.on_machines(2, "run", ENDLESS | {"ranks.timeout": 3})
        self.wait_until(self.is_training("run"), group, "no checkpoint")
        begun = time.monotonic()
        self.ip(self.machines[0], "link set cable down")
        self.assertEqual(group.wait(), [3, 3], group.everything())
        self.assertLess(time.monotonic() - begun, 3 + 2.5)
        for rank in (0, 1):
            self.assertIn(f"lost contact with rank {1 - rank} (", group.said(rank))

    def test_no_more_bytes_than_in_a_ring(self):
        """2 (N - 1) times the gradients in float32, and 5 % for the small things and the network's own words."""
        wide = {"model.n_embd": 128, "model.n_head": 4, "evaluation.interval": 1000, "checkpoint.interval": 1000,
                "sampling.interval": 0, "training.ema": 0}
        for ranks in (2, 4):
            sent = {}
            for steps in (20, 120):
                before = self.sent(self.machines[0], "lo")
                group = self.on_machines(ranks, f"{ranks}-{steps}", wide | {"training.max_steps": steps}, self.machines[:1])
                self.assertEqual(group.wait(), [0] * ranks, group.everything())
                sent[steps] = self.sent(self.machines[0], "lo") - before
            parameters = int(re.search(r"([\d,]+) parameters", group.said(0)).group(1).replace(",", ""))
            ratio = (sent[120] - sent[20]) / 100 / (2 * (ranks - 1) * parameters * 4)
            print(f"{ranks} ranks: {ratio:.3f} times a ring's bytes")
            self.assertLess(ratio, 1.05)


class Launchers(Ranks):
    def torchrun(self, *flags):
        tools = subprocess.run([ROOT / "scripts/environment"], check=True, capture_output=True, text=True).stdout.strip()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        said = open(self.folder / "said", "w", encoding="utf-8")
        self.addCleanup(said.close)
        process = subprocess.Popen([f"{tools}/bin/torchrun", "--no-python", "--monitor-interval", "0.1", *flags], cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=clean, start_new_session=True)
        self.addCleanup(process.kill)
        return process

    def said(self):
        return (self.folder / "said").read_text(encoding="utf-8")

    def ranks_of(self, launcher):
        """The processes of its ranks, in order."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if int((path / "stat").read_text().rsplit(")", 1)[1].split()[1]) == launcher.pid:
                    variables = dict(word.split("=", 1) for word in (path / "environ").read_text().split("\0") if "=" in word)
                    found[int(variables["RANK"])] = int(path.name)
            except (OSError, KeyError, ValueError):
                continue
        return [found[rank] for rank in sorted(found)]

    def wait_for_step(self, launcher, out):
        self.wait_until(self.is_training(out), self, "no checkpoint")

    def everything(self):
        return self.said()[-3000:]

    def test_torchrun_starts_a_run_that_is_lost_again_and_it_goes_on(self):
        slow = ["--set", "training.max_steps=1000000"]
        launcher = self.torchrun("--nproc-per-node", "2", "--max-restarts", "1", "--master-port", str(free_port()),
                                 str(BIN / "inkling-train"), "run.yaml", "--out", "run", *slow,
                                 "--set", "evaluation.interval=1000000", "--set", "sampling.interval=0")
        self.wait_for_step(launcher, "run")
        victim = self.ranks_of(launcher)[1]
        os.kill(victim, signal.SIGKILL)
        self.wait_until(lambda: re.search(r"goes on from run/checkpoints.*step \d+/", self.said(), re.DOTALL), self,
                        "it was not started again")
        launcher.send_signal(signal.SIGTERM)  # which it passes on to its ranks
        launcher.wait(40)
        self.assertIn("and saved; run the same command again to go on", self.said())

    def test_torchrun_shows_what_the_rank_that_failed_has_said(self):
        launcher = self.torchrun("--standalone", "--nproc-per-node", "2", str(BIN / "inkling-train"), "run.yaml",
                                 "--set", "data.source=nothing.txt")
        self.assertEqual(launcher.wait(60), 1)
        summary = self.said().split("FAILED")[-1]
        self.assertIn("nothing.txt", summary)
        self.assertIn("exitcode  : 2", summary)

    def test_mpirun_kills_two_seconds_behind_its_signal_and_the_run_is_saved(self):
        group = self.start(2, "run", ENDLESS, place_of=lambda rank: {
            "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_LOCAL_RANK": rank,
            "OMPI_COMM_WORLD_LOCAL_SIZE": 2})
        self.wait_until(self.is_training("run"), group, "no checkpoint")
        for process in group.processes.values():
            process.send_signal(signal.SIGTERM)
        self.assertEqual(group.wait(2), [75, 75], group.everything())


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    is_skipped = outcome.wasSuccessful() and outcome.testsRun == len(outcome.skipped)
    sys.exit(3 if is_skipped else not outcome.wasSuccessful())
