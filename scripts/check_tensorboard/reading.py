"""A run's event files as TensorBoard's own readers see them."""
import html
import json
import logging
import struct
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.custom_scalar import layout_pb2, metadata
from tensorboard.util import tensor_util

EVERYTHING = {"scalars": 0, "tensors": 0, "histograms": 0}
logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it warns of every restart


class Histogram:
    def __init__(self, shown) -> None:
        self.shown = shown

    def problem_with(self, values: np.ndarray) -> str | None:
        """What it says of these values that is not so; None where all of it is."""
        values = values.astype(np.float64).ravel()
        shown = self.shown
        facts = {"min": (shown.min, values.min()), "max": (shown.max, values.max()), "num": (shown.num, values.size),
                 "sum": (shown.sum, values.sum()), "sum_squares": (shown.sum_squares, np.square(values).sum()),
                 "all buckets": (sum(shown.bucket), values.size)}
        for name, (found, expected) in facts.items():
            if not np.isclose(found, expected, rtol=1e-9, atol=1e-9):
                return f"{name} is {found}, and {expected} in the checkpoint"
        edges = [values.min(), *shown.bucket_limit]
        if len(edges) > 2:  # a value at the edge of two buckets may be in either
            counts, _ = np.histogram(values, edges)
            if np.abs(np.cumsum(counts) - np.cumsum(shown.bucket)).max() > max(2, values.size // 1000):
                return f"buckets {list(shown.bucket)}, and {list(counts)} in the checkpoint"
        return None


class Board:
    """A TensorBoard that has read the run's files, and reads on when told to."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.accumulator = plugin_event_accumulator.EventAccumulator(str(run), size_guidance=EVERYTHING)
        self.reload()

    def reload(self) -> None:
        self.accumulator.Reload()

    def values(self, plugin: str) -> dict[str, dict[int, list]]:
        """What this plugin shows, by tag and step; more than one in a list is a step that is there twice."""
        found: dict = {}
        known = plugin in self.accumulator.ActivePlugins()
        for tag in self.accumulator.PluginTagToContent(plugin) if known else ():
            steps = found.setdefault(tag, {})
            for event in self.accumulator.Tensors(tag):
                steps.setdefault(event.step, []).append(tensor_util.make_ndarray(event.tensor_proto).tolist())
        return found

    def text(self, tag: str, step: int) -> str:
        """The text that is shown as it was written, or what is wrong."""
        texts = self.values("text").get(tag, {}).get(step, [])
        if len(texts) != 1 or len(texts[0]) != 1:
            return f"<{len(texts)} texts>"
        return as_was_written(texts[0][0].decode())

    def charts(self) -> dict[str, list[str]]:
        """The tags of each chart of the page "custom scalars"."""
        (event,) = self.accumulator.Tensors(metadata.CONFIG_SUMMARY_TAG)
        layout = layout_pb2.Layout.FromString(event.tensor_proto.string_val[0])
        return {chart.title: list(chart.multiline.tag) for category in layout.category for chart in category.chart}

    def histograms(self) -> dict[str, dict[int, Histogram]]:
        """With their sums, which TensorBoard itself does not keep and its older reader does."""
        older = event_accumulator.EventAccumulator(str(self.run), size_guidance=EVERYTHING)
        older.Reload()
        return {tag: {event.step: Histogram(event.histogram_value) for event in older.Histograms(tag)}
                for tag in older.Tags()["histograms"]}

    def repeated_in_files(self) -> str | None:
        """A step that a tag has twice in all files together, to a reader that knows nothing of restarts."""
        seen = set()
        for path in sorted(self.run.glob("*tfevents*")):
            last = 0
            for event in EventFileLoader(str(path)).Load():
                for value in event.summary.value:
                    if (value.tag, event.step) in seen:
                        return f"{value.tag} has step {event.step} twice, at last in {path.name}"
                    seen.add((value.tag, event.step))
                    if event.step < last:
                        return f"step {event.step} follows step {last} in {path.name}"
                    last = event.step
        return None


def as_was_written(markdown: str) -> str:
    """What this Markdown shows: a block of code, or lines that each end with two spaces."""
    if markdown.startswith("    "):
        return "\n".join(line[4:] for line in markdown.split("\n")[:-1])
    lines = markdown.split("  \n")
    return "\n".join("" if line == "&nbsp;" else html.unescape(line).replace("\xa0", " ") for line in lines)


def latest_weights(run: Path) -> dict[str, np.ndarray]:
    """The tensors of the newest checkpoint, by the names of h.0.attn.c_attn.weight."""
    data = (max((run / "checkpoints").iterdir()) / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    body = data[8 + length :]
    weights = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            weights[name.removeprefix("transformer.")] = np.frombuffer(body[begin:end], np.float32)
    return weights
