"""Line charts as SVG, without any package: what the scripts here draw for docs/images."""

import math
from html import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 420, 64, 64, 44  # pixels
COLOURS = ["#1668b5", "#c4441c", "#2a7d3f", "#7b4bb3", "#96690b", "#b0346f"]
GREY = "#666"


def text(x, y, what, anchor="start", colour=GREY):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(what)}</text>'


def polyline(points, style):
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" {style}/>'


def powers_of_ten(low, high):
    return [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def log_log(title, x_name, series, x_ticks):
    """Returns a chart whose axes are both logarithmic: a power is a straight line, and its exponent the slope.
    series: {label: [(x, y), …]}"""
    values = [y for points in series.values() for _, y in points]
    y_ticks = [m * p for p in powers_of_ten(min(values), max(values)) for m in (1, 2, 5)]
    y_ticks = [tick for tick in y_ticks if min(values) <= tick <= max(values)]
    return draw(title, x_name, series, x_ticks, y_ticks, math.log, min(values) / 1.15, max(values) * 1.15)


def lines(title, x_name, series, x_ticks):
    """Returns a chart of shares, 0 to 1, over a logarithmic axis. series: {label: [(x, y), …]}"""
    highest = max(1.0, *(y for points in series.values() for _, y in points))
    return draw(title, x_name, series, x_ticks, [0, 0.25, 0.5, 0.75, 1], float, -0.02, 1.04 * highest)


def draw(title, x_name, series, x_ticks, y_ticks, y_scale, lowest, highest):
    low, high = y_scale(lowest), y_scale(highest)
    first, last = math.log(min(x_ticks)), math.log(max(x_ticks))
    right = WIDTH - 24 - 7 * max(len(label) for label in series)

    def at(x, y):
        return (LEFT + (right - LEFT) * (math.log(x) - first) / (last - first),
                HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (y_scale(y) - low) / (high - low))

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="system-ui, sans-serif" font-size="13">',
           '<rect width="100%" height="100%" rx="6" fill="#fcfcfa"/>',
           text(LEFT, 24, title), text(right, HEIGHT - 8, x_name, "end")]
    for tick in y_ticks:
        y = at(x_ticks[0], tick)[1]  # of a line across
        svg += [polyline([(LEFT, y), (right, y)], 'stroke="#e2e2de"'), text(LEFT - 8, y + 4, f"{tick:,.5g}", "end")]
    for tick in x_ticks:
        svg.append(text(at(tick, highest)[0], HEIGHT - BOTTOM + 18, f"{tick:,}", "middle"))
    labels = []
    for (label, points), colour in zip(series.items(), COLOURS):
        places = [at(x, y) for x, y in points]
        svg.append(polyline(places, f'stroke="{colour}" stroke-width="2"'))
        svg += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        labels.append((places[-1][1], label, colour))
    below = HEIGHT
    for y, label, colour in sorted(labels, reverse=True):  # from the lowest one up, none over another
        below = min(below - 16, y + 4)
        svg.append(text(right + 10, below, label, "start", colour))
    return "\n".join([*svg, "</svg>"]) + "\n"


def bars(title, unit, values):
    """Returns horizontal bars, from the top down. values: [(label, value), …], of which some may be below 0."""
    row, left = 26, 24 + 7 * max(len(label) for label, _ in values)
    height = TOP + row * len(values) + BOTTOM - row
    lowest, highest = min(0.0, *(value for _, value in values)), max(0.0, *(value for _, value in values))
    scale = (WIDTH - 96 - left) / (highest - lowest)

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
           'font-family="system-ui, sans-serif" font-size="13">',
           '<rect width="100%" height="100%" rx="6" fill="#fcfcfa"/>', text(24, 24, f"{title} ({unit})")]
    zero = left - lowest * scale
    for number, (label, value) in enumerate(values):
        y = TOP + row * number
        colour = COLOURS[0] if value >= 0 else COLOURS[1]
        begin, width = zero + min(0.0, value * scale), abs(value * scale)
        svg += [text(left - 8, y + 4, label, "end"),
                f'<rect x="{begin:.1f}" y="{y - 8}" width="{width:.1f}" height="16" fill="{colour}"/>',
                text(begin + width + 6, y + 4, f"{value:+.4f}")]
    return "\n".join([*svg, "</svg>"]) + "\n"
