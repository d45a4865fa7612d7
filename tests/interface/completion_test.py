"""bash (with and without its package bash-completion), zsh and fish complete flags, values, settings, runs and configs."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("INKLING_BUILD", ROOT / "build"))
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from shells import Bash, BashWithItsCompletions, Fish, Shell, Zsh  # noqa: E402

FILES = {"mine.yaml": "", "notes.txt": "", "books/b.txt": "", "runs/tale/config.yaml": "", "runs/tale/log.jsonl": "",
         "runs/saga/config.yaml": "", "runs/no-run/log.jsonl": "", "elsewhere/run/config.yaml": ""}


def interfaces() -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((BUILD / "interface").glob("*.json"))]


class Completion(unittest.TestCase):
    shell: Shell

    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        for name, text in FILES.items():
            path = Path(cls.held.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        cls.shell = cls.kind(BUILD / "share", Path(cls.held.name), BUILD / "bin")

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    def completes(self, line: str, *words: str):
        found = [word.removesuffix("/") for word in self.shell.completions(line)]  # a folder's slash is the shell's affair
        self.assertEqual(found, sorted(words), line)

    def test_every_flag_of_every_program(self):
        self.assertGreaterEqual(len(interfaces()), 4)
        for interface in interfaces():
            flags = [flag for option in interface["options"] if not option["positional"]
                     for flag in option["name"].split(", ") if flag.startswith("--")]
            self.completes(interface["program"] + " --", *flags)

    def test_the_beginning_of_a_flag(self):
        self.completes("inkling-train --se", "--set", "--settings")
        self.completes("inkling-train --no-such")

    def test_words_of_a_flag_as_the_program_takes_them(self):
        self.completes("inkling-sample runs/tale --dtype ", "auto", "float32", "bfloat16")
        self.completes("inkling-sample runs/tale --kernels f", "fused")
        self.completes("inkling-sample runs/tale --checkpoint ", "best", "newest")
        self.completes("inkling-eval runs/tale --device=c", "--device=cpu", "--device=cuda")

    def test_nothing_where_any_text_may_stand(self):
        self.completes("inkling-sample runs/tale --prompt n")
        self.completes("inkling-sample runs/tale --seed ")

    def test_keys_of_settings(self):
        self.completes("inkling-train mine.yaml --set model.norm", "model.norm=", "model.norm_epsilon=", "model.norm_weights=")
        self.completes("inkling-prepare mine.yaml --set data.tokenizer.m", "data.tokenizer.model_type=")
        self.completes("inkling-train mine.yaml --set=model.tie", "--set=model.tie_embeddings=")

    def test_values_of_settings(self):
        self.completes("inkling-train mine.yaml --set model.norm=", "model.norm=layernorm", "model.norm=rmsnorm")
        self.completes("inkling-train mine.yaml --set model.bias=t", "model.bias=true")
        self.completes("inkling-train mine.yaml --set=runtime.dtype=a", "--set=runtime.dtype=auto")
        self.completes("inkling-train mine.yaml --set runtime.device=cu", "runtime.device=cuda")
        self.completes("inkling-train mine.yaml --set model.n_kv_head=", "model.n_kv_head=auto")
        self.completes("inkling-train mine.yaml --set data.source=no", "data.source=notes.txt")

    def test_runs_where_a_run_belongs(self):
        for program in ("inkling-sample", "inkling-eval"):
            self.completes(program + " ", "runs/saga", "runs/tale")
        self.completes("inkling-sample runs/t", "runs/tale")
        self.completes("inkling-sample elsewhere/", "elsewhere/run")

    def test_configs_where_a_config_belongs(self):
        self.completes("inkling-train mi", "mine.yaml")
        self.completes("inkling-eval runs/tale --config m", "mine.yaml")
        self.completes("inkling-train not")

    def test_installed_configs_where_there_is_none(self):
        with tempfile.TemporaryDirectory() as held:
            prefix, here = Path(held) / "prefix", Path(held) / "here"
            for name in ("bin/inkling-train", "share/inkling/configs/a.yaml", "share/inkling/configs/b.yaml"):
                (prefix / name).parent.mkdir(parents=True, exist_ok=True)
                (prefix / name).write_text("")
            (prefix / "bin/inkling-train").chmod(0o755)
            here.mkdir()
            shell = self.kind(BUILD / "share", here, prefix / "bin")
            self.assertEqual(shell.completions("inkling-train "),
                             [f"{prefix}/share/inkling/configs/{name}.yaml" for name in "ab"])

    def test_names_with_spaces(self):
        run = Path(self.held.name) / "runs/my run"
        run.mkdir()
        (run / "config.yaml").write_text("")
        self.completes("inkling-sample runs/m", "runs/my run")
        (run / "config.yaml").unlink()

    def test_files_and_folders(self):
        self.completes("inkling-sample runs/tale --prompt-file n", "notes.txt")
        self.completes("inkling-train mine.yaml --out b", "books")


class WhereZshLooks(unittest.TestCase):
    def test_below_usr(self):
        fpath = subprocess.run(["zsh", "-fc", "print -l $fpath"], capture_output=True, text=True, check=True).stdout.split("\n")
        folders = [f"/usr/share/{path.parent.relative_to(BUILD / 'share')}" for path in (BUILD / "share/zsh").glob("*/_inkling")]
        self.assertTrue(set(folders) & set(fpath), f"{folders} are not among {fpath}")


def load_tests(loader, _tests, _pattern):
    suite = loader.loadTestsFromTestCase(WhereZshLooks)
    for kind in (Bash, BashWithItsCompletions, Zsh, Fish):
        suite.addTests(loader.loadTestsFromTestCase(type(kind.__name__, (Completion,), {"kind": kind})))
    return suite


if __name__ == "__main__":
    if subprocess.run([ROOT / "scripts/os-packages", "bash-completion", "zsh", "fish"], check=False).returncode != 0:
        print("skipped: zsh, fish and bash-completion cannot be installed here")
        sys.exit(3)
    unittest.main()
