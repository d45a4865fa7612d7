#!/usr/bin/env python3
"""What scripts/gpu-check does with programs that fail, hang, die and lie; none of ours is needed for it."""
import collections
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import google_test, places, report, runner, runs, stages  # noqa: E402
from gpu_check.runner import Failure, Stage  # noqa: E402

# A program with GoogleTest's ways: runs the tests of the filter in its flag file, each as MODES says.
FAKE_TESTS = """#!/usr/bin/env python3
import os, sys
modes, broken = {modes!r}, False
flags = open(sys.argv[-1].split("=", 1)[1]).read()
for name in flags.strip().split("=", 1)[1].split(":"):
    mode = modes.get(name, "OK")
    print("[ RUN      ]", name, flush=True)
    if mode == "dies":
        os.abort()
    if mode == "hangs":
        import time
        open({hanging!r}, "w").close()
        time.sleep(100000)
    if mode == "SKIPPED":
        print("no usable NVIDIA GPU")
    broken = broken or mode == "poisons"
    if broken:
        print("CUDA error: an illegal memory access was encountered")
    if mode == "FAILED":
        print("Expected equality of these values")
    print("[ " + ("FAILED " if broken or mode == "FAILED" else mode.rjust(7)) + " ]", name + " (3 ms)", flush=True)
print("[  FAILED  ] a list of those that failed")
sys.exit({code})
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def enterContext(self, context):  # Python 3.10 has none
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def is_running(self, process):
        try:
            return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
        except OSError:
            return False

    def stage(self, limit=300, name="smoke", **about):
        stage = Stage(name, self.folder, limit, {"emulated": False, "commit": "c", "packed": "p", **about},
                      dict(os.environ))
        self.addCleanup(stage.close)
        return stage

    def hours_pass_once(self, happened):
        """The clock of the stages goes on by hours once `happened` has said so and the stage has looked at what was
        printed: nothing here waits for real time."""
        real, seen = time.monotonic, []

        def clock():
            if len(seen) < 2 and happened():
                seen.append(True)
            return real() + (10000 if len(seen) == 2 else 0)

        self.enterContext(mock.patch.object(runner.time, "monotonic", clock))

    def results(self, name="smoke"):
        return [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]

    def program(self, modes, code=0):
        path = self.folder / "test_fake"
        path.write_text(FAKE_TESTS.format(modes=modes, code=code, hanging=str(self.folder / "hanging")))
        path.chmod(0o755)
        return path


class Steps(GpuCheck):
    def test_a_failure_hides_nothing_behind_it(self):
        stage = self.stage()
        stage.step("fails", stage.command, ["sh", "-c", "echo noise; echo the reason >&2; exit 1"])
        stage.step("does not start", stage.command, ["/no/such/program"])
        stage.step("dies", stage.command, ["sh", "-c", "echo last words; kill -SEGV $$"])
        stage.step("a mistake of ours", lambda: {}["missing"])
        stage.step("hangs", stage.command, ["sleep", "100000"], 0.2)
        self.assertEqual(stage.step("works", lambda: {"found": 1}), {"found": 1})
        states = {result["name"]: (result["status"], result["why"]) for result in self.results()[1:]}
        self.assertEqual(states["fails"], ("failed", "exit code 1: the reason"))
        self.assertIn("does not start", states["does not start"][1])
        self.assertEqual(states["dies"], ("failed", "ended by SIGSEGV"))
        self.assertIn("KeyError", states["a mistake of ours"][1])
        self.assertIn("stopped after", states["hangs"][1])
        self.assertEqual(states["works"], ("passed", ""))
        self.assertIn("last words", self.results()[3]["log"])

    def test_what_the_time_does_not_suffice_for_is_said(self):
        stage = self.stage(limit=0)
        stage.step("late", self.fail)
        self.assertEqual([(r["status"], r["why"]) for r in self.results()[1:]], [("not run", "out of time")])

    def test_a_command_is_ended_with_what_it_started(self):
        stage = self.stage(limit=100000)
        out = stage.work / ".out"
        self.hours_pass_once(lambda: out.exists() and out.read_text().endswith("\n"))
        ended = stage.execute(["sh", "-c", "sleep 100000 & echo $!; wait"], 100000, quiet=100)
        self.assertIn("printed nothing", ended.why)
        while self.is_running(int(ended.out)):  # it has been killed, and ends when the system comes to it
            time.sleep(0.01)

    def test_a_result_is_in_the_file_before_the_next_step(self):
        stage = self.stage()
        stage.step("first", lambda: {})
        stage.step("second", lambda: self.assertEqual(self.results()[-1]["name"], "first"))
        self.assertEqual(self.results()[-1]["status"], "passed")


class Tests(GpuCheck):
    def run_tests(self, modes, code=0, limit=300):
        return google_test.run_tests(self.stage(limit), self.program(modes, code), ["A.a", "A.b", "A.c", "A.d"])

    def states(self, results):
        return [status for status, _ in results.values()]

    def test_tests_behind_one_that_dies_run(self):
        results, outside = self.run_tests({"A.b": "dies"})
        self.assertEqual(self.states(results), ["passed", "failed", "passed", "passed"])
        self.assertIn("SIGABRT", results["A.b"][1])
        self.assertEqual(outside, [])

    def test_tests_behind_one_that_hangs_run(self):
        self.hours_pass_once((self.folder / "hanging").exists)
        results, _ = self.run_tests({"A.b": "hangs"}, limit=100000)
        self.assertIn("printed nothing", results["A.b"][1])
        self.assertEqual(self.states(results), ["passed", "failed", "passed", "passed"])

    def test_tests_behind_one_that_spoils_the_gpu_are_not_blamed(self):
        results, _ = self.run_tests({"A.b": "poisons"})
        self.assertEqual(self.states(results), ["passed", "failed", "passed", "passed"])

    def test_a_program_that_is_none_of_ours_runs_nothing(self):
        results, outside = google_test.run_tests(self.stage(), "/bin/false", ["A.a", "A.b"])
        self.assertEqual(self.states(results), ["not run", "not run"])
        self.assertIn("exit code 1", outside[0])

    def test_a_failure_after_the_last_test_counts(self):
        results, outside = self.run_tests({}, code=9)
        self.assertEqual(self.states(results), ["passed"] * 4)
        self.assertIn("exit code 9", outside[0])

    def check(self, modes):
        program = self.program(modes)
        with mock.patch.object(stages, "PROGRAMS", program.parent):
            return stages.run_labelled_cuda(self.stage(), program.name, ["A.a", "A.b"], collections.Counter())

    def test_on_a_gpu_a_skipped_test_is_a_failure(self):
        with mock.patch.object(stages, "EMULATED", False):
            self.assertEqual(dict(self.check({})["tests"]), {"passed": 2})
            for other in ("SKIPPED", "FAILED", "dies"):
                with self.assertRaisesRegex(Failure, "1 of 2"):
                    self.check({"A.a": other})

    def test_emulated_the_first_of_each_suite_runs(self):
        with mock.patch.object(stages, "EMULATED", True):
            self.assertEqual(dict(self.check({"A.b": "FAILED"})["tests"]), {"passed": 1})
            with self.assertRaisesRegex(Failure, "1 of 1"):
                self.check({"A.a": "FAILED"})

    def test_no_test_at_all_is_a_failure(self):
        with self.assertRaises(Failure):
            stages.some_ran(collections.Counter())


class Surroundings(GpuCheck):
    def test_another_libtorch_is_named(self):
        with mock.patch.object(places, "description", lambda: {"libtorch": "2.10.0+cu128"}), \
             mock.patch.object(places, "linked_torch_version", lambda _: "2.11.0+cu130"):
            with self.assertRaisesRegex(Failure, r"built against LibTorch 2.10.0\+cu128; the loader finds 2.11.0\+cu13"):
                stages.compare_versions(self.stage())

    def test_a_library_that_does_not_load_says_why(self):
        with self.assertRaisesRegex(Failure, "libnone.so is not loaded: .*cannot open shared object file"):
            stages.load(self.stage(), "libnone.so")

    def test_a_missing_text_is_a_failure(self):
        with mock.patch.object(runs, "text_for_tests", lambda: None), self.assertRaisesRegex(Failure, "is missing"):
            runs.find_text()

    def test_losses_that_are_no_numbers_are_a_failure(self):
        good, bad = {"losses": [1.0, 2.0]}, {"losses": [1.0, float("nan")]}
        self.assertEqual(runs.compare_losses({"cpu": good, "x": good}, "x", 1e-3)["largest_difference"], 0)
        for other in (bad, {"losses": [1.0]}, {"losses": [1.0, 2.1]}, None):
            with self.assertRaises(Failure):
                runs.compare_losses({"cpu": good, "x": other}, "x", 1e-3)


class Report(GpuCheck):
    def write(self, **changes):
        """Files of all stages, each with one result; a change names a stage and what its header has instead."""
        for name in report.ORDER:
            stage = self.stage(name=name, **changes.get(name, {}))
            stage.step("a result", lambda: {})
            stage.end()
            stage.close()

    def code(self):
        return report.make(self.folder)[1]

    def test_only_a_gpu_is_accepted(self):
        self.write()
        self.assertEqual(self.code(), 0)
        self.write(tests={"emulated": True})
        text, code = report.make(self.folder)
        self.assertEqual(code, 10)
        self.assertTrue(text.startswith("# EMULATED GPU check\n\n**EMULATED: "))

    def test_a_stage_that_is_missing_cut_short_or_of_another_build_is_a_failure(self):
        self.write(peer={"packed": "another day"})
        self.assertEqual(self.code(), 1)
        self.write()
        file = self.folder / "decode.jsonl"
        whole = file.read_text()
        file.write_text(whole[: whole.rindex('{"ended"')])
        self.assertIn("cut short after 1 results", report.make(self.folder)[0])
        self.assertEqual(self.code(), 1)
        file.write_text(whole[:-5])
        self.assertIn("line 3 is not whole", report.make(self.folder)[0])
        self.assertEqual(self.code(), 1)
        file.unlink()
        self.assertIn("the stage did not run", report.make(self.folder)[0])
        self.assertEqual(self.code(), 1)

    def test_a_failure_and_its_output_are_in_it(self):
        for status, action in (("FAILED", ["sh", "-c", "echo the reason; exit 7"]), ("NOT RUN", None)):
            self.write()
            stage = self.stage(limit=300 if action else 0, name="steps")
            stage.step("other", stage.command, action)
            stage.end()
            text, code = report.make(self.folder)
            self.assertEqual(code, 1)
            self.assertIn(f"| other | **{status}** |", text)
        self.write()
        stage = self.stage(name="steps")
        stage.step("other", stage.command, ["sh", "-c", "echo the reason; exit 7"])
        self.assertIn("the reason", report.make(self.folder)[0])

    def test_wrong_usage_is_said(self):
        for arguments in ([], ["unknown"], ["report"]):
            done = subprocess.run([ROOT / "scripts/gpu-check", *arguments], capture_output=True, text=True,
                                  env={"PATH": os.environ["PATH"]})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("gpu-check pack", done.stderr)


if __name__ == "__main__":
    unittest.main()
