"""Axes: where a value lies, round numbers beside it, and how they are written."""
import math
from dataclasses import dataclass


@dataclass
class Axis:
    low: float
    high: float
    logarithmic: bool
    start: float  # pixels, where `low` lies
    end: float

    def place(self, value: float) -> float:
        value = max(value, self.low / 10) if self.logarithmic else value
        share = (math.log(value / self.low) / math.log(self.high / self.low) if self.logarithmic else
                 (value - self.low) / (self.high - self.low))
        return self.start + (self.end - self.start) * min(max(share, -1.0), 3.0)  # a curve may leave the picture

    def ticks(self, wanted: int) -> list[float]:
        if not self.logarithmic or self.high < 2.5 * self.low:
            return round_numbers(self.low, self.high, wanted)
        best: list[float] = []
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for spread in (1, 2, 3, 5, 10, 20, 50, 100, 200):  # of powers of ten, where there are many
            every = [10.0**e for e in range(first, last + 1) if e % spread == 0 and self.low <= 10.0**e <= self.high]
            if len(every) <= wanted:
                best = every
                break
        for digits in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 6, 8)):
            found = [d * 10.0**e for e in range(first, last + 1) for d in digits if self.low <= d * 10.0**e <= self.high]
            if len(found) <= wanted:
                best = found if len(found) > len(best) else best
        return best


def round_numbers(low: float, high: float, wanted: int) -> list[float]:
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / max(wanted, 1)))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= wanted)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [round(number * step, 12) if step > 1e-9 else number * step for number in numbers]


def value_axis(values: list[float], logarithmic: bool | None, start: float, end: float) -> Axis:
    """With a little room above and below. None: logarithmic where the values differ by more than a factor of 2.5."""
    finite = [value for value in values if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if logarithmic is None:
        logarithmic = low > 0 and high > 2.5 * low
    if logarithmic and positive:
        low, high = min(positive), max(positive)
        return Axis(low / 1.05, max(high * 1.05, low * 1.1), True, start, end)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return Axis(low if low == 0 else low - room, high + room, False, start, end)


def number_text(value: float) -> str:
    """Short, and never two numbers in one way: 0.002, 12,000, 1.5e-05, 3.2M."""
    size = abs(value)
    if value == 0:
        return "0"
    for limit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size >= limit * (1 - 1e-12) and size < 1e15:
            return f"{value / limit:.6g}{sign}"
    if size >= 1e15 or size < 1e-4:
        return f"{value:.4g}"
    return f"{value:,.10g}" if size >= 1000 else f"{value:.5g}"


def time_unit(seconds: float) -> tuple[float, str]:
    """By what to divide, and what that is called."""
    for least, size, name in ((2 * 86400, 86400.0, "days"), (2 * 3600, 3600.0, "hours"), (180, 60.0, "minutes")):
        if seconds >= least:
            return size, name
    return 1.0, "seconds"
