"""Programs on the GPU in software, for its tests."""
import json
import os
import socket
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


def environment(report, settings):
    return {**os.environ, "SOFTWARE_GPU_REPORT": str(report),
            **{f"SOFTWARE_GPU_{name}": str(value) for name, value in settings.items()}}


def run(program, *arguments, limit=600, **settings):
    """Runs one of our programs; each setting becomes SOFTWARE_GPU_…"""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        process = subprocess.run([RUN, BUILD / "bin" / program, *map(str, arguments)], env=environment(report, settings),
                                 text=True, capture_output=True, errors="replace", timeout=limit)
        return Ended(process, json.loads(report.read_text()) if report.exists() else None)


def start_ranks(count, folder, *arguments, of_rank=None, **settings):
    """Starts inkling-train as ranks with a GPU each; what rank 1 says is in the file said-1, its report in report-1.
    of_rank: more settings of some ranks' GPUs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(count):
        place = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
        variables = environment(folder / f"report-{rank}", {"COUNT": count, **settings, **(of_rank or {}).get(rank, {})})
        variables |= {name: str(value) for name, value in place.items()} | {"MASTER_ADDR": "127.0.0.1", "TMPDIR": str(folder)}
        with open(folder / f"said-{rank}", "w", encoding="utf-8") as said:
            processes.append(subprocess.Popen([RUN, BUILD / "bin/inkling-train", *map(str, arguments)], env=variables,
                                              stdout=said, stderr=said))
    return processes


def flags(settings):
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
