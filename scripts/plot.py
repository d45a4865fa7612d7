"""Reads what runs have logged and chooses what of it to show; matplotlib draws. scripts/plot starts it."""
import argparse
import io
import json
import math
import re
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

TITLES = {"loss": "loss, nats per token", "learning_rate": "learning rate", "grad_norm": "gradient norm",
          "tokens_per_second": "tokens per second", "mfu": "model FLOP/s over the device's peak",
          "seconds": "seconds of training"}
SHORT_NAMES = {"lr": "learning_rate", "grad": "grad_norm", "norm": "grad_norm", "speed": "tokens_per_second",
               "throughput": "tokens_per_second"}
DEFAULT_METRICS = ["loss", "learning_rate", "grad_norm", "tokens_per_second"]
SPREAD = {"loss", "grad_norm"}  # which have a logarithmic axis where they differ by much
FIRST_STEPS = 0.03  # of all: in these the loss falls so far that a scale with them shows nothing of the others
DASHES = ["-", "--", ":", "-."]  # once all colours are taken
# Paper, ink, grid, and curves that are told apart with every kind of colour blindness (at least 25 of CIE76 between any
# two, by Machado et al. 2009) and stand out from the paper by 3 to 1 or more.
COLOURS = {"light": ["#fcfcfa", "#24292f", "#e4e4e0", "#0a5fa8", "#c8440e", "#ce7596", "#1c3145", "#7309ee", "#682d25"],
           "dark": ["#16191d", "#e6e6e3", "#2e3338", "#5aa9f0", "#f0793f", "#cc7f9c", "#ecd4c0", "#9848f1", "#9cf41f"]}
EPILOG = """examples:
  scripts/plot runs/fables > fables.svg
  scripts/plot runs/a runs/b --metric loss --x tokens --out compared.png
"""


class InputError(Exception):
    """Something that the person can mend: what, where, and what to do."""


@dataclass
class Run:
    folder: str
    name: str = ""  # the shortest end of its path that tells it from the others
    steps: list[dict] = field(default_factory=list)  # their numbers; NaN stands for one that was not finite
    evaluations: list[dict] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)
    damaged: int = 0  # lines that cannot be read

    def points(self, metric: str) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Steps and values in the order of the log."""
        lines = self.steps if any(metric in line for line in self.steps) else self.evaluations
        lines = [line for line in lines if metric in line]
        return numpy.array([line["step"] for line in lines], float), numpy.array([line[metric] for line in lines], float)

    def metrics(self) -> set[str]:
        return {name for line in self.steps + self.evaluations for name in line} - {"step"}

    def best_possible(self) -> float:
        return next((line["best_possible_loss"] for line in self.evaluations[::-1] if "best_possible_loss" in line), math.nan)


def numbers_of(entry: dict) -> dict:
    numbers = {name: math.nan if value is None else value for name, value in entry.items()}
    return {name: value for name, value in numbers.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}


def add_line(run: Run, line: str) -> None:
    try:
        entry = json.loads(line)
        if type(entry["step"]) is not int or not 0 <= entry["step"] < 2**63:
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


def read_run(name: str) -> Run:
    path = Path(name) / "log.jsonl"
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {name!r}")
    if not path.is_file():
        inside = sorted(str(log.parent) for log in Path(name).glob("*/log.jsonl"))
        hint = "the runs in it: " + ", ".join(inside[:8]) if inside else "give a run's folder, such as runs/fables"
        raise InputError(f"{name!r} holds no log.jsonl; {hint}")
    run = Run(folder=name)
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            if line.endswith("\n") and line.strip():  # a line without its end is still being written
                add_line(run, line)
    if run.damaged:
        lines = "1 line" if run.damaged == 1 else f"{run.damaged} lines"
        print(f"warning: {lines} of {path} cannot be read and are left out", file=sys.stderr)
    return run


def read_runs(folders: list[str]) -> list[Run]:
    """Those that have something to show, named by the shortest ends of their paths that tell them apart."""
    runs = [read_run(folder) for folder in dict.fromkeys(folders)]
    for run in runs:
        if not run.steps and not run.evaluations:
            print(f"warning: {run.folder} has logged no step yet and is left out", file=sys.stderr)
    runs = [run for run in runs if run.steps or run.evaluations]
    if not runs:
        raise InputError("there is nothing to draw: no run has logged a step")
    parts = [Path(run.folder).absolute().parts for run in runs]
    for run, own in zip(runs, parts):
        ends = ["/".join(own[-length:]) for length in range(1, len(own) + 1)
                if sum(other[-length:] == own[-length:] for other in parts) == 1]
        run.name = ends[0] if len(ends[0]) <= 34 else ends[0][:16] + "…" + ends[0][-17:]
    return runs


def tokens_per_step(run: Run) -> int:
    """By the config.yaml that the run wrote; the checkpoint knows a block size that is auto there."""
    folder = Path(run.folder)
    config = (folder / "config.yaml").read_text(errors="replace") if (folder / "config.yaml").is_file() else ""
    batch, block = (re.search(rf"^{section}:\n(?:[ #].*\n|\n)*?  {key}: *(\d+) *$", config, re.MULTILINE)
                    for section, key in (("training", "batch_size"), ("model", "block_size")))
    block_size = int(block[1]) if block else None
    for path in sorted(folder.glob("checkpoints/step-*/config.json")) if block is None else []:
        about = json.loads(path.read_text())
        block_size = about.get("n_positions") or about.get("max_position_embeddings")
    if not batch or not block_size:
        raise InputError(f"how many tokens a step of {run.folder!r} takes is not known: its config.yaml has no "
                         "training.batch_size and model.block_size; choose --x step")
    return int(batch[1]) * block_size


def along(axis: str, run: Run, steps: numpy.ndarray) -> numpy.ndarray:
    """Where steps lie on the x axis; in time those between two lines of the log by proportion."""
    if axis == "tokens":
        return steps * tokens_per_step(run)
    if axis == "time":
        known = [(line["step"], line["seconds"]) for line in run.steps if math.isfinite(line.get("seconds", math.nan))]
        if not known:
            raise InputError(f"the log of {run.folder!r} has no seconds; choose --x step")
        return numpy.interp(steps, *zip((0, 0.0), *sorted(known)))
    return steps


def smoothed(x: numpy.ndarray, y: numpy.ndarray, count: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The mean of `count` neighbours, of fewer at the ends and at the beginning, where losses fall fast; what is not finite
    does not count."""
    x, y = x[numpy.isfinite(y)], y[numpy.isfinite(y)]
    here, sums = numpy.arange(len(y)), numpy.concatenate([[0.0], numpy.cumsum(y)])
    reach = numpy.minimum(count // 2, here // 3)
    first, last = here - reach, numpy.minimum(here + reach + 1, len(y))
    return x, (sums[last] - sums[first]) / (last - first)


def chosen_metrics(names: str, runs: list[Run]) -> list[str]:
    metrics = [SHORT_NAMES.get(name.strip(), name.strip()) for name in names.split(",")]
    there = set().union(*(run.metrics() for run in runs)) | ({"loss"} if any(run.evaluations for run in runs) else set())
    for name in metrics:
        if name not in there and (name not in DEFAULT_METRICS or there.isdisjoint(metrics)):
            raise InputError(f"--metric {name}: no log has that; there are {', '.join(sorted(there))}")
    return [name for name in dict.fromkeys(metrics) if name in there]


def draw_run(axes, run: Run, index: int, metric: str, options: argparse.Namespace, palette: list[str]) -> list:
    """Draws one run and returns its lines; of a crowd only the one that tells the most."""
    steps, values = run.points(metric)
    count = len(values) // 50 if options.smooth is None else options.smooth
    parts = [(steps, values, "training")] if options.alone or count <= 1 else []
    if count > 1:
        parts.append((*smoothed(steps, values, count), "training"))
    if metric == "loss":
        parts.append((*run.points("val_loss"), "validation"))
    parts = [part for part in parts if len(part[0])]
    lines = []
    for steps, values, kind in parts[-1:] if options.crowded else parts:
        following = parts[len(lines) + 1:] if not options.crowded else []
        named = not following or options.alone and following[0][2] != kind  # the others are faint
        own = 1 if options.alone and kind == "validation" else index
        name = run.name if not options.alone else kind if metric == "loss" else ""
        last = next((value for value in values[::-1] if math.isfinite(value)), math.nan)
        few = len(steps) == 1 or kind == "validation" and len(steps) <= 60
        lines += axes.plot(along(options.x, run, steps), values, color=palette[own % len(palette)],
                           linestyle=DASHES[own // len(palette) % len(DASHES)], linewidth=1.4 if named else 0.8,
                           alpha=1 if named else 0.4, marker="o" if few else None, markersize=3,
                           label=f"{name} {last:{'.3f' if metric == 'loss' else ',.4g'}}".strip() if named else None)
        if missing := along(options.x, run, steps[~numpy.isfinite(values)]).tolist():
            axes.plot(missing, [0.97] * len(missing), "x", color=palette[own % len(palette)], markersize=5,
                      transform=axes.get_xaxis_transform(), label=f"{name} not finite".strip())
    return lines


def scale(axes, lines: list, bounds: list[float], metric: str, options: argparse.Namespace) -> None:
    """The y axis holds what is drawn; that of losses and norms is logarithmic where they differ by more than a factor of 2.5."""
    x, y = (numpy.concatenate([line.get_data()[i] for line in lines]) for i in (0, 1))
    finite = numpy.isfinite(y)
    later = finite & (x > FIRST_STEPS * x.max())
    seen = numpy.append(y[later if metric in SPREAD and not options.whole and later.sum() >= 20 else finite], bounds)
    differ = metric in SPREAD and not options.linear and len(seen) and seen.min() > 0 and seen.max() > 2.5 * seen.min()
    if options.log and (seen > 0).any() or differ:
        low, high = seen[seen > 0].min(), seen.max()
        axes.set_yscale("log")
        axes.set_ylim(low / 1.05, high * 1.05)
        digits = (1, 1.5, 2, 3, 4, 6, 8) if high < 20 * low else (1, 3) if high < 1e4 * low else (1,)
        axes.yaxis.set_major_locator(LogLocator(subs=digits))
        axes.yaxis.set_minor_locator(NullLocator())
    elif len(seen) and seen.min() < seen.max():
        room = 0.05 * (seen.max() - seen.min())
        axes.set_ylim(seen.min() - (room if seen.min() else 0), seen.max() + room)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}" if abs(value) >= 1000 else f"{value:.5g}"))


def mark(axes, run: Run, ink: str) -> None:
    """What a single run's events say, at their steps."""
    for event in run.events:
        since = event.get("since") if event.get("event") == "overfitting" else None
        if isinstance(since, int) or event.get("event") == "stopped_early":
            axes.axvline(since or event["step"], color=ink, linewidth=0.8, linestyle=":")
            axes.text(since or event["step"], 0.5, f" overfitting since {since:,}" if since else " stopped early ",
                      transform=axes.get_xaxis_transform(), ha="left" if since else "right")


def draw_panel(axes, runs: list[Run], metric: str, options: argparse.Namespace, theme: str, with_legend: bool) -> None:
    _, ink, grid, *palette = COLOURS[theme]
    lines = [line for i, run in enumerate(runs) for line in draw_run(axes, run, i, metric, options, palette)]
    bounds = sorted({run.best_possible() for run in runs if math.isfinite(run.best_possible())} if metric == "loss" else [])
    for bound in bounds:
        axes.axhline(bound, color=ink, linewidth=1, linestyle="--", label=f"best possible {bound:.3f}")
    scale(axes, lines, bounds, metric, options)
    title = TITLES.get(metric, metric.replace("_", " "))
    if with_legend:
        named = [line for line in axes.lines if not line.get_label().startswith("_child")]
        place = {"loc": "upper right"} if options.alone else {"loc": "upper left", "bbox_to_anchor": (1, 1), "frameon": False}
        axes.legend(named, [line.get_label() for line in named], **place)
    elif options.alone and lines:
        title += f": {lines[-1].get_label()} at the end"
    axes.set_title(title, loc="left", fontsize="medium")
    axes.grid(color=grid)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlim(0)
    unit, name, end = 1, options.x, axes.get_xlim()[1]
    if options.x == "time":
        unit, name = next((u for u in ((86400, "days"), (3600, "hours"), (60, "minutes")) if end > 2 * u[0]), (1, "seconds"))
        axes.xaxis.set_major_locator(FixedLocator(MaxNLocator(6).tick_values(0, end / unit) * unit))
        axes.set_xlim(0, end)
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if options.x == "tokens" else
                                   FuncFormatter(lambda value, _: f"{value / unit:,.10g}"))
    axes.set_xlabel(name, loc="right")
    if metric == "loss" and options.alone and options.x == "step":
        mark(axes, runs[0], ink)


def figure_of(runs: list[Run], options: argparse.Namespace, theme: str) -> Figure:
    """The first metric across, the others in rows of three at most below it."""
    metrics = chosen_metrics(options.metric, runs)
    options.alone, options.crowded = len(runs) == 1, len(runs) > 4
    paper, ink, *_ = COLOURS[theme]
    matplotlib.rcParams.update(dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), ink))
    matplotlib.rcParams.update(dict.fromkeys(("axes.facecolor", "legend.facecolor", "legend.edgecolor"), paper))
    matplotlib.rcParams.update({"font.size": 9, "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "plot"})
    across = 2 if len(metrics) in (3, 5) else min(len(metrics) - 1, 3) or 1
    below = math.ceil((len(metrics) - 1) / across)
    heights = [max(3.4, 0.2 * len(runs))] + [2.2] * below  # inches
    figure = Figure(figsize=(9, sum(heights)), facecolor=paper, layout="constrained")
    grid = figure.add_gridspec(below + 1, across, height_ratios=heights)
    for i, metric in enumerate(metrics):
        place = grid[0, :] if i == 0 else grid[1 + (i - 1) // across, (i - 1) % across]
        draw_panel(figure.add_subplot(place), runs, metric, options, theme, i == 0)
    return figure


def picture(runs: list[Run], options: argparse.Namespace) -> bytes:
    is_png = bool(options.out) and options.out.lower().endswith(".png")
    theme = "dark" if options.theme == "dark" else "light"
    data = io.BytesIO()
    figure = figure_of(runs, options, theme)
    warnings.filterwarnings("ignore", message="Glyph")  # which the font lacks here and a browser's may have
    if is_png:
        figure.savefig(data, format="png", dpi=200)
        return data.getvalue()
    # What a reader hears who does not see it.
    first = figure.axes[0]
    title = ", ".join([first.get_title(loc="left")] + [run.name for run in runs if options.alone]
                      + [text.get_text() for text in first.get_legend().get_texts()])
    figure.savefig(data, format="svg", metadata={"Title": title, "Date": None})
    svg = data.getvalue().decode().replace("<svg ", '<svg role="img" ', 1)
    if options.theme == "auto":  # each colour becomes a variable, which is another where the reader's system is dark
        for i, colour in enumerate(COLOURS["light"]):
            svg = svg.replace(colour, f"var(--c{i}, {colour})")
        dark = "".join(f"--c{i}:{colour};" for i, colour in enumerate(COLOURS["dark"]))
        svg = svg.replace('<style type="text/css">', f'<style type="text/css">@media(prefers-color-scheme:dark){{:root{{{dark}}}}}', 1)
    return svg.encode()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/plot", description="Draws what runs have logged: finished, running or cut off, one or several.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder")
    parser.add_argument("--metric", metavar="NAMES", default=",".join(DEFAULT_METRICS),
                        help="loss, lr, grad, speed or any field of log.jsonl, with commas between; all four")
    parser.add_argument("--x", choices=["step", "tokens", "time"], default="step", help="the axis below; step")
    parser.add_argument("--smooth", type=int, metavar="N",
                        help="the mean of N logged steps beside the faint steps themselves; 1: none; as many as suit")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--log", action="store_true", help="logarithmic axes for all metrics")
    either.add_argument("--linear", action="store_true", help="and for none; otherwise for losses and norms that differ much")
    parser.add_argument("--whole", action="store_true",
                        help="losses and norms from the first step on, though of the others less is seen then")
    parser.add_argument("--theme", choices=["auto", "light", "dark"], default="auto",
                        help="auto: as the reader's system; light in a PNG")
    parser.add_argument("--out", metavar="FILE", help="an .svg or .png; SVG on standard output")
    options = parser.parse_args(arguments)
    if options.smooth is not None and options.smooth < 0:
        raise InputError(f"--smooth {options.smooth}: give how many logged steps a mean is of, 1 or more")
    if options.out and not options.out.lower().endswith((".svg", ".png")):
        raise InputError(f"--out {options.out}: its name must end in .svg or .png")
    if options.out is None and sys.stdout.isatty():
        raise InputError("an SVG on a terminal helps nobody: give --out FILE.svg, or redirect it")
    return options


def main(arguments: list[str]) -> int:
    try:
        options = parse(arguments)
        data = picture(read_runs(options.runs), options)
        if options.out is None:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        else:  # whole or not at all
            new = Path(options.out).with_name(f".{Path(options.out).name}.tmp")
            new.write_bytes(data)
            new.replace(options.out)
        return 0
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
