"""What scripts/check-tensorboard runs: BIN, the folder of inkling's programs."""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from reading import Board, latest_weights

CONFIG = """data: {source: text.txt, val_fraction: 0.2}
model: {n_layer: 2, n_head: 2, n_embd: 32, block_size: 32, dropout: 0.1, tie_embeddings: false}
optimizer: {learning_rate: 1e-3}
schedule: {warmup_steps: 5, decay_steps: 40, min_learning_rate: 1e-4}
training: {max_steps: 40, batch_size: 8, micro_batch_size: 4, ema: 0.9}
evaluation: {interval: 10, batches: 2}
checkpoint: {interval: 7, keep: 100}
logging: {interval: 1, tensorboard: true, histograms: 20}
sampling: {interval: 8, prompts: ["Line 3", "", "# <b>*a*\\n\\n 7.  a"], max_tokens: 30}
runtime: {device: cpu, threads: 1}
"""
# The fields of log.jsonl and their tags.
TAGS = {
    "loss": "loss/train",
    "learning_rate": "learning_rate",
    "grad_norm": "gradient_norm/all",
    "tokens_per_second": "throughput/tokens_per_second",
    "train_loss": "loss/train_evaluation",
    "val_loss": "loss/validation",
    "ema_val_loss": "loss/validation_ema",
}
GROUPS = ["embedding", "matrix", "head", "vector"]
OTHER_NUMBERS = {f"{what}_norm/{group}" for what in ("gradient", "weight") for group in GROUPS} | {
    "weight_norm/all", "memory/process_mib", "memory/training_mib"}
BY_THE_CLOCK = {"throughput/tokens_per_second", "memory/process_mib", "memory/training_mib"}


class Tally:
    """Counts comparisons and prints a line for each."""

    def __init__(self) -> None:
        self.differ = self.agree = 0

    def judge(self, name: str, problem: str | None) -> None:
        """problem: what differs; None where nothing does."""
        self.agree += problem is None
        self.differ += problem is not None
        print(f"DIFFERS  {name}: {problem}" if problem else f"agrees   {name}", flush=True)


class Folder:
    """A folder with a text and the settings of a run, in which runs are made."""

    def __init__(self, program: Path, path: Path) -> None:
        self.program, self.path = program, path
        (path / "text.txt").write_text("".join(f"Line {i * 37 % 101} of <b>a text</b> # *too*.\n" for i in range(400)))
        (path / "run.yaml").write_text(CONFIG)

    def command(self, run: str, settings: tuple[str, ...]) -> list[str]:
        return [str(self.program), "run.yaml", "--out", run, *(f"--set={setting}" for setting in settings)]

    def train(self, run: str, *settings: str) -> Path:
        """Trains to the end."""
        done = subprocess.run(self.command(run, settings), cwd=self.path, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"inkling-train ended with exit code {done.returncode}:\n{done.stderr}")
        return self.path / run

    def interrupt(self, run: str, step: int, number: signal.Signals, *settings: str) -> Path:
        """Sends a signal once the run has reported this step. It is two steps ahead of that at most."""
        reading, writing = one_line_pipe()
        with subprocess.Popen(self.command(run, settings), cwd=self.path, stderr=writing) as process, open(reading, "rb", 0) as lines:
            os.close(writing)
            said = b""
            while line := lines.read(4096):  # one line
                said += line
                if line.startswith(b"step %d/" % step):
                    process.send_signal(number)
        expected = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 75}[number]
        if process.returncode != expected:
            sys.exit(f"after signal {number} at step {step} inkling-train ended with exit code {process.returncode}:\n{said.decode()}")
        return self.path / run


def one_line_pipe() -> tuple[int, int]:
    """A pipe that holds one write, so that who writes line by line waits until the line before has been read."""
    reading, writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, os.sysconf("SC_PAGE_SIZE"))
    return reading, writing


def first_difference(found: dict, expected: dict) -> str | None:
    for key in sorted(found.keys() | expected.keys(), key=str):
        if found.get(key) != expected.get(key):
            return f"{key}: TensorBoard has {found.get(key)}, expected {expected.get(key)}"
    return None


def logged(run: Path) -> tuple[dict, dict]:
    """The numbers of log.jsonl by tag and step, as float32, and its samples."""
    numbers: dict = {}
    samples: dict = {}
    for line in map(json.loads, (run / "log.jsonl").read_text().splitlines()):
        for field in line.keys() & TAGS.keys():
            numbers.setdefault(TAGS[field], {})[line["step"]] = [float(np.float32(line[field]))]
        if "sample" in line:
            text = line["sample"]["prompt"] + line["sample"]["text"]
            samples.setdefault(line["step"], []).append(text)
    return numbers, samples


def check_values(tally: Tally, run: Path) -> None:
    board = Board(run)
    numbers, samples = logged(run)
    found = board.values("scalars")
    tally.judge("the tags of numbers", first_difference(dict.fromkeys(found), dict.fromkeys([*numbers, *OTHER_NUMBERS])))
    for tag, values in numbers.items():
        tally.judge(f"{tag} as in log.jsonl", first_difference(found.get(tag, {}), values))
    shown = {step: [board.text(f"sample/{i + 1}", step) for i in range(3)] for step in samples}
    tally.judge("samples as in log.jsonl", first_difference(shown, samples))
    tally.judge("settings", None if board.text("settings", 0) == (run / "config.yaml").read_text() else "another text")

    charts = {"loss": ["loss/.*"], "gradient norm": ["gradient_norm/.*"], "weight norm": ["weight_norm/.*"]}
    tally.judge("charts of several curves", first_difference(board.charts(), charts))

    weights = latest_weights(run)
    whole = float(np.sqrt(sum(np.sum(np.square(values, dtype=np.float64)) for values in weights.values())))
    shown_norm = found["weight_norm/all"][40][0]
    tally.judge("weight_norm/all as of the checkpoint", None if np.isclose(shown_norm, whole, rtol=1e-5) else f"{shown_norm}, not {whole}")
    histograms = board.histograms()
    names = {f"{kind}/{name}" for kind in ("weights", "gradients") for name in weights}
    tally.judge("a histogram of each tensor at steps 20 and 40", first_difference(
        {tag: sorted(steps) for tag, steps in histograms.items()}, {name: [20, 40] for name in names}))
    for name, values in weights.items():
        problem = histograms[f"weights/{name}"][40].problem_with(values)
        tally.judge(f"weights/{name} as of the checkpoint", problem)


def repeatable(board: Board) -> dict:
    """All that does not depend on the clock or the machine's memory."""
    found = board.values("scalars") | board.values("text") | board.values("histograms")
    return {tag: values for tag, values in found.items() if tag not in BY_THE_CLOCK | {"settings"}}


def check_once(tally: Tally, name: str, run: Path, whole: Path, reader: Board | None = None) -> None:
    """Every point of `run` once, in its files as they are and to readers of them; and as in a run without a stop."""
    board, expected = Board(run), repeatable(Board(whole))
    tally.judge(f"{name}: each step once in the files", board.repeated_in_files())
    tally.judge(f"{name}: as the run that nothing interrupted", first_difference(repeatable(board), expected))
    if reader:
        reader.reload()
        tally.judge(f"{name}: to a TensorBoard that had them open", first_difference(repeatable(reader), expected))


def check_interruptions(tally: Tally, folder: Folder, whole: Path) -> None:
    run = folder.interrupt("killed", 17, signal.SIGKILL)
    reader = Board(run)
    check_once(tally, "killed at step 17", folder.train("killed"), whole, reader)

    run = folder.interrupt("early", 3, signal.SIGKILL)
    reader = Board(run)
    check_once(tally, "killed before its first checkpoint", folder.train("early"), whole, reader)

    run = folder.interrupt("torn", 24, signal.SIGKILL)
    newest = max(run.glob("*tfevents*"))
    content = newest.read_bytes()
    newest.write_bytes(content[:-5])
    reader = Board(run)
    check_once(tally, "killed within a write", folder.train("torn"), whole, reader)

    for step in (5, 12, 26, 33):
        run = folder.interrupt("signals", step, signal.SIGINT)
    check_once(tally, "stopped four times", folder.train("signals"), whole)

    run = folder.train("older")
    reader = Board(run)
    for step in (28, 30, 35, 40):
        shutil.rmtree(run / f"checkpoints/step-{step:06}", ignore_errors=True)
    check_once(tally, "resumed from an older checkpoint", folder.train("older"), whole, reader)

    run = folder.interrupt("twice", 18, signal.SIGKILL)
    for _ in range(2):  # from the same checkpoint each time
        folder.interrupt("twice", 16, signal.SIGKILL, "checkpoint.interval=1000", "evaluation.interval=1000")
    check_once(tally, "killed three times after one checkpoint", folder.train("twice"), whole)

    folder.interrupt("off", 18, signal.SIGKILL)
    run = folder.train("off", "logging.tensorboard=false", "logging.histograms=0")
    points = {(tag, step) for tag, values in repeatable(Board(whole)).items() for step in values if step <= 14}
    found = {(tag, step) for tag, values in repeatable(Board(run)).items() for step in values}
    tally.judge("switched off when it goes on: what was made anew is gone", str(found ^ points) if found != points else None)

    folder.interrupt("on", 18, signal.SIGKILL, "logging.tensorboard=false", "logging.histograms=0")
    run = folder.train("on")
    board, expected = Board(run), repeatable(Board(whole))
    later = {tag: {step: value for step, value in values.items() if step > 14} for tag, values in expected.items()}
    tally.judge("switched on when it goes on: all points from there", first_difference(repeatable(board), {
        tag: values for tag, values in later.items() if values}))
    tally.judge("switched on when it goes on: settings", None if board.text("settings", 15) == (run / "config.yaml").read_text() else "another text")
    tally.judge("switched on when it goes on: charts of several curves", first_difference(board.charts(), Board(whole).charts()))


def main() -> int:
    tally = Tally()
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(sys.argv[1]).resolve() / "inkling-train", Path(path))
        whole = folder.train("whole")
        check_values(tally, whole)
        check_once(tally, "never interrupted", whole, whole)
        check_interruptions(tally, folder, whole)
        plain = folder.train("plain", "logging.tensorboard=false", "logging.histograms=0", "sampling.interval=0")
        same = all((plain / name).read_bytes() == (whole / name).read_bytes() for name in
                   ("checkpoints/step-000040/model.safetensors", "checkpoints/step-000040/optimizer.safetensors"))
        tally.judge("weights and moments as without all this", None if same else "other bytes")
    print(f"{tally.agree} agree, {tally.differ} differ")
    return 1 if tally.differ else 0


sys.exit(main())
