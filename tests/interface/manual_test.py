"""What --help, the manual pages and the flags say is the same, fits a screen, and is what mandoc takes without a warning."""
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
PAGES = sorted((BUILD / "share/man").glob("man*/*"))
PROGRAMS = [json.loads(path.read_text()) for path in sorted((BUILD / "interface").glob("*.json"))]
# mandoc looks for the pages that a page refers to among the installed ones, and names NetBSD's rule for .Os.
NOT_OURS = re.compile("operating system explicitly specified|referenced manual not found")


def output_of(*command: str | Path) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def text_of(page: Path) -> str:
    return re.sub(".\b", "", output_of("mandoc", "-Tutf8", "-Owidth=100", page))


class Manual(unittest.TestCase):
    def test_every_program_is_here(self):
        programs = [path.name for path in sorted((BUILD / "bin").glob("inkling-*")) if path.name != "inkling-launch"]
        self.assertEqual(programs, [interface["program"] for interface in PROGRAMS])
        self.assertEqual([page.name for page in PAGES], [name + ".1" for name in programs] + ["inkling-config.5"])

    def test_help_fits_a_screen(self):
        for interface in PROGRAMS:
            lines = output_of(BUILD / "bin" / interface["program"], "--help").splitlines()
            self.assertLessEqual(len(lines), 40, interface["program"])
            for line in lines:
                self.assertLessEqual(len(line), 80, line)

    def test_mandoc_warns_of_nothing(self):
        for page in PAGES:
            said = subprocess.run(["mandoc", "-Tlint", page], capture_output=True, text=True, check=False).stdout
            self.assertEqual([line for line in said.splitlines() if not NOT_OURS.search(line)], [])

    def test_every_flag_has_its_entry(self):
        for interface in PROGRAMS:
            text = text_of(BUILD / "share/man/man1" / (interface["program"] + ".1"))
            for option in interface["options"]:
                self.assertRegex(text, rf"(?m)^ +{re.escape(option['name'])}\b")
                self.assertIn(option["about"].split(" ")[-1], text)

    def test_every_setting_has_its_entry(self):
        text = text_of(BUILD / "share/man/man5/inkling-config.5")
        sections = json.loads((BUILD / "share/inkling/config.schema.json").read_text())["properties"]
        for name, section in sections.items():
            self.assertRegex(text, rf"(?m)^ +{name}$")
            for setting, schema in section["properties"].items():
                if not schema.get("deprecated") and "properties" not in schema:
                    self.assertRegex(text, rf"(?m)^ +{setting}\b")

    def test_pages_and_completion_are_the_same_each_time_they_are_made(self):
        made = []
        for seed in ("1", "2"):  # of Python's sets
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([sys.executable, "-B", ROOT / "scripts/interface", folder, BUILD / "share/inkling/config.schema.json",
                                *(BUILD / "interface").glob("*.json")], check=True,
                               env={**os.environ, "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": "0"})
                made.append({path.relative_to(folder): path.read_text() for path in Path(folder).rglob("*") if path.is_file()})
        self.assertEqual(made[0].keys(), made[1].keys())
        self.assertEqual([str(path) for path in made[0] if made[0][path] != made[1][path]], [])


if __name__ == "__main__":
    if subprocess.run([ROOT / "scripts/os-packages", "mandoc"], check=False).returncode != 0:
        print("skipped: mandoc cannot be installed here")
        sys.exit(3)
    unittest.main()
