"""--help, man pages and completion say the same; mandoc takes the pages, and bash, zsh and fish complete with what is written."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("INKLING_BUILD", ROOT / "build"))
PROGRAMS = [json.loads(path.read_text()) for path in sorted((BUILD / "interface").glob("*.json"))]
# mandoc looks for the pages that a page refers to among the installed ones, and has rules of its own for .Os and long lines.
NOT_OURS = re.compile("operating system explicitly specified|referenced manual not found|longer than 80 bytes")
# How each shell, asked like a person's, answers with what it would complete: the line is $1.
SHELLS = {
    "bash": ["bash", "-c", 'source "$0/bash-completion/completions/inkling-train"; COMP_LINE=$1 COMP_POINT=${#1}; '
             '_inkling "${1%% *}"; printf "%s\\n" "${COMPREPLY[@]}"'],
    "zsh": ["zsh", "-fc", 'service=${1%% *}; words=(${=1}); [[ $1 == *" " ]] && words+=(""); CURRENT=$#words; PREFIX=$words[-1]; '
            'compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@ }; '
            'fpath=($0/zsh/site-functions); autoload -U _inkling; _inkling'],
    "fish": ["fish", "--no-config", "-c", 'set fish_complete_path $argv[1]/fish/vendor_completions.d; complete -C$argv[2]'],
}


def output_of(*command, **more) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **more).stdout


class Interface(unittest.TestCase):
    def test_every_program_is_here_and_its_help_fits_a_screen(self):
        programs = [path.name for path in sorted((BUILD / "bin").glob("inkling-*")) if path.name != "inkling-launch"]
        self.assertEqual(programs, [program["program"] for program in PROGRAMS])
        for name in programs:
            lines = output_of(BUILD / "bin" / name, "--help").splitlines()
            self.assertLessEqual((len(lines), max(map(len, lines))), (40, 80), name)

    def test_every_flag_and_setting_has_its_entry_in_pages_of_which_mandoc_warns_of_nothing(self):
        sections = json.loads((BUILD / "share/inkling/config.schema.json").read_text())["properties"]
        wanted = {program["program"] + ".1": [option["name"] for option in program["options"]] for program in PROGRAMS}
        wanted["inkling-config.5"] = [name for section in sections.values() for name, about in section["properties"].items()
                                      if not about.get("deprecated")] + list(sections)
        self.assertEqual({path.name for path in (BUILD / "share/man").glob("*/*")}, wanted.keys())
        for name, entries in wanted.items():
            page = BUILD / f"share/man/man{name[-1]}/{name}"
            text = re.sub(".\b", "", output_of("mandoc", "-Tutf8", page))
            for entry in entries:
                self.assertTrue(re.search(rf"(?m)^ +(\w+\.)?{re.escape(entry)}\b", text), f"{name}: {entry}")
            said = subprocess.run(["mandoc", "-Tlint", page], capture_output=True, text=True, check=False).stdout
            self.assertEqual([line for line in said.splitlines() if not NOT_OURS.search(line)], [])

    def test_every_shell_completes_flags_values_settings_runs_and_configs(self):
        lines = {"inkling-train --se": "--set --settings", "inkling-sample runs/tale --dtype ": "auto float32 bfloat16",
                 "inkling-sample runs/tale --checkpoint=b": "--checkpoint=best", "inkling-sample runs/tale --seed ": "",
                 "inkling-train mine.yaml --set model.norm": "model.norm= model.norm_epsilon= model.norm_weights=",
                 "inkling-train mine.yaml --set model.norm=": "model.norm=layernorm model.norm=rmsnorm",
                 "inkling-train mine.yaml --set=runtime.device=cu": "--set=runtime.device=cuda",
                 "inkling-train mine.yaml --set data.source=no": "data.source=notes.txt",
                 "inkling-sample ": "runs/saga runs/tale", "inkling-eval elsewhere/": "elsewhere/run/", "inkling-train mi": "mine.yaml",
                 "inkling-train books/": "", "inkling-sample runs/tale --prompt-file n": "notes.txt", "inkling-train --out b": "books/"}
        for program in PROGRAMS:
            lines[program["program"] + " --"] = " ".join(re.findall("--[a-z0-9-]+", " ".join(o["name"] for o in program["options"])))
        path = f"{BUILD / 'bin'}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder:
            for name in ("mine.yaml", "notes.txt", "books/b.txt", "runs/tale/config.yaml", "runs/saga/config.yaml", "elsewhere/run/a"):
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text("")
            for shell, command in SHELLS.items():
                for line, words in lines.items():
                    said = output_of(*command, BUILD / "share", line, cwd=folder, env=os.environ | {"PATH": path})
                    found = {word.split("\t")[0] for word in said.split("\n")} - {""}
                    kept = line.split(" ")[-1].rpartition("=")
                    found = {kept[0] + kept[1] + word for word in found} if shell == "bash" else found
                    self.assertEqual(found, set(words.split()), f"{shell}: {line}")


if __name__ == "__main__":
    if subprocess.run([ROOT / "scripts/os-packages", "mandoc", "bash", "zsh", "fish"], check=False).returncode != 0:
        print("skipped: mandoc, zsh and fish cannot be installed here")
        sys.exit(3)
    unittest.main()
