"""Programs on the GPU in software, for its tests."""
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "software_gpu"
RUN = ROOT / "tests/software_gpu/run"


class Ended:
    """How a program ended: exit code, what it printed, and what the GPU reports (a dict; see software_gpu.h)."""

    def __init__(self, process, report):
        self.code, self.out, self.err, self.report = process.returncode, process.stdout, process.stderr, report

    def waits(self):
        return sum(wait["count"] for wait in self.report["waits"])

    def launches(self):
        """Of kernels, directly or by a graph."""
        return self.report["launches"] + self.report["replayed"]


def run(program, *arguments, limit=600, **settings):
    """Runs one of our programs; each setting becomes SOFTWARE_GPU_…"""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment = {**os.environ, "SOFTWARE_GPU_REPORT": str(report),
                       **{f"SOFTWARE_GPU_{name}": str(value) for name, value in settings.items()}}
        process = subprocess.run([RUN, BUILD / "bin" / program, *map(str, arguments)], env=environment, text=True,
                                 capture_output=True, errors="replace", timeout=limit)
        return Ended(process, json.loads(report.read_text()) if report.exists() else None)


def flags(settings):
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
