"""Panels of curves as one SVG: light and dark, with a label at each curve's end, readable aloud."""
import math
from dataclasses import dataclass
from html import escape

from axes import Axis, number_text, time_unit, value_axis
from curves import SPREAD, TITLES, Curve, is_crowded, seen_values
from paper import COLOURS, DASHES, LINE, short, spread_out, style, text_width
from reading import Run

@dataclass
class Box:
    left: float
    top: float
    right: float
    bottom: float


@dataclass
class Label:
    value: float
    x: float  # where its curve ends
    text: str
    style: str  # the class of its colour


@dataclass
class Scale:
    logarithmic: bool | None  # None: where losses and norms differ by much
    whole: bool  # with the first steps


class Panel:
    """One metric of all runs."""

    def __init__(self, metric: str, curves: list[Curve], axis: str, scale: Scale):
        self.metric, self.curves, self.axis, self.out = metric, curves, axis, []
        self.alone = len({curve.run.folder for curve in curves}) == 1
        self.bounds = []
        if metric == "loss":
            self.bounds = sorted({round(c.run.best_possible, 4) for c in curves if c.run.best_possible is not None})
        self.logarithmic = scale.logarithmic if scale.logarithmic is not None or metric in SPREAD else False
        self.values = seen_values(curves, metric, scale.whole) + self.bounds
        self.title = TITLES.get(metric, metric.replace("_", " "))

    def labels(self) -> list[Label]:
        labels = [Label(bound, -math.inf, f"best possible {bound:.3f}", "quiet") for bound in self.bounds]
        for curve in self.curves:
            training = [point for point in curve.smooth or curve.raw if math.isfinite(point[1])]
            ends = [(curve.validation, "validation", 1)] if curve.validation else []
            if training and (self.alone or not ends):
                ends.append((training, "training" if self.metric == "loss" else "", 0))
            for points, kind, colour in ends:
                name = kind if self.alone else short(curve.run.name)
                index = colour if self.alone else curve.index
                value = f"{points[-1][1]:.3f}" if self.metric == "loss" else number_text(float(f"{points[-1][1]:.3g}"))
                labels.append(Label(points[-1][1], points[-1][0], f"{name} {value}".strip(), f"name{index % len(COLOURS['light'])}"))
        return labels

    def draw(self, box: Box, with_labels: bool) -> str:
        labels = self.labels()
        if with_labels and labels:
            right = box.right - 14 - max(text_width(label.text) for label in labels)
            right = max(right, (box.left + box.right) / 2)
        else:
            right = box.right - 12
        self.make_axes(box, right)
        title = self.title
        if not with_labels and self.alone and labels:
            title += f": {labels[-1].text} at the end"
        clip = f"clip-{self.metric}"
        self.out = ["<g>", self.text(box.left + 8, box.top + 18, title)]
        self.draw_axes()
        self.out.append(f'<clipPath id="{escape(clip)}"><rect x="{self.plot.left - 4:.1f}" y="{self.plot.top - 4:.1f}" '
                        f'width="{self.plot.right - self.plot.left + 8:.1f}" '
                        f'height="{self.plot.bottom - self.plot.top + 8:.1f}"/></clipPath><g clip-path="url(#{escape(clip)})">')
        for curve in self.curves:
            self.draw_curve(curve)
        self.out.append("</g>")
        self.draw_marks()
        if with_labels:
            self.draw_labels(labels)
        return "\n".join(self.out + ["</g>"])

    def make_axes(self, box: Box, right: float) -> None:
        top, bottom = box.top + 30, box.bottom - 40
        self.y = value_axis(self.values, self.logarithmic, bottom, top)
        self.y_ticks = self.y.ticks(max(2, int((bottom - top) / 30)))
        left = box.left + 16 + max([40.0] + [text_width(number_text(tick)) for tick in self.y_ticks])
        self.plot = Box(left, top, max(right, left + 60), bottom)
        xs = [x for c in self.curves for x, _ in c.raw + c.validation]
        self.x = Axis(0.0, max(xs, default=0.0) or 1.0, False, self.plot.left, self.plot.right)

    def text(self, x: float, y: float, what: str, kind: str = "", anchor: str = "start") -> str:
        extra = f' class="{kind}"' if kind else ""
        extra += f' text-anchor="{anchor}"' if anchor != "start" else ""
        return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{escape(what)}</text>'

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'

    def draw_axes(self) -> None:
        plot = self.plot
        for tick in self.y_ticks:
            y = self.y.place(tick)
            self.out += [self.line(plot.left, y, plot.right, y, "grid"),
                         self.text(plot.left - 8, y + 4, number_text(tick), "quiet", "end")]
        unit, name = (1.0, self.axis) if self.axis != "time" else time_unit(self.x.high)
        scaled = Axis(0.0, self.x.high / unit, False, plot.left, plot.right)
        ticks = [tick for tick in scaled.ticks(max(2, int((plot.right - plot.left) / 90))) if self.axis == "time" or tick % 1 == 0]
        for tick in ticks:
            words = number_text(tick)
            at = min(scaled.place(tick), plot.right + 10 - text_width(words) / 2)
            self.out.append(self.text(at, plot.bottom + 18, words, "quiet", "middle"))
        self.out.append(self.text(plot.right, plot.bottom + 34, name, "quiet", "end"))

    def path(self, points: list[tuple[float, float]], kind: str, dash: str) -> str:
        """Broken where a value is not finite."""
        words, pen = [], "M"
        for x, value in points:
            if not math.isfinite(value):
                pen = "M"
                continue
            words.append(f"{pen}{self.x.place(x):.1f} {self.y.place(value):.1f}")
            pen = "L"
        if len(words) == 1:
            words.append("h0")  # with round ends: so that a single point shows
            kind = kind.replace("raw", "") + " point"
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<path d="{"".join(words)}" class="{kind}" stroke-linecap="round" stroke-linejoin="round"{extra}/>' if words else ""

    def draw_curve(self, curve: Curve) -> None:
        count = len(COLOURS["light"])
        colour, dash = curve.index % count, DASHES[curve.index // count % len(DASHES)]
        crowded = is_crowded(self.curves)
        drawn = curve.drawn(crowded)
        self.out.append(f'<g><title>{escape(curve.run.name)}</title>')
        if curve.raw in drawn:
            faint = curve.smooth or (curve.validation and not self.alone)
            self.out.append(self.path(curve.raw, f"line{colour} {'raw' if faint else 'smooth'}", dash))
        if curve.smooth in drawn:
            self.out.append(self.path(curve.smooth, f"line{colour} smooth", dash))
        if curve.validation:
            own = 1 if self.alone else colour
            self.out.append(self.path(curve.validation, f"line{own} validation", dash))
            shown = curve.validation if len(curve.validation) <= 60 else curve.validation[-1:]
            for x, value in shown:
                self.out.append(f'<circle cx="{self.x.place(x):.1f}" cy="{self.y.place(value):.1f}" r="{2 if crowded else 3}" '
                                f'class="dot{own}"><title>{escape(curve.run.name)}, {self.axis} {number_text(x)}: {value:.4f}</title></circle>')
        self.out.append("</g>")

    def draw_marks(self) -> None:
        """The best possible losses, values that were not finite, and what a single run's events say."""
        plot = self.plot
        for bound in self.bounds:
            self.out.append(self.line(plot.left, self.y.place(bound), plot.right, self.y.place(bound), "bound"))
        for curve in self.curves:
            for x in curve.missing[:: max(1, len(curve.missing) // 50)]:
                at, top = self.x.place(x), plot.top + 6
                self.out.append(f'<path d="M{at - 4:.1f} {top - 4:.1f}l8 8m0-8l-8 8" class="line{curve.index % len(COLOURS["light"])}">'
                                f'<title>{escape(curve.run.name)}: not finite</title></path>')
        if self.metric == "loss" and self.alone and self.axis == "step":
            top = plot.top + (28 if self.curves[0].missing else 12)
            for i, (step, what) in enumerate(events_of(self.curves[0].run)):
                at = self.x.place(step)
                anchor = "start" if at < (plot.left + plot.right) / 2 else "end"
                self.out += [self.line(at, plot.top, at, plot.bottom, "mark"),
                             self.text(at + (4 if anchor == "start" else -4), top + LINE * i, what, "quiet", anchor)]

    def draw_labels(self, labels: list[Label]) -> None:
        labels = sorted(labels, key=lambda label: -label.value)
        wanted = [self.y.place(label.value) for label in labels]
        for label, place, y in zip(labels, wanted, spread_out(wanted, self.plot.top, self.plot.bottom)):
            end = self.x.place(label.x) if math.isfinite(label.x) else self.plot.right
            if len(labels) <= 6 and self.plot.right - end > 8:
                self.out.append(self.line(end + 6, place, self.plot.right, place, "mark"))
            if len(labels) <= 6 and abs(y - place) > 5:
                self.out.append(self.line(self.plot.right + 1, place, self.plot.right + 8, y, "quiet-line"))
            self.out.append(self.text(self.plot.right + 10, y + 4, label.text, label.style))


def events_of(run: Run) -> list[tuple[int, str]]:
    found = []
    for event in run.events:
        since = event.get("since")
        if event.get("event") == "overfitting" and isinstance(since, int):
            found.append((since, f"overfitting since {since:,}"))
        elif event.get("event") == "stopped_early":
            found.append((event["step"], "stopped early"))
    return found


def describe(run: Run) -> str:
    """The picture in a sentence, for who hears it."""
    parts = []
    training = [point for point in run.points("loss") if math.isfinite(point[1])]
    if training:
        (first, high), (last, low) = training[0], training[-1]
        parts.append(f"training loss {high:.3f} at step {first}, {low:.3f} at step {last}")
    validation = [(value, step) for step, value in run.points("val_loss") if math.isfinite(value)]
    if validation:
        parts.append(f"lowest validation loss {min(validation)[0]:.3f} at step {min(validation)[1]}")
    if run.best_possible is not None:
        parts.append(f"best possible {run.best_possible:.3f}")
    return f"{run.name}: " + (", ".join(parts) or "no finite loss") + "."


def layout(count: int, runs: int, width: float) -> tuple[list[Box], float]:
    """The first panel across, the others in a row of at most three below it."""
    tall = max(400 if count == 1 else 340, LINE * (runs + 1) + 80)
    boxes, below, top = [Box(0, 6, width, tall)], count - 1, tall
    while below > 0:
        across = min(below, 3) if below != 4 else 2
        boxes += [Box(width * i / across, top + 6, width * (i + 1) / across, top + 216) for i in range(across)]
        top, below = top + 216, below - across
    return boxes, top


def draw(panels: list[Panel], runs: list[Run], theme: str) -> str:
    width = 900
    boxes, height = layout(len(panels), len(runs), width)
    title = " and ".join([", ".join(panel.title for panel in panels[:-1])] * (len(panels) > 1) + [panels[-1].title])
    names = ", ".join(run.name for run in runs)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" viewBox="0 0 {width} {height:.0f}" '
           'role="img" aria-labelledby="plot-title plot-desc">',
           f'<title id="plot-title">{escape(names)}: {escape(title)}</title>',
           f'<desc id="plot-desc">{escape(" ".join(describe(run) for run in runs))}</desc>',
           f"<style>{style(theme)}</style>", '<rect width="100%" height="100%" rx="6" class="paper"/>']
    out += [panel.draw(box, i == 0) for i, (panel, box) in enumerate(zip(panels, boxes))]
    return "\n".join(out + ["</svg>"]) + "\n"
