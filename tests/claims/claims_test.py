#!/usr/bin/env python3
"""Tests of what scripts and pages claim of the recipes, without a program: that claims are measured as they are told."""

import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

class QuickStart(unittest.TestCase):
    def exit_code(self, excess):
        """Runs scripts/quickstart with programs that do nothing, and a model that is this far above the best possible."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            evaluation = json.dumps({"loss": 0.8, "best_possible": 0.8 / (1 + excess), "excess_ratio": excess})
            programs = {"scripts/build": "", "build/bin/inkling-train": "", "build/bin/inkling-sample": "",
                        "build/bin/inkling-eval": f"echo '{evaluation}'"}
            for name, does in programs.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(f"#!/bin/sh\n{does}\n")
                (root / name).chmod(0o755)
            (root / "scripts/quickstart").write_bytes((ROOT / "scripts/quickstart").read_bytes())
            return subprocess.run(["bash", root / "scripts/quickstart"], env={"PATH": "/usr/bin:/bin"},
                                  stderr=subprocess.DEVNULL).returncode

    def test_it_fails_where_the_model_is_worse_than_it_is_known_to_get(self):
        self.assertEqual(self.exit_code(0.0139), 0)  # the worst of three seeds
        self.assertEqual(self.exit_code(0.026), 1)
        self.assertEqual(self.exit_code(0.0368), 1)  # of settings that were given up


if __name__ == "__main__":
    unittest.main()
