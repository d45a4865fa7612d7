"""What a run's folder says: the numbers of its log.jsonl, and how many tokens a step takes."""
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path


class InputError(Exception):
    """Something that the person can mend: what, where, and what to do."""


@dataclass
class Run:
    folder: str
    name: str = ""
    steps: list[dict] = field(default_factory=list)  # the lines of steps, without a number: NaN
    evaluations: list[dict] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)
    damaged: int = 0  # lines that cannot be read
    tokens_per_step: int | None = None

    @property
    def best_possible(self) -> float | None:
        known = [line["best_possible_loss"] for line in self.evaluations if "best_possible_loss" in line]
        return known[-1] if known and math.isfinite(known[-1]) else None

    def points(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) in the order of the log; NaN where the value was not finite."""
        lines = self.steps if any(metric in line for line in self.steps) else self.evaluations
        return [(line["step"], line[metric]) for line in lines if metric in line]

    def metrics(self) -> set[str]:
        return {name for line in self.steps + self.evaluations for name in line} - {"step"}


def numbers_of(entry: dict) -> dict:
    """The numeric fields; null stands for what was not finite."""
    numbers = {}
    for name, value in entry.items():
        if value is None:
            numbers[name] = math.nan
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[name] = value
    return numbers


def add_line(run: Run, line: str) -> None:
    try:
        entry = json.loads(line)
        step = entry["step"]
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < 2**63:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        run.damaged += 1
        return
    if "val_loss" in entry:
        run.evaluations.append(numbers_of(entry))
    elif "loss" in entry:
        run.steps.append(numbers_of(entry))
    elif "event" in entry:
        run.events.append(entry)


def setting(text: str, section: str, key: str) -> int | None:
    """A whole number of config.yaml as a run writes it: sections at the margin, one setting a line."""
    found = re.search(rf"^{section}:\n(?:[ #].*\n|\n)*?  {key}: *(\d+) *$", text, re.MULTILINE)
    return int(found[1]) if found else None


def read_tokens_per_step(folder: Path) -> int | None:
    try:
        text = (folder / "config.yaml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    batch, block = setting(text, "training", "batch_size"), setting(text, "model", "block_size")
    if block is None:  # auto: the checkpoint has what the model came with
        for config in sorted(folder.glob("checkpoints/step-*/config.json")):
            try:
                entry = json.loads(config.read_text(encoding="utf-8"))
                block = entry.get("n_positions") or entry.get("max_position_embeddings")
            except (OSError, ValueError, AttributeError):
                continue
    return batch * block if batch and isinstance(block, int) else None


def read_run(name: str) -> Run:
    folder = Path(name)
    path = folder / "log.jsonl"
    if not folder.is_dir():
        raise InputError(f"there is no folder {name!r}")
    if not path.is_file():
        inside = sorted(str(log.parent) for log in folder.glob("*/log.jsonl"))
        hint = "; the runs in it: " + ", ".join(inside[:8]) if inside else "; give a run's folder, such as runs/fables"
        raise InputError(f"{name!r} holds no log.jsonl{hint}")
    run = Run(folder=name)
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            for line in file:
                if line.endswith("\n") and line.strip():  # what has no end yet is still being written
                    add_line(run, line)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    run.tokens_per_step = read_tokens_per_step(folder)
    return run


def name_runs(runs: list[Run]) -> None:
    """The shortest ends of the paths that tell the runs apart."""
    parts = [Path(run.folder).absolute().parts for run in runs]
    for run, own in zip(runs, parts):
        length = 1
        while length < len(own) and sum(other[-length:] == own[-length:] for other in parts) > 1:
            length += 1
        run.name = "/".join(own[-length:]).replace("//", "/")
