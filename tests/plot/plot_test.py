"""scripts/plot: its pictures show what log.jsonl says, whatever a run looks like. And scripts/terminal-picture."""
import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def step_line(step, loss, **more):
    return {"step": step, "loss": loss, "learning_rate": 0.001 / step, "grad_norm": 0.5, "tokens_per_second": 2000,
            "seconds": step / 4, **more}


def falling(count=40):
    """Steps 10 to 10 * count, with an evaluation at each fourth."""
    lines = []
    for i in range(1, count + 1):
        lines.append(step_line(10 * i, 1 + 1 / i))
        if i % 4 == 0:
            lines.append({"step": 10 * i, "train_loss": 1.5, "val_loss": 1.1 + 1 / i, "best_possible_loss": 0.9})
    return lines


class PlotTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)

    def write(self, name, lines, ending="", config="training:\n  max_steps: 9\n  batch_size: 4\nmodel:\n  block_size: 16\n"):
        Path(name).mkdir(parents=True)
        Path(name, "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + ending)
        Path(name, "config.yaml").write_text(config)
        return name

    def plot(self, *arguments, code=0, said=""):
        """What is drawn: of each panel its curves by name, with their points."""
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.suppress(SystemExit):
            self.assertEqual(plot.main([*arguments, "--out", "picture.svg"]), code, errors.getvalue())
        self.assertIn(said, errors.getvalue())
        self.assertEqual(bool(errors.getvalue()), bool(said), errors.getvalue())
        if code:
            return None
        options = plot.parse([*arguments, "--out", "picture.svg"])
        with contextlib.redirect_stderr(errors):
            panels = plot.figure_of(plot.read_runs(options.runs), options, "light").axes
        return [{line.get_label(): line.get_xydata().tolist() for line in panel.lines} for panel in panels]

    def words(self):
        return " ".join(xml.parse("picture.svg").getroot().itertext())

    def test_points_lie_where_the_log_says(self):
        lines = falling()
        loss, rate, norm, speed = self.plot(self.write("run", lines), "--smooth", "1")
        self.assertEqual(loss["training 1.025"], [[line["step"], line["loss"]] for line in lines if "loss" in line])
        self.assertEqual(loss["validation 1.125"], [[line["step"], line["val_loss"]] for line in lines if "val_loss" in line])
        self.assertEqual({y for _, y in loss["best possible 0.900"]}, {0.9})
        self.assertEqual([next(iter(panel.values()))[0] for panel in (rate, norm, speed)], [[10, 0.0001], [10, 0.5], [10, 2000]])
        for text in ("training 1.025", "validation 1.125", "best possible 0.900", "tokens per second: 2,000 at the end"):
            self.assertIn(text, self.words())

    def test_tokens_and_time_are_those_of_the_run(self):
        run = self.write("run", falling())
        first = lambda *more: self.plot(*more, "--metric", "loss")[0]["validation 1.125"][0]  # noqa: E731
        self.assertEqual(first(run, "--x", "tokens"), [2560, 1.35])  # step 40 of 4 * 16 tokens
        self.assertEqual(first(run, "--x", "time"), [10, 1.35])
        self.write("between", [step_line(10, 2), step_line(30, 2), {"step": 20, "val_loss": 1.125}])
        self.assertEqual(first("between", "--x", "time"), [5, 1.125])
        self.write("unknown", falling(), config="model:\n  block_size: auto\n")
        self.plot("unknown", "--x", "tokens", code=2, said="choose --x step")
        Path("unknown/config.yaml").write_text("model:\n  # training:\n  block_size: auto\ntraining:\n  batch_size: 2\n")
        Path("unknown/checkpoints/step-000010").mkdir(parents=True)
        Path("unknown/checkpoints/step-000010/config.json").write_text('{"n_positions": 8}')
        self.assertEqual(first("unknown", "--x", "tokens"), [640, 1.35])

    def test_every_kind_of_log_is_drawn(self):
        lines = falling()
        lines[10]["loss"] = lines[11]["loss"] = None
        lines += [{"step": 400, "sample": {"prompt": "", "text": "loss"}}, {"step": 400, "event": "overfitting", "since": 200},
                  {"step": 400, "event": "stopped_early", "best_step": 200}, {"step": 400, "unheard": "of"}]
        self.write("cut off", lines, ending='{"step":410,"lo')
        (loss,) = self.plot("cut off", "--metric", "loss", "--smooth", "1")
        self.assertEqual([x for x, _ in loss["training not finite"]], [lines[10]["step"], lines[11]["step"]])
        self.assertEqual(sum(math.isnan(y) for _, y in loss["training 1.025"]), 2, "a gap where a loss was not finite")
        for text in ("overfitting since 200", "stopped early"):
            self.assertIn(text, self.words())
        self.write("damaged", falling(4), ending="rubbish\n[1]\n\x00\n" + "[" * 100000 + "\n")
        self.plot("damaged", said="warning: 4 lines of damaged/log.jsonl cannot be read")
        self.assertIn("training 3.500", self.plot(self.write("one", [step_line(1, 3.5)]), "--metric", "loss")[0])
        self.plot(self.write("nothing finite", [step_line(1, None), step_line(2, None)]))
        evaluations = [{"step": 5, "val_loss": 2.5, "ema_val_loss": 1.5}]
        self.assertIn("validation 2.500", self.plot(self.write("evaluated only", evaluations))[0])
        self.assertIn([5, 1.5], self.plot("evaluated only", "--metric", "ema_val_loss")[0].popitem()[1])
        self.write("strange", [step_line(1, -1), step_line(2, 0), step_line(3, 1e30), step_line(2**62, 1e-30)])
        for scale in ("--log", "--linear", "--whole"):
            self.plot("strange", scale)
        self.plot("one", self.write("empty", []), said="warning: empty has logged no step yet")

    def test_what_cannot_be_drawn_is_refused_with_a_remedy(self):
        self.write("runs/a", falling(4))
        self.write("empty", [])
        for arguments, said in {("missing",): "there is no folder 'missing'", ("runs",): "the runs in it: runs/a",
                                ("empty",): "no run has logged a step", (): "the following arguments are required: RUN",
                                ("runs/a", "--metric", "los"): "there are best_possible_loss, grad_norm, learning_rate, loss",
                                ("runs/a", "--metric", ""): "no log has that", ("runs/a", "--smooth", "-1"): "1 or more"}.items():
            self.plot(*arguments, code=2, said=said)
        self.plot("runs/a", "--metric", "loss,mfu", code=2, said="--metric mfu: no log has that")
        for name, code, said in (("a.pdf", 2, "must end in .svg or .png"), ("missing/a.svg", 3, "No such file or directory")):
            done = subprocess.run([ROOT / "scripts/plot", "runs/a", "--out", name], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (code, 1), done.stderr)
            self.assertIn(said, done.stderr)

    def test_names_are_told_apart_and_shown_as_they_are(self):
        hostile = '_<b> & "c" $x$ 日本語'
        for name in ("x/run", "y/run", hostile, "n" * 100):
            self.write(name, falling(4))
        (loss,) = self.plot("x/run", "y/run", hostile, "n" * 100, "--metric", "loss")
        for name in ("x/run", "y/run", hostile, "n" * 16 + "…" + "n" * 17):
            self.assertIn(f"{name} 1.350", loss)
            self.assertIn(f"{name} 1.350", self.words())

    def test_twenty_runs_have_lines_that_differ(self):
        runs = plot.read_runs([self.write(f"run-{i:02}", [step_line(1, 2), {"step": 1, "val_loss": 1}]) for i in range(20)])
        lines = plot.figure_of(runs, plot.parse(["run", "--out", "a.svg"]), "light").axes[0].lines
        looks = {(line.get_color(), str(line.get_linestyle())) for line in lines if line.get_label().startswith("run-")}
        self.assertEqual(len(looks), 20)

    def test_themes_and_formats(self):
        run = self.write("run", falling(4))
        for theme in ("auto", "light", "dark"):
            self.plot(run, "--theme", theme)
            text = Path("picture.svg").read_text()
            self.assertEqual("prefers-color-scheme:dark" in text, theme == "auto")
            self.assertEqual(plot.COLOURS["light"][0] in text, theme != "dark")
            self.assertEqual(plot.COLOURS["dark"][0] in text, theme != "light")
        plot.main([run, "--out", "a.png"])
        self.assertTrue(Path("a.png").read_bytes().startswith(b"\x89PNG"))

    def test_smoothing_is_the_mean_of_neighbours(self):
        x, y = numpy.arange(31.0), numpy.append(numpy.arange(30) % 2, math.nan)
        self.assertEqual(plot.smoothed(x, y, 1)[1].tolist(), y[:30].tolist())
        smooth = plot.smoothed(x, y, 5)[1]
        self.assertEqual((len(smooth), smooth[0], smooth[20]), (30, 0, 2 / 5))


class TerminalPictureTest(unittest.TestCase):
    def draw(self, text, *arguments):
        done = subprocess.run([sys.executable, ROOT / "scripts/terminal-picture", *arguments], input=text.encode(),
                              capture_output=True, check=True)
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


if __name__ == "__main__":
    packages = subprocess.run([ROOT / "scripts/foreign-packages", "plot"], check=False, stdout=subprocess.PIPE, text=True)
    if packages.returncode != 0:
        print("skipped: matplotlib cannot be installed here")
        sys.exit(3)
    os.environ["MPLCONFIGDIR"] = packages.stdout.strip() + "/settings"
    sys.dont_write_bytecode = True
    sys.path[:0] = [packages.stdout.strip(), str(ROOT / "scripts")]
    import numpy
    import plot
    unittest.main()
