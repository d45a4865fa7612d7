"""An SVG as a PNG, by whichever of the usual programs is there."""
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reading import InputError

SCALE = 2  # pixels of the picture for one of the SVG, for screens that have as many


class NoConverter(Exception):
    """The machine has none of the programs."""


def commands(svg: Path, png: Path, width: int, height: int) -> list[list[str]]:
    """What would make the picture, the best first."""
    found = []
    if path := shutil.which("rsvg-convert"):
        found.append([path, "--zoom", str(SCALE), "--output", str(png), str(svg)])
    if importlib.util.find_spec("cairosvg"):
        found.append([sys.executable, "-m", "cairosvg", str(svg), "--scale", str(SCALE), "--output", str(png)])
    if path := shutil.which("inkscape"):
        found.append([path, str(svg), "--export-type=png", f"--export-filename={png}", f"--export-width={SCALE * width}"])
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            # No sandbox, because root has none: the page is our own, without scripts. The profile goes with the folder.
            found.append([path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                          f"--user-data-dir={png.parent / 'profile'}", f"--force-device-scale-factor={SCALE}",
                          "--default-background-color=00000000", f"--window-size={width},{height}",
                          f"--screenshot={png}", svg.as_uri()])
            break
    return found


def png_of(svg: str, width: int, height: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "plot.svg", Path(folder) / "plot.png"
        source.write_text(svg, encoding="utf-8")
        tried = commands(source, target, width, height)
        for command in tried:
            try:
                subprocess.run(command, capture_output=True, timeout=120, check=False)
            except (OSError, subprocess.TimeoutExpired):
                continue
            if target.is_file() and target.read_bytes().startswith(b"\x89PNG"):
                return target.read_bytes()
    remedy = "install one, such as librsvg2-bin (apt) or cairosvg (pip), or choose --out FILE.svg"
    if tried:
        raise NoConverter(f"{', '.join(Path(command[0]).name for command in tried)} failed to make a PNG; {remedy}")
    raise NoConverter(f"a PNG needs rsvg-convert, cairosvg, inkscape or chromium, and none is here; {remedy}")


def write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    new = path.with_name(f".{path.name}.tmp")
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror}") from error
