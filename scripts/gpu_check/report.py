"""The Markdown report of gpu-check, from the files that the stages wrote; needs nothing but them."""
import json
from pathlib import Path

ORDER = ["smoke", "tests", "steps", "memory", "character", "decode", "peer", "recipe", "sanitizer", "ranks"]
FACTS = ["gpu", "cpu", "system", "libtorch", "commit", "packed", "date"]  # of a stage's first line
STATES = ["passed", "failed", "not run"]
ACCEPTED, REFUSED, EMULATED_ONLY = 0, 1, 10  # exit codes


class Read:
    """What the file of a stage says, and what is wrong with the file as a whole."""

    def __init__(self, path):
        self.header, self.results, self.wrong, self.seconds = {}, [], [], None
        if not path.is_file():
            self.wrong.append("did not run")
            return
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            try:
                self.take(json.loads(line))
            except ValueError:
                self.wrong.append(f"line {number} is not whole")
        if not self.header:
            self.wrong.append("does not say what it ran on")
        if self.seconds is None:
            self.wrong.append(f"was cut short after {len(self.results)} results")

    def take(self, entry):
        if "stage" in entry:
            self.header = entry
        elif "status" in entry:
            self.results.append(entry)
        elif entry.get("ended"):
            self.seconds = entry["seconds"]

    def count(self, status):
        return sum(result["status"] == status for result in self.results)

    def good(self):
        return not self.wrong and self.count("passed") == len(self.results) > 0


def table(heads, rows):
    def line(cells):
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(heads), "|" + "---|" * len(heads), *map(line, rows)]) + "\n"


def listed(counts):
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def finding(result):
    """What a result found, in a few words."""
    r = result
    if r["why"]:
        return r["why"]
    if "memory" in r:
        expected, held = r["memory"]["expected_bytes"] / 2**20, r["memory"]["held_bytes"] / 2**20
        return f"expected {expected:,.0f} MiB, reserved {held:,.0f} MiB"
    if "gpus" in r:
        return ", ".join(r["gpus"])
    if "tests" in r:
        return listed(r["tests"])
    if "versions" in r:
        return ", ".join(f"{who} {version}" for who, version in r["versions"].items())
    if "largest_difference" in r:
        return (f"largest difference {r['largest_difference']:.2e}, tolerance {r['tolerance']:g}; "
                f"loss {r['first']:.4f} to {r['last']:.4f}")
    if "best_loss" in r:
        return f"best validation loss {r['best_loss']:.4f}, training took {r['training_seconds']:.1f} s"
    if "bits_per_byte" in r:
        return f"{r['bits_per_byte']:.3f} bits per byte, training took {r['training_seconds']:.1f} s; {'; '.join(r['told'])}"
    if "waits" in r:
        return listed(r["waits"]) or "no call that waits"
    if "tokens_per_second" in r:
        return f"{r['tokens_per_second']:,.0f} tokens/s"
    if "same" in r:
        return "the same" if r["same"] else "different, which rounding may do"
    return ""


def measured(results):
    """A table of what was timed."""
    rows = []
    for name, m in ((result["name"], result["measured"]) for result in results if "measured" in result):
        beside = m.get("peer", "")
        if "share_of_bandwidth" in m:
            beside = f"{m['share_of_bandwidth']:.2f} of the memory's bandwidth"
        elif "gemm_ms" in m:
            beside = f"products alone {m['gemm_ms']:.2f} ms, {m['share_of_peak']:.2f} of the peak"
        form = " ".join(m[key] for key in ("kernels", "dtype") if key in m)
        times = [f"{m[key]:.3f}" for key in ("ms_median", "ms_p10", "ms_p90")]
        rows.append([name, form, *times, f"{m['tokens_per_second']:,.0f}", beside])
    return table(["", "", "ms, median", "p10", "p90", "tokens/s", ""], rows) if rows else ""


def section(name, stage):
    parts = [f"## {name}\n"] + [f"**FAILED**: the stage {problem}.\n" for problem in stage.wrong]
    if stage.results:
        rows = [[result["name"], result["status"] if result["status"] == "passed" else f"**{result['status'].upper()}**",
                 finding(result), f"{result['seconds']:.1f}"] for result in stage.results]
        parts.append(table(["", "", "found", "s"], rows))
    parts.append(measured(stage.results))
    for result in stage.results:
        heading = f"### {result['name']}\n\n"
        if result["log"]:
            parts.append(f"{heading}````\n{result['log'].strip()}\n````\n")
        if "table" in result:
            parts.append(f"{heading}{result['table'].strip()}\n")
        if result["name"] == "write fused-bfloat16" and "text" in result:
            parts.append(f"{heading}````\n{result['text'].strip()[:600]}\n````\n")
    return "\n".join(filter(None, parts))


def facts(stages):
    """Each fact once, or each of its values with the stages that it holds for."""
    lines = []
    for fact in FACTS:
        values = {}
        for name, stage in stages.items():
            if stage.header:
                values.setdefault(str(stage.header.get(fact)), []).append(name)
        for value, names in values.items():
            lines.append(f"- {fact}: {value}" + (f" ({', '.join(names)})" if len(values) > 1 else ""))
    return "\n".join(lines) + "\n"


def make(folder):
    """Returns the report and the exit code: 0 only where every stage passed on a GPU, so that nothing else is taken for it."""
    stages = {name: Read(Path(folder) / f"{name}.jsonl") for name in ORDER}
    headers = [stage.header for stage in stages.values() if stage.header]
    emulated = any(header.get("emulated", True) for header in headers)
    one_build = len({(header.get("commit"), header.get("packed")) for header in headers}) <= 1
    good = one_build and all(stage.good() for stage in stages.values())
    verdict = "PASSED." if good else "FAILED."
    if emulated:
        verdict = (f"EMULATED: {'all went as expected' if good else 'something FAILED'}, on the GPU in software. This says nothing of a "
                   "GPU: `runtime.kernels: auto` must not change by it.")
    rows = [[name, *map(stage.count, STATES), "" if stage.seconds is None else stage.seconds, "; ".join(stage.wrong)] for name, stage in stages.items()]
    parts = [f"# {'EMULATED ' if emulated else ''}GPU check\n", f"**{verdict}**\n", facts(stages),
             "" if one_build else "**FAILED**: the stages are of different builds.\n",
             table(["stage", *STATES, "s", ""], rows), *(section(name, stage) for name, stage in stages.items())]
    code = (EMULATED_ONLY if emulated else ACCEPTED) if good else REFUSED
    return "\n".join(filter(None, parts)), code
