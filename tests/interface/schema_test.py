"""The config's JSON schema, judged by jsonschema, says of a config what inkling says of it."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("INKLING_BUILD", ROOT / "build"))
SCHEMA = json.loads((BUILD / "share/inkling/config.schema.json").read_text())

# What each setting is tried with, beside the ends of its range and its words. Whole numbers written as fractions are
# left out: a JSON schema takes 1.0 for whole, and inkling refuses it with the advice to write 1.
VALUES = [None, True, False, -1, 0, 1, 2, 7, 64, 0.5, -0.5, 1.5, 1e-40, 1e12 + 0.5, 2 ** 63, 2 ** 70, "auto", "none", "no_such_word",
          "Auto", "7", "0.5", "true", "", " ", "a\tb", "a\n", "a.txt", "cuda:3", "cuda:03", "local 8", "local 0", "dilated 4 2",
          "full", [], ["a.txt"], ["full", "local 4"], ["a.txt", 5], [["a"]], {}, {"a": 1}]


def settings(schema=SCHEMA, section=()):
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from settings(inner, (*section, name))
        else:
            yield (*section, name), inner


def own_values(schema):
    """The words and the ends of the ranges of one setting, and what lies just beyond."""
    for key, value in schema.items():
        if key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            step = 1 if schema["type"] == "integer" else max(abs(value) * 1e-9, 1e-12)
            yield from (value, value - step, value + step)
        elif key == "enum":
            yield from value
        elif key == "anyOf":
            for inner in value:
                yield from own_values(inner)


def written(value) -> str:
    """As YAML: words without quotes, as people write them, all else as JSON."""
    if isinstance(value, str) and re.fullmatch("[a-z_][a-z_0-9]*", value) and value not in ("true", "false", "null"):
        return value
    if isinstance(value, list):
        return "[" + ", ".join(written(item) for item in value) + "]"
    return json.dumps(value)


def as_yaml(sections: dict) -> str:
    return ("{" + ", ".join(f"{name}: {as_yaml(value) if isinstance(value, dict) and value else written(value)}"
                            for name, value in sections.items()) + "}")


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.file = Path(cls.held.name) / "run.yaml"
        cls.validator = jsonschema.Draft202012Validator(SCHEMA)

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    def by_schema(self, text: str) -> bool:
        try:
            return self.validator.is_valid(ruamel.yaml.YAML(typ="safe", pure=True).load(text))
        except ruamel.yaml.error.YAMLError:
            return False

    def by_inkling(self, text: str) -> tuple[bool, str]:
        self.file.write_text(text)
        done = subprocess.run([BUILD / "bin/inkling-prepare", self.file.name, "--print-config"], cwd=self.held.name,
                              capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 2), done.stderr)
        return done.returncode == 0, done.stderr

    def agree(self, text: str, values: str):
        taken, message = self.by_inkling(text)
        if self.by_schema(text) == taken:
            return
        # Settings that do not fit together are inkling's affair: it does not say then what the one setting takes.
        self.assertFalse(taken or values in message,
                         f"{text}\nThe schema {'refuses' if taken else 'takes'} it. inkling: {message}")

    def test_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        self.assertGreater(len(list(settings())), 50)

    def test_takes_the_shipped_configs(self):
        for config in sorted((ROOT / "configs").glob("*.yaml")):
            content = ruamel.yaml.YAML(typ="safe", pure=True).load(config.read_text())
            self.assertEqual([error.message for error in self.validator.iter_errors(content)], [], config)

    def test_takes_what_print_config_prints(self):
        for config in ("fables", "llama_15m", "recall"):
            printed = subprocess.run([BUILD / "bin/inkling-prepare", ROOT / f"configs/{config}.yaml", "--print-config"],
                                     capture_output=True, text=True, check=True).stdout
            self.assertTrue(self.by_schema(printed), printed)

    def test_has_every_default(self):
        printed = self.by_inkling("data: {source: a.txt}")
        self.assertTrue(printed[0])
        text = subprocess.run([BUILD / "bin/inkling-prepare", self.file, "--print-config"], capture_output=True, text=True,
                              check=True).stdout
        config = ruamel.yaml.YAML(typ="safe", pure=True).load(text)
        for path, schema in settings():
            value = config
            if path == ("data", "source") or schema.get("deprecated"):
                continue
            for name in path:
                value = value[name]
            self.assertEqual(schema["default"], value, path)

    def test_refuses_every_kind_of_mistake(self):
        for text in ("dta: {source: a.txt}", "data: {sorce: a.txt}", "data: {source: a.txt, tokenizer: {kid: byte}}",
                     "model: {n_layer: 2}", "data: {stories: 5}", "data:", "data: a.txt", "data: {source: }", "data: {source: []}",
                     "data: {source: a.txt}\nmodel: 3", "data: {source: a.txt}\nmodel: {n_layer: two}",
                     "data: {source: a.txt}\nmodel: {n_layer: 0}", "data: {source: a.txt}\nmodel: {dropout: 1}",
                     "data: {source: a.txt}\nmodel: {n_layer: \"2\"}", "data: {source: a.txt}\nmodel: {norm: batchnorm}",
                     "data: {source: a.txt}\nmodel: {rope_scaling: yarn 4}",
                     "data: {source: a.txt}\nmodel: {gelu: tanh, activation: relu}", "[data]", "5"):
            self.assertFalse(self.by_schema(text), text)
            self.assertFalse(self.by_inkling(text)[0], text)

    def test_takes_every_way_of_writing(self):
        for text in ("data: {source: a.txt}", "data:\n  source: [a.txt, b]\nmodel:\n", "data: {source: a.txt, tokenizer: }",
                     "data: {source: a.txt}\noptimizer: {learning_rate: 4e-3, epsilon: .5}",
                     "data: {source: a.txt}\nmodel: {gelu: exact}", "data: {source: \"a.txt\"}\nruntime: {kernels: aten, device: cuda:1}",
                     "data: {source: a.txt}\nmodel: {attention: [full, local 128, dilated 64 4]}",
                     "data: {source: a.txt}\nmodel: {bias: qkv, rope_scaling: llama3 32 1 4 8192}"):
            self.assertTrue(self.by_schema(text), text)
            self.assertTrue(self.by_inkling(text)[0], text)

    def test_says_of_every_setting_what_inkling_says(self):
        for path, schema in settings():
            if schema.get("deprecated"):
                continue
            for value in VALUES + list(own_values(schema)):
                if isinstance(value, float) and value.is_integer():
                    continue
                sections = {"data": {"source": "a.txt"}}
                inner = sections
                for name in path[:-1]:
                    inner = inner.setdefault(name, {})
                inner[path[-1]] = value
                self.agree(as_yaml(sections), schema["x-values"])


if __name__ == "__main__":
    packages = subprocess.run([ROOT / "scripts/foreign-packages", "schema"], check=False, stdout=subprocess.PIPE, text=True)
    if packages.returncode != 0:
        print("skipped: jsonschema cannot be installed here")
        sys.exit(3)
    sys.path.insert(0, packages.stdout.strip())
    import jsonschema
    import ruamel.yaml
    unittest.main()
