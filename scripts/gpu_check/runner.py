"""A stage of gpu-check: steps that run one after another until its time is over, each result written at once.

A result is one line of JSON in OUT/STAGE.jsonl: {"name", "status": "passed" | "failed" | "not run", "why", "log",
"seconds", and what was found}. The first line tells of the machine, the last one that the stage has ended: without it
the stage was cut short. Everything that programs printed is in OUT/printed.txt, in the order of their ends. These are few
files whatever happens, so that little has to be carried back.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

LOG_KEPT = 4000  # characters of a failure's output


class Failure(Exception):
    """What a step that failed has to say: one line, the end of what was printed, and what was found all the same."""

    def __init__(self, why, log="", **found):
        super().__init__(why)
        self.log, self.found = log[-LOG_KEPT:], found


class OutOfTime(Exception):
    pass


class Ended:
    """How a command ended. `why` is empty where it ended well."""

    def __init__(self, out, err, code, why):
        self.out, self.err, self.code, self.why = out, err, code, why
        self.log = (err + "\n" + out).strip()[-LOG_KEPT:]


class Stage:
    def __init__(self, name, folder, limit, machine, environment):
        self.name, self.environment = name, environment
        self.started = time.monotonic()
        self.deadline = self.started + limit
        self.counts = {"passed": 0, "failed": 0, "not run": 0}
        self.work = Path(tempfile.mkdtemp(prefix=f"gpu-check-{name}-"))
        self.environment["TMPDIR"] = str(self.work)
        self.file = open(Path(folder) / f"{name}.jsonl", "w", encoding="utf-8")
        self.printed = Path(folder) / "printed.txt"
        self.write({"stage": name, "limit": limit, **machine})

    def write(self, entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def end(self):
        self.write({"ended": True, "seconds": round(time.monotonic() - self.started, 1), **self.counts})

    def close(self):
        self.file.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def left(self):
        return self.deadline - time.monotonic()

    def step(self, name, action, *arguments, **named):
        """Runs action, which raises Failure or returns what it found (a dict, to be written; anything else is not), and
        writes the result. Returns that dict, or None where the step did not pass. Nothing that goes wrong in it reaches
        the next step."""
        started, found, why, log = time.monotonic(), {}, "", ""
        try:
            if self.left() <= 0:
                raise OutOfTime
            found, status = action(*arguments, **named), "passed"
        except OutOfTime:
            status, why = "not run", "out of time"
        except Failure as failure:
            status, why, log, found = "failed", str(failure), failure.log, failure.found
        except Exception as error:  # the script's own mistake, or an output that is not what it should be
            status, why, log = "failed", f"{type(error).__name__}: {error}", traceback.format_exc()[-LOG_KEPT:]
        self.counts[status] += 1
        found = found if isinstance(found, dict) else {}
        seconds = round(time.monotonic() - started, 2)
        self.write({"name": name, "status": status, "why": why, "log": log, "seconds": seconds, **found})
        reason = f" ({why})" if why else ""
        print(f"{self.name}: {name}: {status}{reason}, {seconds:.1f} s", file=sys.stderr, flush=True)
        return found if status == "passed" else None

    def execute(self, command, limit, quiet=None):
        """Runs a command in the stage's folder until it ends, has taken limit seconds, has printed nothing for quiet
        seconds, or the stage's time is over. Never raises for what the command does."""
        started = time.monotonic()
        out, err = self.work / ".out", self.work / ".err"
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            try:
                process = subprocess.Popen([str(part) for part in command], cwd=self.work, env=self.environment,
                                           stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file,
                                           preexec_fn=os.setpgrp)  # no new session: it would outlive this one
            except OSError as error:
                return Ended("", "", None, f"does not start: {error}")
            try:
                why = self.wait(process, started, min(limit, self.left()), quiet, (out, err))
            finally:
                end_group(process)
        if not why and process.returncode != 0:
            why = exit_reason(process.returncode)
        ended = Ended(out.read_text(errors="replace"), err.read_text(errors="replace"), process.returncode, why)
        with open(self.printed, "a", encoding="utf-8") as printed:
            line = " ".join(map(str, command))
            printed.write(f"==== {self.name}: {line}\n{ended.out}\n---- stderr\n{ended.err}\n---- {why or 'ended well'}\n")
        return ended

    def wait(self, process, started, limit, quiet, files):
        printed, since = 0, started
        while process.poll() is None:
            time.sleep(0.05)
            now = time.monotonic()
            size = sum(file.stat().st_size for file in files)
            if size != printed:
                printed, since = size, now
            if now - started > limit:
                over = ", as the stage's time is over" if self.left() <= 0 else ""
                return f"stopped after {now - started:.0f} s{over}"
            if quiet and now - since > quiet:
                return f"stopped, as it had printed nothing for {quiet:.0f} s"
        return ""

    def command(self, command, limit=120):
        """Runs a command that must end well; returns what it printed on stdout."""
        ended = self.execute(command, limit)
        if ended.why:
            last = (ended.err.strip().splitlines() or [""])[-1][:200]
            raise Failure(f"{ended.why}: {last}" if last else ended.why, ended.log)
        return ended.out


def exit_reason(code):
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def end_group(process):
    """Ends a command and what it started. One that hangs in the driver cannot be ended: it is left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pass
