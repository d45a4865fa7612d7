#!/usr/bin/env python3
"""Tests of what scripts and pages claim of configurations and recipes, without a program: that claims are measured as they are told."""

import csv
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks"))
LOADER = importlib.machinery.SourceFileLoader("learning", str(ROOT / "benchmarks/learning"))
learning = importlib.util.module_from_spec(importlib.util.spec_from_loader("learning", LOADER))
LOADER.exec_module(learning)


def optimizer_of(recipe):
    """The settings of a recipe's section `optimizer`, by their names, those of `muon` among them."""
    section = re.search(r"^optimizer:\n(.*?)\n\n", (ROOT / learning.RECIPES[recipe]).read_text(), re.M | re.S)[1]
    return dict(re.findall(r"^ +(\w+): +([^ \n]+)", section, re.M))


class Learning(unittest.TestCase):
    def test_adamw_instead_of_muon_keeps_the_rates_of_all_other_groups(self):
        for recipe in ("fast", "best"):
            for changes in learning.rows_of_choices(recipe)[learning.ADAMW_PEAK].values():
                self.assertEqual(float(changes["optimizer.head_learning_rate"]), float(re.search(
                    r"^  learning_rate: +(\S+)", (ROOT / learning.RECIPES[recipe]).read_text(), re.M)[1]))
                for name in optimizer_of(recipe):
                    if name not in ("name", "learning_rate", "weight_decay"):
                        self.assertNotIn(f"optimizer.{name}", changes)

    def test_the_quick_start_is_chosen_on_stories_that_it_does_not_report(self):
        self.assertNotIn("grammar_seed", (ROOT / "configs/fables.yaml").read_text())  # so it has the default, 1
        self.assertNotEqual(learning.held_out("fables", None)["data.grammar_seed"], 1)

    def test_pictures_show_the_tables_of_the_page(self):
        for recipe in ("fast", "best"):
            picture = xml.parse(ROOT / f"docs/images/learning-{recipe}.svg").getroot()
            words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
            for ingredient, worth in learning.worths_of(recipe):
                self.assertIn(ingredient, words)
                self.assertIn(f"{worth:+.4f}", words)


class RecipesByTime(unittest.TestCase):
    def test_the_law_has_the_numbers_of_the_fit_that_the_page_shows(self):
        law = (ROOT / "src/recipe/law.cpp").read_text()
        names = re.findall(r"\w+(?=[,;])", re.sub("//.*", "", re.search(r"struct Law {\n(.*?)};", law, re.S)[1]))
        kinds = [dict(zip(names, map(float, re.search(rf"{kind} = {{(.*?)}}", law)[1].split(","))))
                 for kind in ("of_learned_tokens", "of_characters")]
        kinds[0] |= {name: float(value) for name, value in re.findall(r"(\w+) = ([\d.]+)[,;]", law)}
        page = (ROOT / "docs/benchmarks/recipes_cpu_2026-11-28.md").read_text()
        fits = re.findall(r"^parameter_share = .*", page, re.M)
        self.assertEqual(len(fits), 2)
        for fit, known in zip(fits, kinds):
            for number in fit.split(", "):
                name, value = number.split(" = ")
                self.assertEqual(known[name], float(value), name)

    def test_what_the_law_calls_the_largest_run_that_it_was_fitted_to_is_that(self):
        with open(ROOT / "benchmarks/recipe_runs.csv") as file:
            runs = [{name: int(row[name]) for name in ("n_layer", "n_embd", "block_size", "batch_size", "steps")}
                    for row in csv.DictReader(file)]
        largest = max(12 * run["n_layer"] * run["n_embd"] ** 2 * run["block_size"] * run["batch_size"] * run["steps"] for run in runs)
        known = re.search(r"largest_fitted = (\S+);", (ROOT / "src/recipe/law.h").read_text())[1]
        self.assertAlmostEqual(float(known) / largest, 1, delta=0.01)


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
