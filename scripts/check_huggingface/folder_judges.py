"""The texts on which the tokenizers of folders are compared, and who judges: tokenizers for a tokenizer.json, the sentencepiece
library for a tokenizer.model alone."""
import json
import struct
import subprocess
import unicodedata

from real_folders import FOREIGN, ROOT
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

LONG = (ROOT / "docs/design.md").read_text()
TEXTS = [
    "", "a", " ", "  ", "\n", "\t", "\r\n", "Hello, world!", " begins with a space", "  begins with two", "ends with a space ",
    "\nbegins with a line end", "\tbegins with a tab", "The fox didn't cross; it's they'LL we've I'M HE'D 'S", "don't'st",
    "1", "12", "123", "1234", "12345 67", "in 2024 and 1995", "3.14159, 1,000,000", " 7", "  8", "a1b22c333", "x = 10\ny = 200",
    "\u0663\u0664\u0665 \u00bd \u2167 \u00b2", "12\u00a0345", "word  two   three    four", "a\n\nb\n\n\nc", "a \n b\t\n\tc",
    "a\r\nb\rc", "    indented\n        more", "\n\n\n\n", "          ", "\t\t\t", "tab\tbetween", "a\u00a0b\u2003c\u3000d",
    "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m", "nai\u0308ve cafe\u0301 A\u030angstro\u0308m",
    unicodedata.normalize("NFC", "Việt Nam, 한국어 조선"), unicodedata.normalize("NFD", "Việt Nam, 한국어 조선"),
    "\u212b \u2126 \ufb01 \uff46\uff55\uff4c\uff4c", "q\u0307\u0323 q\u0323\u0307", "Привет, мир", "你好世界", "किताब", "עברית عربي",
    "👍🏽 👩\u200d👩\u200d👧 🇩🇪", "\u200b\ufeff\u00ad", "\x00\x01\x7f", "!!! ??? ... --- ***", "#include <stdio.h>",
    "http://a.b/c?d=e&f=g", "CamelCase snake_case kebab-case", "a.b.c,d;e:f", "'quoted' \"double\"", "$x^2$ {y} [z]",
    "\u017f \u00df \u0149 \u0130", "_a_ __b__", "x" * 300, FOREIGN, LONG]


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


def tokens_of(inkling, folder, texts):
    """As Inkling.tokens, with the program's own words where it fails."""
    frames = b"".join(struct.pack("<I", len(data)) + data for data in (text.encode() for text in texts))
    done = subprocess.run([inkling.tokens_program, "open", folder], input=frames, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.decode().splitlines() or ["print_tokens says nothing"])[0])
    numbers, at, answers = memoryview(done.stdout).cast("I").tolist(), 0, []
    while at < len(numbers):
        end = at + 2 + numbers[at + 1]
        answers.append(numbers[at + 2:end])
        at = end
    return answers


class JsonJudge:
    """tokenizers with the tokenizer.json of a folder, or with what transformers has made of one."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.tokenizer.encode_special_tokens = True

    def ids(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt(self, text):
        return self.tokenizer.encode(text).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids)


class PieceJudge:
    """sentencepiece with a tokenizer.model, and <s> in front of a prompt, as LlamaTokenizer has it."""

    def __init__(self, folder):
        self.model = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    def ids(self, text):
        return self.model.encode(text)

    def prompt(self, text):
        return [self.model.bos_id(), *self.ids(text)]

    def decode(self, ids):
        return self.model.decode([id for id in ids if id < len(self.model)])


def judge_of(folder):
    if (folder / "tokenizer.json").exists():
        return JsonJudge(Tokenizer.from_file(str(folder / "tokenizer.json")))
    return PieceJudge(folder)


def texts_of(folder):
    """TEXTS, and some around the names of added tokens."""
    entries = read_json(folder / "tokenizer.json").get("added_tokens", [])
    names = [entry["content"] for kind in (True, False) for entry in [e for e in entries if e["special"] == kind][:4]]
    names = names or ["<s>", "</s>", "[INST]"]
    return [*TEXTS, *(around.format(name) for name in names for around in ("{0}", "a{0}b", " {0} {0}\n{0}c"))]
