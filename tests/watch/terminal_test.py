"""inkling-watch and the progress bar in real terminals: a pty, and tmux, which shows what a person would see. Exit code 3
where tmux cannot be installed."""
import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin"
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "NO_COLOR": "", "SHELL": "/bin/sh"}
PATIENCE = 120  # seconds, for what comes at once unless the machine is overloaded


def wait_for(what, condition, shown=lambda: ""):
    """The condition's value, once it is true; where it does not become so, the error says what `shown` returns."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come: {shown()}")


def write_run(folder, steps=300):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("training:\n  max_steps: 1000\n")
    lines = [json.dumps({"step": step, "loss": 1 + 6 / step, "learning_rate": 0.001, "grad_norm": 0.5,
                         "tokens_per_second": 20000, "seconds": step / 10}) for step in range(1, steps + 1)]
    sample = {"step": steps, "sample": {"prompt": "Once", "text": " \x1b[31m日本語🦊 " * 30, "seed": 1}}
    new = folder / "new"
    new.write_text("\n".join(lines + [json.dumps(sample)]) + "\n")
    new.rename(folder / "log.jsonl")
    return folder


class WatchInAPty:
    """A run being watched in a terminal of its own."""

    def __init__(self, run, columns=80, rows=24):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        self.process = subprocess.Popen([BIN / "inkling-watch", run], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        env=ENVIRONMENT, preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.output += os.read(self.master, 65536)
        return self.output

    def close(self):
        self.process.kill()
        self.process.wait()
        for descriptor in (self.master, self.slave):
            os.close(descriptor)


class EndTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")  # its name is shown, and is to be short
        self.addCleanup(folder.cleanup)
        self.run_folder = write_run(Path(folder.name) / "run")

    def started(self):
        watch = WatchInAPty(self.run_folder)
        self.addCleanup(watch.close)
        wait_for("a frame", lambda: b"q ends" in watch.read())
        self.assertFalse(termios.tcgetattr(watch.slave)[3] & termios.ECHO)
        return watch

    def test_every_end_gives_the_terminal_back_as_it_was(self):
        key = lambda text: lambda watch: os.write(watch.master, text)  # noqa: E731
        sent = lambda number: lambda watch: watch.process.send_signal(number)  # noqa: E731
        for name, end, code in [("q", key(b"q"), 0), ("Ctrl-C", key(b"\x03"), 0), ("SIGINT", sent(signal.SIGINT), 0),
                                ("SIGTERM", sent(signal.SIGTERM), 128 + signal.SIGTERM),
                                ("SIGHUP", sent(signal.SIGHUP), 128 + signal.SIGHUP)]:
            with self.subTest(name):
                watch = self.started()
                end(watch)
                wait_for("the end", lambda: (watch.read(), watch.process.poll() is not None)[1])
                self.assertEqual(watch.process.returncode, code)
                self.assertTrue(watch.read().endswith(b"\x1b[?7h\x1b[?25h\x1b[?1049l"), watch.output[-60:])
                self.assertEqual(termios.tcgetattr(watch.slave), watch.before)

    def test_ctrl_z_gives_the_terminal_back_until_fg(self):
        watch = self.started()
        os.write(watch.master, b"\x1a")
        wait_for("the stop", lambda: Path(f"/proc/{watch.process.pid}/stat").read_text().split(")")[1].split()[0] == "T")
        self.assertTrue(watch.read().endswith(b"\x1b[?1049l"))
        self.assertEqual(termios.tcgetattr(watch.slave), watch.before)
        watch.output = b""
        watch.process.send_signal(signal.SIGCONT)
        wait_for("the frame again", lambda: b"\x1b[?1049h" in watch.read() and b"q ends" in watch.read())

    def test_a_terminal_that_goes_away_ends_it(self):
        watch = self.started()
        os.close(watch.slave)
        os.close(watch.master)
        watch.master, watch.slave = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
        self.assertNotEqual(watch.process.wait(PATIENCE), 0)

    def test_nothing_of_a_sample_acts_on_the_terminal(self):
        output = self.started().read()
        self.assertNotIn(b"\x1b[31m", output)
        self.assertIn("\ufffd[31m日本語🦊".encode(), output)


class TmuxTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")  # its name is shown, and is to be short
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.run_folder = self.folder / "run"
        self.addCleanup(lambda: subprocess.run([*self.tmux, "kill-server"], capture_output=True))

    @property
    def tmux(self):
        return ["tmux", "-S", str(self.folder / "socket"), "-f", "/dev/null"]

    def start(self, command, columns, rows):
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), command], check=True,
                       env=ENVIRONMENT)

    def keys(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def resize(self, columns, rows):
        subprocess.run([*self.tmux, "resize-window", "-x", str(columns), "-y", str(rows)], check=True)

    def screen(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]

    def test_a_frame_fills_every_size_and_follows_a_resize_and_a_replaced_log(self):
        write_run(self.run_folder)
        self.start(f"{shlex.quote(str(BIN / 'inkling-watch'))} {shlex.quote(str(self.run_folder))}", 80, 24)
        for columns, rows in [(80, 24), (200, 50), (20, 24), (40, 10), (120, 5), (80, 24)]:
            self.resize(columns, rows)

            def is_whole():
                lines = self.screen()
                bar = next((line for line in lines if line.startswith("[")), "")
                footer = rows < 6 or lines[rows - 1].startswith("q ends")
                return lines if min(columns, 100) - 3 <= len(bar) <= columns and bar.endswith("30 %") and footer else None
            lines = wait_for(f"a frame of {columns} x {rows}", is_whole, self.screen)
            self.assertEqual(sum(line.startswith("[") for line in lines), 1, "only one bar")
        write_run(self.run_folder, steps=100)
        wait_for("the shorter log", lambda: "step 100/1,000" in "\n".join(self.screen()))
        self.assertNotIn("30 %", "\n".join(self.screen()))

    def test_the_screen_before_comes_back_and_a_missing_run_is_waited_for(self):
        self.start("echo before; exec sh", 60, 20)
        wait_for("the shell", lambda: "before" in self.screen(), self.screen)
        self.keys(f"{shlex.quote(str(BIN / 'inkling-watch'))} {self.run_folder}", "Enter")
        wait_for("the waiting", lambda: "waiting for" in "".join(self.screen()))
        write_run(self.run_folder)
        wait_for("the frame", lambda: any(line.startswith("[") for line in self.screen()))
        self.keys("q")
        lines = wait_for("the shell again", lambda: (lines := self.screen()) and "before" in lines and lines)
        self.assertFalse(any(line.startswith("[") for line in lines), lines)

    def test_a_bar_stays_one_line_between_log_lines_whatever_becomes_of_the_size(self):
        commands = self.folder / "commands"
        answers = self.folder / "answers"
        os.mkfifo(commands)
        self.start(f"{shlex.quote(str(BIN / 'print_progress'))} {commands} > {answers}; sleep 1000", 80, 10)
        wait_for("the program", answers.exists)
        said = 0
        with os.fdopen(os.open(commands, os.O_RDWR), "w", buffering=1) as pipe:  # which waits for nobody who reads
            def say(line):
                nonlocal said
                pipe.write(line + "\n")
                said += 1
                wait_for("an answer", lambda: answers.read_text().count("done") == said)

            def bars():  # tmux shows what was written before it was asked, sooner or later
                return [line for line in self.screen() if re.search("%|left|[#.]{3}", line)]
            for number in range(12):  # on a full screen, as after some time; tmux would scroll an empty one
                say(f"log line {number}")
            say("update 250")
            wait_for("the bar", lambda: bars() and bars()[0].startswith("training: [#####...............] 25 %, 250 steps"))
            for columns in (60, 30, 20, 45, 80, 20):
                self.resize(columns, 10)
                text = f"step {columns} " + "x" * 30 + "end"
                say("log " + text)

                def is_drawn():  # tmux tells a program of a new size some time later, so the next update may be too early
                    say("update 500")
                    lines = [line for line in self.screen() if line]
                    whole = re.fullmatch(r"(training: )?(\[[#.]+\] )?50 %, .*left", lines[-1])
                    return lines if whole and len(lines[-1]) < columns and text in "".join(lines) else None
                lines = wait_for("the line and the bar", is_drawn, self.screen)
                self.assertEqual(len(bars()), 1, lines)
                self.assertTrue("".join(lines[:-1]).endswith(text), lines)
            say("clear")
            wait_for("no bar", lambda: not bars())
        self.assertTrue(re.search("end$", "".join(self.screen())), self.screen())


if __name__ == "__main__":
    if subprocess.run([ROOT / "scripts/os-packages", "tmux"], stdout=sys.stderr).returncode != 0:
        print("tmux cannot be installed here", file=sys.stderr)
        sys.exit(3)
    unittest.main()
