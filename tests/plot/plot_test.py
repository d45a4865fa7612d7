"""scripts/plot: its pictures say what log.jsonl says, whatever a run looks like. And scripts/terminal-picture."""
import itertools
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts/plot_runs"))
from axes import Axis, number_text, round_numbers, value_axis  # noqa: E402
from curves import MOST_POINTS, smoothed, thinned  # noqa: E402
from paper import COLOURS, DASHES, LINE, PAPER, spread_out, text_width  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def step_line(step, loss, **more):
    return {"step": step, "loss": loss, "learning_rate": 0.001 / step, "grad_norm": 0.5, "tokens_per_second": 2000,
            "seconds": step / 4, **more}


def falling(count=40, every=10):
    """Steps 10 to 10 * count, with an evaluation at each fourth."""
    lines = []
    for i in range(1, count + 1):
        lines.append(step_line(every * i, 1 + 1 / i))
        if i % 4 == 0:
            lines.append({"step": every * i, "train_loss": 1.5, "val_loss": 1.1 + 1 / i, "best_possible_loss": 0.9})
    return lines


class PlotTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, lines, ending="", config="training:\n  max_steps: 9\n  batch_size: 4\nmodel:\n  block_size: 16\n"):
        run = self.folder / name
        run.mkdir(parents=True)
        (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + ending, encoding="utf-8")
        (run / "config.yaml").write_text(config, encoding="utf-8")
        return name

    def plot(self, *arguments, code=0, said="", environment=None):
        done = subprocess.run([sys.executable, ROOT / "scripts/plot", *arguments], cwd=self.folder, capture_output=True,
                              env={**os.environ, **(environment or {})})
        errors = done.stderr.decode()
        self.assertEqual(done.returncode, code, errors)
        self.assertIn(said, errors)
        self.assertNotIn("Traceback", errors)
        self.assertEqual(bool(errors), bool(said), errors)
        return xml.fromstring(done.stdout) if code == 0 and "--out" not in arguments else done.stdout

    def texts(self, svg):
        return [element.text for element in svg.iter(SVG + "text")]

    def axes(self, svg, name):
        """Functions from pixels to the numbers of both axes of the only panel, by the numbers that stand beside them."""
        grid = {float(line.get("y1")) for line in svg.iter(SVG + "line") if line.get("class") == "grid"}
        numbers = [(float(t.get("x")), float(t.get("y")), float(t.text.replace(",", ""))) for t in svg.iter(SVG + "text")
                   if re.fullmatch(r"[\d.,]+", t.text or "")]
        rows = sorted((y - 4, value) for x, y, value in numbers if any(abs(y - 4 - at) < 0.11 for at in grid))
        columns = sorted((x, value) for x, y, value in numbers if y > max(grid) + 4)
        self.assertGreaterEqual(len(rows), 2, name)
        self.assertGreaterEqual(len(columns), 2, name)
        line = lambda points: lambda pixel: (points[0][1] + (pixel - points[0][0]) * (points[-2][1] - points[0][1])  # noqa: E731
                                             / (points[-2][0] - points[0][0]))  # the last may be moved inwards
        return line(columns), line(rows + [rows[-1]])

    def paths(self, svg, kind):
        return [[tuple(map(float, point.split())) for point in re.findall(r"[ML]([\d.]+ [\d.]+)", path.get("d"))]
                for path in svg.iter(SVG + "path") if kind in (path.get("class") or "").split()]

    def test_points_lie_where_the_log_says(self):
        lines = falling()
        svg = self.plot(self.write("run", lines), "--metric", "loss", "--linear", "--smooth", "1", "--whole")
        step_at, loss_at = self.axes(svg, "loss")
        steps = [(line["step"], line["loss"]) for line in lines if "loss" in line]
        (path,) = self.paths(svg, "line0")
        self.assertEqual(len(path), len(steps))
        for (x, y), (step, loss) in zip(path, steps):  # both are rounded to a tenth of a pixel, as are the numbers' places
            self.assertAlmostEqual(step_at(x), step, delta=0.5)
            self.assertAlmostEqual(loss_at(y), loss, delta=0.002)
        evaluations = [(line["step"], line["val_loss"]) for line in lines if "val_loss" in line]
        circles = [(float(c.get("cx")), float(c.get("cy")), c.find(SVG + "title").text) for c in svg.iter(SVG + "circle")]
        self.assertEqual(len(circles), len(evaluations))
        for (x, y, title), (step, loss) in zip(circles, evaluations):
            self.assertAlmostEqual(step_at(x), step, delta=0.5)
            self.assertAlmostEqual(loss_at(y), loss, delta=0.002)
            self.assertEqual(title, f"run, step {step}: {loss:.4f}")
        for text in ("training 1.025", "validation 1.125", "best possible 0.900"):
            self.assertIn(text, self.texts(svg))

    def test_tokens_and_time_are_those_of_the_run(self):
        run = self.write("run", falling())
        titles = lambda *more: [t.text for c in self.plot(run, "--metric", "loss", *more).iter(SVG + "circle")  # noqa: E731
                                for t in c.iter(SVG + "title")]
        self.assertEqual(titles("--x", "tokens")[0], "run, tokens 2,560: 1.3500")  # step 40 of 4 * 16 tokens
        self.assertEqual(titles("--x", "time")[0], "run, time 10: 1.3500")
        self.write("between", [step_line(10, 2), step_line(30, 2), {"step": 20, "val_loss": 1.5}])
        self.assertIn("time 5:", next(self.plot("between", "--metric", "loss", "--x", "time").iter(SVG + "circle"))[0].text)
        self.write("unknown", falling(), config="model:\n  block_size: auto\n")
        self.plot("unknown", "--x", "tokens", code=2, said="choose --x step")
        (self.folder / "unknown/config.yaml").write_text("model:\n  # training:\n  block_size: auto\ntraining:\n  batch_size: 2\n")
        (self.folder / "unknown/checkpoints/step-000010").mkdir(parents=True)
        (self.folder / "unknown/checkpoints/step-000010/config.json").write_text('{"n_positions": 8}')
        self.assertIn("tokens 640:", next(self.plot("unknown", "--x", "tokens").iter(SVG + "circle"))[0].text)

    def test_every_kind_of_log_is_drawn(self):
        lines = falling()
        lines[10]["loss"] = lines[11]["loss"] = None
        lines += [{"step": 400, "sample": {"prompt": "", "text": "loss"}}, {"step": 400, "event": "overfitting", "since": 200},
                  {"step": 400, "event": "stopped_early", "best_step": 200}, {"step": 400, "unheard": "of"}]
        self.write("cut off", lines, ending='{"step":410,"lo')
        svg = self.plot("cut off", "--metric", "loss", "--smooth", "1")
        self.assertEqual(sum(path.get("d").count("M") for path in svg.iter(SVG + "path") if "line0" in path.get("class")
                             and "l8 8" not in path.get("d")), 2, "a gap where a loss was not finite")
        self.assertEqual(sum(title.text == "cut off: not finite" for title in svg.iter(SVG + "title")), 2)
        self.assertIn("overfitting since 200", self.texts(svg))
        self.assertIn("stopped early", self.texts(svg))
        self.write("damaged", falling(4), ending="rubbish\n[1]\n\x00\n" + "[" * 100000 + "\n")
        self.plot("damaged", said="warning: 4 lines of damaged/log.jsonl cannot be read")
        self.write("one", [step_line(1, 3.5)])
        self.assertIn("training 3.500", self.texts(self.plot("one", "--metric", "loss")))
        self.write("nothing finite", [step_line(1, None), step_line(2, None)])
        self.plot("nothing finite")
        self.write("evaluated only", [{"step": 5, "val_loss": 2.5}])
        self.assertIn("validation 2.500", self.texts(self.plot("evaluated only")))
        self.write("strange", [step_line(1, -1), step_line(2, 0), step_line(3, 1e300), step_line(2**62, 1e-300)])
        for scale in ("--log", "--linear", "--whole"):
            self.plot("strange", scale)
        self.write("empty", [])
        self.plot("one", "empty", said="warning: empty has logged no step yet")

    def test_a_number_of_evaluations_alone_is_drawn(self):
        self.write("runs/a", [*falling(4), {"step": 41, "train_loss": 1.5, "val_loss": 1.25, "ema_val_loss": 1.125},
                              {"step": 42, "train_loss": 1.5, "val_loss": 1.25, "ema_val_loss": 1.0625}])
        chart = self.plot("runs/a", "--metric", "ema_val_loss")
        self.assertIn("a: ema val loss", "".join(chart.itertext()))
        self.assertTrue(any(line.get("d", "").count("L") for line in chart.iter(SVG + "path")))

    def test_what_cannot_be_drawn_is_refused_with_a_remedy(self):
        self.write("runs/a", falling(4))
        self.write("empty", [])
        self.plot("missing", code=2, said="there is no folder 'missing'")
        self.plot("runs", code=2, said="the runs in it: runs/a")
        self.plot("empty", code=2, said="no run has logged a step")
        self.plot(code=2, said="the following arguments are required: RUN")
        self.plot("runs/a", "--metric", "los", code=2, said="there are best_possible_loss, grad_norm, learning_rate, loss")
        self.plot("runs/a", "--metric", "", code=2, said="no log has that")
        self.plot("runs/a", "--out", "a.pdf", code=2, said="must end in .svg or .png")
        self.plot("runs/a", "--smooth", "-1", code=2, said="1 or more")
        self.plot("runs/a", "--out", "missing/a.svg", code=2, said="cannot write missing/a.svg")

    def test_names_are_told_apart_and_escaped(self):
        hostile = '<b> & "c" 日本語'
        self.write("x/run", falling(4))
        self.write("y/run", falling(4))
        self.write(hostile, falling(4))
        self.write("n" * 100, falling(4))
        texts = self.texts(self.plot("x/run", "y/run", hostile, "n" * 100, "--metric", "loss"))
        for name in ("x/run", "y/run", hostile, "n" * 16 + "…" + "n" * 17):
            self.assertIn(f"{name} 1.350", texts)

    def test_twenty_runs_have_labels_that_do_not_overlap_and_lines_that_differ(self):
        names = [self.write(f"run-{i:02}", [step_line(1, 2), {"step": 1, "val_loss": 1 + i / 1000}]) for i in range(20)]
        svg = self.plot(*names)
        labels = [t for t in svg.iter(SVG + "text") if re.match(r"run-\d\d ", t.text)]
        self.assertEqual([t.text[:6] for t in labels], sorted(names, reverse=True), "the highest loss on top")
        places = [float(t.get("y")) for t in labels]
        for above, below in itertools.pairwise(places):
            self.assertGreater(below - above, LINE - 0.11)
        for label in labels:
            self.assertLess(float(label.get("x")) + text_width(label.text), float(svg.get("width")))
        validation = [(p.get("class"), p.get("stroke-dasharray")) for p in svg.iter(SVG + "path") if "validation" in p.get("class")]
        self.assertEqual(len(set(validation)), 20)

    def test_the_picture_can_be_heard(self):
        svg = self.plot(self.write("run", falling()))
        self.assertEqual(svg.get("role"), "img")
        parts = {element.get("id"): element.text for element in svg if element.get("id")}
        for name in svg.get("aria-labelledby").split():
            self.assertIn(name, parts)
        self.assertIn("lowest validation loss 1.125 at step 400, best possible 0.900", parts["plot-desc"])

    def test_themes(self):
        run = self.write("run", falling(4))
        styles = {theme: next(self.plot(run, "--theme", theme).iter(SVG + "style")).text for theme in ("auto", "light", "dark")}
        self.assertIn("prefers-color-scheme:dark", styles["auto"])
        self.assertIn(PAPER["light"][0], styles["light"])
        self.assertNotIn(PAPER["dark"][0], styles["light"])
        self.assertNotIn(PAPER["light"][0], styles["dark"])

    def test_a_png_is_made_by_what_is_there_or_refused_with_a_remedy(self):
        run, programs = self.write("run", falling(4)), self.folder / "programs"
        programs.mkdir()
        alone = {"PATH": str(programs), "PYTHONPATH": "", "PYTHONNOUSERSITE": "1"}
        if subprocess.run([sys.executable, "-c", "import cairosvg"], capture_output=True).returncode != 0:
            self.plot(run, "--out", "a.png", code=3, said="install one, such as librsvg2-bin", environment=alone)
        converter = programs / "rsvg-convert"
        converter.write_text('#!/bin/sh\necho "$@" > arguments\nprintf "\\211PNG of it" > "$4"\n')
        converter.chmod(0o755)
        self.plot(run, "--out", "a.png", environment=alone)
        self.assertEqual((self.folder / "a.png").read_bytes(), b"\x89PNG of it")
        self.assertIn("--zoom 2", (self.folder / "arguments").read_text())
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith(".")])

    def test_a_png_has_two_pixels_for_one_of_the_svg(self):
        if subprocess.run([ROOT / "scripts/os-packages", "librsvg2-bin"], stdout=sys.stderr).returncode != 0:
            self.skipTest("no program that makes a PNG can be installed here")
        run = self.write("run", falling(4))
        svg = self.plot(run)
        self.plot(run, "--out", "a.png")
        size = struct.unpack(">II", (self.folder / "a.png").read_bytes()[16:24])
        self.assertEqual(size, (2 * float(svg.get("width")), 2 * float(svg.get("height"))))


class PartsTest(unittest.TestCase):
    def test_round_numbers_are_round_and_inside(self):
        self.assertEqual(round_numbers(0, 3600, 4), [0, 1000, 2000, 3000])
        self.assertEqual(round_numbers(0.76, 1.2, 5), [0.8, 0.9, 1.0, 1.1, 1.2])
        axis = value_axis([0.76, 7.2], None, 300, 0)
        self.assertTrue(axis.logarithmic)
        self.assertEqual(axis.ticks(8), [0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
        for low, high in [(1e-300, 1e300), (1e-5, 1), (0, 1e-9), (-5, 5), (1, 1), (1e15, 2e15)]:
            ticks = value_axis([low, high], True if low > 0 else None, 300, 0).ticks(6)
            self.assertTrue(1 <= len(ticks) <= 8, (low, high, ticks))
            self.assertEqual(len({number_text(tick) for tick in ticks}), len(ticks), ticks)
        self.assertEqual(Axis(0, 10, False, 100, 200).place(5), 150)

    def test_smoothing_is_the_mean_of_neighbours(self):
        points = [(i, float(i % 2)) for i in range(30)] + [(30, math.nan)]
        self.assertEqual(smoothed(points, 1), points[:30])
        smooth = smoothed(points, 5)
        self.assertEqual(len(smooth), 30)
        self.assertEqual(smooth[0], (0, 0.0))
        self.assertEqual(smooth[20], (20, 2 / 5))

    def test_thinning_keeps_spikes_and_ends(self):
        points = [(float(i), 1.0) for i in range(100_000)]
        points[54_321] = (54_321.0, 99.0)
        points[999] = (999.0, math.nan)
        thin = thinned(points)
        self.assertLessEqual(len(thin), MOST_POINTS)
        self.assertIn((54_321.0, 99.0), thin)
        self.assertEqual(thin, sorted(thin))
        self.assertGreater(thin[-1][0], 99_000)

    def test_labels_stay_near_and_apart(self):
        self.assertEqual(spread_out([10, 100, 200], 0, 300), [10, 100, 200])
        self.assertEqual(spread_out([100, 101, 102], 0, 300), [100, 116, 132])
        self.assertEqual(spread_out([299, 300], 0, 300), [284, 300])
        self.assertEqual(len(spread_out([1.0] * 50, 0, 300)), 50)

    def test_colours_differ_for_colour_blind_eyes_and_stand_out(self):
        # Machado, Oliveira and Fernandes 2009, severity 1.
        kinds = {"normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                 "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
                 "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
                 "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]}

        def linear(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]

        def weighted(matrix, parts):
            return [sum(a * b for a, b in zip(row, parts)) for row in matrix]

        def lab(parts):
            x, y, z = weighted([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8730]],
                               [min(max(part, 0), 1) for part in parts])
            f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
            return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])

        for theme, colours in COLOURS.items():
            for kind, matrix in kinds.items():
                seen = [lab(weighted(matrix, linear(colour))) for colour in colours]
                for a, b in itertools.combinations(range(len(colours)), 2):
                    self.assertGreater(math.dist(seen[a], seen[b]), 25, (theme, kind, colours[a], colours[b]))
            light = [weighted([[0.2126, 0.7152, 0.0722]], linear(colour))[0] + 0.05 for colour in colours + [PAPER[theme][0]]]
            for luminance in light[:-1]:
                self.assertGreater(max(luminance, light[-1]) / min(luminance, light[-1]), 3, "WCAG 2.1, 1.4.11")
        self.assertGreaterEqual(len(COLOURS["light"]) * len(DASHES), 20)


class TerminalPictureTest(unittest.TestCase):
    def draw(self, text, *arguments):
        done = subprocess.run([sys.executable, ROOT / "scripts/terminal-picture", *arguments], input=text.encode(),
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return xml.fromstring(done.stdout)

    def test_letters_dots_and_colours_stand_in_their_columns(self):
        svg = self.draw("ab\x1b[1;31mcd\x1b[0m \u2803<&>\n日本 x\x1b[2Jy\x07\x1b]0;title\n")
        texts = {t.text: (float(t.get("x")), t.get("class")) for t in svg.iter(SVG + "text")}
        self.assertEqual(texts["cd"], (14 + 8.4 * 2, "bold c1"))
        self.assertEqual(texts["<&>"][0], round(14 + 8.4 * 6, 1))
        self.assertEqual(len(list(svg.iter(SVG + "circle"))), 2, "U+2803 has two dots")
        self.assertIn("日本 x", texts)
        carried = self.draw("\x1b[35ma\nb\x1b[39mc")
        self.assertEqual([t.get("class") for t in carried.iter(SVG + "text")], ["c5", "c5", "c"])
        self.assertEqual(texts["y"][0], round(14 + 8.4 * 6, 1))
        self.assertIn("prefers-color-scheme", next(svg.iter(SVG + "style")).text)
        self.assertNotIn("prefers-color-scheme", next(self.draw("a", "--theme", "dark").iter(SVG + "style")).text)

    def test_what_inkling_watch_shows_becomes_a_picture(self):
        program = Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin/inkling-watch"
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.jsonl"
            log.write_text("".join(json.dumps(line) + "\n" for line in falling()))
            shown = subprocess.run([program, folder, "--once", "--color", "always", "--characters", "utf8", "--width", "100"],
                                   check=True, capture_output=True, text=True).stdout
        svg = self.draw(shown)
        self.assertGreater(len(list(svg.iter(SVG + "circle"))), 100, "the dots of the curve")
        self.assertTrue(any("validation 1.1250" in t.text for t in svg.iter(SVG + "text")))


if __name__ == "__main__":
    unittest.main()
