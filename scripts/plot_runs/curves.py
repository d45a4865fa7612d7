"""From a run's numbers to the curves of a panel: the x axis, smoothing, and what is left out where pixels are fewer."""
import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from reading import InputError, Run

MOST_POINTS = 1200  # of one line; a panel has fewer pixels across

TITLES = {"loss": "loss, nats per token", "learning_rate": "learning rate", "grad_norm": "gradient norm",
          "tokens_per_second": "tokens per second", "mfu": "model FLOP/s over the device's peak",
          "seconds": "seconds of training"}
SHORT_NAMES = {"lr": "learning_rate", "grad": "grad_norm", "norm": "grad_norm", "speed": "tokens_per_second",
               "throughput": "tokens_per_second"}
DEFAULT_METRICS = ["loss", "learning_rate", "grad_norm", "tokens_per_second"]
SPREAD = {"loss", "grad_norm"}  # a logarithmic axis where they differ by much, and another scale in the first steps
FIRST_STEPS = 0.03  # of all: there losses fall so far that of the others nothing would be left to see

Point = tuple[float, float]


@dataclass
class Curve:
    """One run in one panel. Points are (x, value) with x in steps, tokens or seconds."""
    run: Run
    index: int  # of the run
    raw: list[Point] = field(default_factory=list)
    smooth: list[Point] = field(default_factory=list)
    validation: list[Point] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)  # where a value was not finite

    def drawn(self, crowded: bool) -> list[list[Point]]:
        """The parts that are shown; in a crowd only the one that tells most."""
        if not crowded:
            return [self.raw, self.smooth, self.validation]
        return [next((part for part in (self.validation, self.smooth) if part), self.raw)]


class Clock:
    """The seconds of training until a step, between the lines of a log by proportion."""

    def __init__(self, run: Run):
        known = sorted((line["step"], line["seconds"]) for line in run.steps if math.isfinite(line.get("seconds", math.nan)))
        self.steps, self.seconds = [0] + [step for step, _ in known], [0.0] + [seconds for _, seconds in known]

    def at(self, step: int) -> float:
        after = min(bisect.bisect_left(self.steps, step), len(self.steps) - 1)
        before = max(after - 1, 0)
        span = self.steps[after] - self.steps[before]
        share = min((step - self.steps[before]) / span, 1.0) if span > 0 else 1.0
        return self.seconds[before] + share * (self.seconds[after] - self.seconds[before])


def x_function(run: Run, axis: str) -> Callable[[int], float]:
    """Where a step lies on the x axis."""
    if axis == "step":
        return float
    if axis == "tokens":
        if run.tokens_per_step is None:
            raise InputError(f"how many tokens a step of {run.folder!r} takes is not known: its config.yaml has no "
                             "training.batch_size and model.block_size; choose --x step")
        return lambda step: float(step * run.tokens_per_step)
    clock = Clock(run)
    if len(clock.steps) == 1:
        raise InputError(f"the log of {run.folder!r} has no seconds; choose --x step")
    return clock.at


def smoothed(points: list[Point], count: int) -> list[Point]:
    """The mean of `count` neighbours, of fewer where there are no more, and at the beginning, where losses fall fast;
    values that are not finite do not count."""
    finite = [point for point in points if math.isfinite(point[1])]
    sums = list(itertools.accumulate((value for _, value in finite), initial=0.0))
    result = []
    for i, (x, _) in enumerate(finite):
        reach = min(count // 2, i // 3)
        first, last = i - reach, min(i + reach + 1, len(finite))
        result.append((x, (sums[last] - sums[first]) / (last - first)))
    return result


def thinned(points: list[Point]) -> list[Point]:
    """At most MOST_POINTS points: the lowest and the highest of each group of neighbours, so that spikes stay."""
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(2 * len(points) / MOST_POINTS)
    result = []
    for i in range(0, len(points), size):
        group = [point for point in points[i:i + size] if math.isfinite(point[1])] or points[i:i + 1]
        low, high = min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])
        result += sorted({low, high})
    return result


def is_crowded(curves: list[Curve]) -> bool:
    return len(curves) > 4


def seen_values(curves: list[Curve], metric: str, whole: bool) -> list[float]:
    """What the axis is for."""
    points = [point for curve in curves for part in curve.drawn(is_crowded(curves)) for point in part if math.isfinite(point[1])]
    last = max((x for x, _ in points), default=0.0)
    later = [value for x, value in points if x > FIRST_STEPS * last]
    return later if metric in SPREAD and not whole and len(later) >= 20 else [value for _, value in points]


def make_curve(run: Run, index: int, metric: str, axis: str, smooth: int | None) -> Curve:
    x = x_function(run, axis)
    values = [(x(step), value) for step, value in run.points(metric)]
    count = smooth if smooth is not None else len(values) // 50
    curve = Curve(run, index, missing=[place for place, value in values if not math.isfinite(value)])
    curve.raw = thinned(values)
    curve.smooth = thinned(smoothed(values, count)) if count > 1 else []
    if metric == "loss":
        curve.validation = [(x(step), value) for step, value in run.points("val_loss") if math.isfinite(value)]
    return curve
