"""Colours, dashes and letters: how a picture looks in light and dark, and how much room its words take."""
import unicodedata

LINE = 16  # pixels between two labels
DASHES = ["", "7 3", "2 3", "9 3 2 3"]  # once all colours are taken
# Told apart with every kind of colour blindness (Machado et al. 2009: at least 25 of CIE76 between any two), and 3 to 1
# or more against the background.
COLOURS = {"light": ["#0a5fa8", "#c8440e", "#ce7596", "#1c3145", "#7309ee", "#682d25"],
           "dark": ["#5aa9f0", "#f0793f", "#cc7f9c", "#ecd4c0", "#9848f1", "#9cf41f"]}
PAPER = {"light": ("#fcfcfa", "#24292f", "#5c6166", "#e4e4e0"), "dark": ("#16191d", "#e6e6e3", "#a2a7ad", "#2e3338")}


def rules(theme: str) -> str:
    paper, ink, quiet, grid = PAPER[theme]
    lines = [f".paper{{fill:{paper}}}text{{fill:{ink}}}.quiet{{fill:{quiet}}}"
             f".grid{{stroke:{grid}}}.bound,.mark,.quiet-line{{stroke:{quiet}}}"]
    for i, colour in enumerate(COLOURS[theme]):
        lines.append(f".line{i}{{stroke:{colour}}}.dot{i}{{fill:{colour}}}.name{i}{{fill:{colour}}}")
    return "".join(lines)


def style(theme: str) -> str:
    fixed = ("text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',Arial,sans-serif}"
             "path,line{fill:none}.raw{stroke-width:1;stroke-opacity:.35}.smooth{stroke-width:1.6}"
             ".validation{stroke-width:2}.point{stroke-width:5}"
             ".bound{stroke-dasharray:6 4}.mark{stroke-dasharray:1 3}")
    if theme == "auto":
        return fixed + rules("light") + "@media(prefers-color-scheme:dark){" + rules("dark") + "}"
    return fixed + rules(theme)


def text_width(text: str) -> float:
    """An estimate on the wide side: every machine has another font."""
    return sum(14 if unicodedata.east_asian_width(c) in "WF" else 7.6 for c in text)


def short(name: str, most: int = 34) -> str:
    """Beginning and end of a long name: both tell runs apart."""
    return name if len(name) <= most else name[:most // 2 - 1] + "…" + name[-(most // 2):]


def spread_out(wanted: list[float], low: float, high: float) -> list[float]:
    """Places near those wanted (ascending), LINE apart and between low and high as far as there is room."""
    step = min(LINE, (high - low) / max(len(wanted) - 1, 1))
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + step if places else low))
    limit = high
    for i in reversed(range(len(places))):
        places[i] = min(places[i], limit)
        limit = places[i] - step
    return places
