"""scripts/plot: flags, and what becomes of them."""
import argparse
import os
import re
import sys
from pathlib import Path

from curves import DEFAULT_METRICS, SHORT_NAMES, make_curve
from drawing import Panel, Scale, draw
from images import NoConverter, png_of, write
from reading import InputError, Run, name_runs, read_run

EPILOG = """examples:
  scripts/plot runs/fables > fables.svg
  scripts/plot runs/a runs/b --metric loss --x tokens --out compared.png
"""


def say(kind: str, message: str) -> None:
    print(f"{kind}: {message}", file=sys.stderr)


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
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--log", action="store_true", help="logarithmic axes for all metrics")
    scale.add_argument("--linear", action="store_true", help="and for none; otherwise for losses and norms that differ much")
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


def read_runs(folders: list[str]) -> list[Run]:
    """Those that have something to show; the others are named."""
    runs = []
    for run in [read_run(folder) for folder in dict.fromkeys(folders)]:
        if run.damaged:
            lines = "1 line" if run.damaged == 1 else f"{run.damaged} lines"
            say("warning", f"{lines} of {os.path.join(run.folder, 'log.jsonl')} cannot be read and are left out")
        if run.steps or run.evaluations:
            runs.append(run)
        else:
            say("warning", f"{run.folder} has logged no step yet and is left out")
    if not runs:
        raise InputError("there is nothing to draw: no run has logged a step")
    name_runs(runs)
    return runs


def chosen_metrics(names: str, runs: list[Run]) -> list[str]:
    metrics = [SHORT_NAMES.get(name.strip(), name.strip()) for name in names.split(",")]
    there = set().union(*(run.metrics() for run in runs))
    if any(run.evaluations for run in runs):
        there.add("loss")
    for name in metrics:
        if name not in there and name not in DEFAULT_METRICS:
            raise InputError(f"--metric {name}: no log has that; there are {', '.join(sorted(there))}")
    found = [name for name in dict.fromkeys(metrics) if name in there]
    if not found:
        raise InputError(f"--metric {names}: no log has that; there are {', '.join(sorted(there)) or 'none'}")
    return found


def make_picture(options: argparse.Namespace, theme: str) -> str:
    runs = read_runs(options.runs)
    scale = Scale(True if options.log else False if options.linear else None, options.whole)
    panels = []
    for metric in chosen_metrics(options.metric, runs):
        curves = [make_curve(run, i, metric, options.x, options.smooth) for i, run in enumerate(runs)]
        panels.append(Panel(metric, curves, options.x, scale))
    return draw(panels, runs, theme)


def main(arguments: list[str]) -> int:
    try:
        options = parse(arguments)
        is_png = options.out is not None and options.out.lower().endswith(".png")
        svg = make_picture(options, "light" if is_png and options.theme == "auto" else options.theme)
        if options.out is None:
            sys.stdout.reconfigure(encoding="utf-8")
            sys.stdout.write(svg)
            sys.stdout.flush()
        elif is_png:
            width, height = (int(number) for number in re.search(r'width="(\d+)" height="(\d+)"', svg).groups())
            write(Path(options.out), png_of(svg, width, height))
        else:
            write(Path(options.out), svg.encode())
        return 0
    except InputError as error:
        say("error", str(error))
        return 2
    except NoConverter as error:
        say("error", str(error))
        return 3
    except OSError as error:  # of standard output; the interpreter would complain of it once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        say("error", f"cannot write to standard output: {error.strerror}")
        return 3
