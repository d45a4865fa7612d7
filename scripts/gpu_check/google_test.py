"""Runs chosen tests of a GoogleTest program so that no test hides another: where one ends or hangs the program, or leaves
a GPU on which every later call fails, the tests behind it run in a new process."""
import re
import time

from .runner import LOG_KEPT

QUIET = 120  # seconds without a line of output, after which a test counts as hanging
POISONED = re.compile(r"CUDA (driver )?error|cudaError|Which is: 7\d\d$|illegal memory access|launch failure|device-side assert", re.MULTILINE)


def read_results(text):
    """The tests in a program's output, in order: (name, "passed", "failed", "skipped" or None, what it printed). A test
    that did not end has None."""
    results, name, printed = [], None, []
    for line in text.splitlines():
        begin = re.match(r"\[ RUN      \] (\S+)", line)
        end = re.match(r"\[ +(OK|FAILED|SKIPPED) +\] ([^ ,]+)", line)
        if begin:
            name, printed = begin.group(1), []
        elif end and end.group(2) == name:
            status = {"OK": "passed"}.get(end.group(1), end.group(1).lower())
            results.append((name, status, "\n".join(printed).strip()))
            name = None
        elif name:
            printed.append(line)
    return results + ([(name, None, "\n".join(printed).strip())] if name else [])


def run_tests(stage, program, names, before=(), limit=None):
    """Runs the tests of these names, `before` being the command that the program runs under, within `limit` seconds, or as
    many as the stage has left. Returns name -> (status, what was printed), where the status may also be "not run", and what
    went wrong outside the tests."""
    results, outside, waiting = {}, [], list(names)
    deadline = time.monotonic() + min(limit or stage.left(), stage.left())
    while waiting and time.monotonic() < deadline:
        selection = stage.work / "selection"
        selection.write_text(f"--gtest_filter={':'.join(waiting)}\n")
        ended = stage.execute([*before, program, f"--gtest_flagfile={selection}"], deadline - time.monotonic(), QUIET)
        found = [result for result in read_results(ended.out) if result[0] in waiting]
        for name, status, printed in found:
            if status is None:
                status, printed = "failed", f"{ended.why or 'no end'} in this test\n{printed}\n{ended.err}"
            results[name] = (status, printed)
            if status == "failed" and POISONED.search(printed):
                break  # what failed after it says nothing
        if ended.why and not any(status in ("failed", None) for _, status, _ in found):
            outside.append(f"{ended.why}\n{ended.log[-LOG_KEPT // 2:]}")
        if not found:
            break
        waiting = [name for name in waiting if name not in results]
    for name in waiting:
        results[name] = ("not run", "out of time" if time.monotonic() >= deadline else "the program did not run it")
    return results, outside
