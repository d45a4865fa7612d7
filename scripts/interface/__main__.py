"""Writes man pages and what bash, zsh and fish complete: python3 scripts/interface FOLDER SCHEMA INTERFACE...

SCHEMA is what `inkling-train --schema` prints, an INTERFACE what a program prints by --interface: both come from the
lists that parse flags and settings, so nothing is written down twice. FOLDER becomes a share/ folder.
"""

import json
import pathlib
import sys

import bash
import fish
import manual
import zsh
from program import Program, Setting


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    settings = Setting.all_of(json.loads(pathlib.Path(sys.argv[2]).read_text()))
    programs = [Program(json.loads(pathlib.Path(path).read_text())) for path in sorted(sys.argv[3:])]

    def write(name: str, text: str) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for program in programs:
        write(f"man/man1/{program.name}.1", manual.page_of(program, programs))
        # Both shells look for a file of the program's name. Each of these files knows all programs.
        write(f"bash-completion/completions/{program.name}", bash.completion(programs, settings))
        write(f"fish/vendor_completions.d/{program.name}.fish", fish.completion(program, settings))
    write("man/man5/inkling-config.5", manual.page_of_settings(settings, programs))
    # zsh looks into the first folder below /usr/local, and below /usr, on Debian and Ubuntu, into the second one alone.
    for place in ("site-functions", "vendor-completions"):
        write(f"zsh/{place}/_inkling", zsh.completion(programs, settings))


main()
