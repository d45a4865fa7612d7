"""Charts for docs/images, which matplotlib draws (scripts/plot.lock)."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def new_figure(title, height):
    packages = subprocess.run([ROOT / "scripts/foreign-packages", "plot"], check=True, stdout=subprocess.PIPE, text=True)
    sys.path.insert(0, packages.stdout.strip())
    import matplotlib
    from matplotlib.figure import Figure
    matplotlib.rcParams.update({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "charts", "axes.facecolor": "#fcfcfa"})
    figure = Figure(figsize=(8, height), layout="constrained", facecolor="#fcfcfa")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize="medium")
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", length=0)
    return figure, axes


def save(figure, file):
    figure.savefig(file, format="svg", metadata={"Date": None})


def curves(file, title, x_name, series, x_ticks, y_scale="linear"):
    """Writes a chart over a logarithmic axis; with y_scale "log" a power is a straight line, and its exponent the slope.
    series: {label: [(x, y), …]}"""
    figure, axes = new_figure(title, 4.2)
    for label, points in series.items():
        axes.plot(*zip(*points), marker="o", markersize=3, label=label)
    axes.set_xscale("log")
    if y_scale == "log":
        axes.set_yscale("log", subs=[])
        axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xticks(x_ticks, [f"{tick:,}" for tick in x_ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(x_name, loc="right")
    axes.grid(color="#e2e2de")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    save(figure, file)


def bars(file, title, values):
    """Writes horizontal bars, from the top down. values: [(label, value), …], of which some may be below 0."""
    figure, axes = new_figure(title, 0.6 + 0.26 * len(values))
    labels, heights = zip(*values[::-1])
    drawn = axes.barh(labels, heights, color=["#1668b5" if height >= 0 else "#c4441c" for height in heights])
    axes.bar_label(drawn, [f"{height:+.4f}" for height in heights], padding=4)
    axes.set_xticks([])
    axes.margins(x=0.15)
    save(figure, file)
