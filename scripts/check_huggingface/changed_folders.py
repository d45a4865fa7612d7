"""One change at a time of tokenizer.json, tokenizer_config.json or config.json in the tiny folders of real_models.py: inkling
computes with it what tokenizers or transformers computes, or refuses the folder and names the field and its value. Where
neither of these opens the folder, any refusal will do.

tokenizer.json is judged by tokenizers, tokenizer_config.json by AutoTokenizer, both by ids and by a greedy text; config.json by
transformers' logits. Truncation and padding are left off, as transformers leaves them for whoever does not ask for them."""
import json

import torch
from changes import CONFIGS, LACKING, TOKENIZER_CONFIGS, TOKENIZERS
from comparison import open_with_transformers, read_config
from folder_judges import JsonJudge, tokens_of
from folders_compared import TOKENS, Folder, without_warnings
from real_folders import Maker, write_json
from real_models import make_folder
from tokenizers import Tokenizer
from transformers import AutoTokenizer

PROMPT = "The fox was 12 of"


def set_at(content, path, value):
    """Changes the field at `path`, whose words are keys and places in lists. Returns what the field is now."""
    *way, last = path.split(".")
    for word in way:
        content = content[int(word) if isinstance(content, list) else word]
    last = int(last) if isinstance(content, list) else last
    if callable(value):
        value = value(content[last])
    if value is LACKING:
        del content[last]
    else:
        content[last] = value
    return value


def words_of(value):
    """What a refusal may say of a value: itself, its first characters, its type, or one of the fields in it and that value."""
    if isinstance(value, dict):
        inside = [f"{key} is {json.dumps(each)}" for key, each in value.items() if not isinstance(each, (dict, list))]
        nested = [word for each in value.values() if isinstance(each, (dict, list)) for word in words_of(each)]
        return [str(value[key]) for key in ("type", "rope_type") if key in value] + inside + nested + first_signs(value)
    if isinstance(value, list):
        named = [word for each in value if isinstance(each, dict) or len(value) < 5 for word in words_of(each)]
        return named + first_signs(value)
    if isinstance(value, str):
        return [value[:10], json.dumps(value)[1:11]]
    return ["missing", "no "] if value is LACKING else [json.dumps(value), "missing" if value is None else f"{value:g}"]


def first_signs(value):
    """Of an object or a list, with its keys in the order of the file or sorted."""
    return [json.dumps(value, separators=(",", ":"), sort_keys=is_sorted)[:12] for is_sorted in (False, True)]


def names_it(refusal, path, words):
    """Whether a message names the field, or the one that it is in, and one of the words."""
    fields = [word for word in path.split(".") if not word.isdigit()][-2:]
    fields += [field.rstrip("s").replace("_", " ") for field in fields]  # "the added token 5" of added_tokens
    words = ["unknown field", *words]
    return any(field in refusal for field in fields) and any(word in refusal for word in words)


class Changed:
    """A folder of which one file is changed."""

    def __init__(self, inkling, work, folder, file):
        self.inkling, self.work, self.folder, self.file = inkling, work, folder, file
        self.text, self.before, self.now = (folder / file).read_text(), None, None
        if file != "config.json":
            self.opened = Folder(inkling, work, folder)

    def judged(self, path):
        """The tokenizer's judge, the folder being as it is now. Another class has transformers leave tokenizer.json aside."""
        if self.file == "tokenizer.json" or path == "tokenizer_class":
            tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        else:
            tokenizer = AutoTokenizer.from_pretrained(self.folder).backend_tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return JsonJudge(tokenizer)

    def tokens_differ(self):
        """Returns what differs; throws what inkling says where it refuses, None in place of a judge where there is none."""
        ids = tokens_of(self.inkling, self.folder, self.opened.texts)
        words = ["--json", "--temperature", 0, "--max-tokens", TOKENS, "--prompt", PROMPT]
        line = self.opened.program("inkling-sample", self.folder, *words)
        if self.opened.judge is None:
            return "computed, which the judge does not open"
        self.now = ids, line
        return (self.opened.compare_ids(ids, [self.opened.judge.ids(text) for text in self.opened.texts])
                or self.opened.sampled(PROMPT, json.loads(line)["text"]))

    @torch.no_grad()
    def logits_differ(self, model):
        tokens = [(7919 * place + 5) % 600 for place in range(60)]
        ours = self.inkling.logits(self.folder, tokens)
        if model is None:
            return "computed, which transformers does not open"
        self.now = ours.tolist()
        expected = model(torch.tensor([tokens])).logits[0]
        difference = (ours - expected).abs().max().item()
        return "" if difference <= 1e-4 * max(1.0, expected.abs().max().item()) else f"logits are {difference:.1e} apart"

    def differs(self, path=""):
        """Opens the folder with the judge, then compares. Returns whether there is a judge, and what differs."""
        try:
            judge = open_with_transformers(self.folder) if self.file == "config.json" else self.judged(path)
        except BaseException as error:  # whatever tokenizers, which panics, too, or transformers does not open
            if isinstance(error, KeyboardInterrupt):
                raise
            judge = None
        if self.file == "config.json":
            return judge, lambda: self.logits_differ(judge)
        self.opened.judge = judge
        return judge, self.tokens_differ

    def try_change(self, path, value, words=None):
        content = json.loads(self.text)
        value = set_at(content, path, value)
        write_json(self.folder, self.file, content)
        judge, differs = self.differs(path)
        try:
            said = differs()
        except RuntimeError as error:
            refusal = str(error).rpartition("error: ")[2].replace(f"{self.work}/", "").replace(self.folder.name, "")
            named = judge is None or names_it(refusal, path, words_of(value) + [words] * bool(words))
            return named, f"refused{'' if named else ' WITHOUT ITS NAME'}: {refusal[:170]}"
        finally:
            (self.folder / self.file).write_text(self.text)
        return not said, said or f"the same numbers, {'as' if self.now == self.before else 'others than'} without the change"

    def unchanged(self):
        """Without a change, so that what is refused or differs later is the change."""
        said = self.differs()[1]()
        self.before = self.now
        return not said, said or "the same"


def short(value, words=""):
    text = words if callable(value) else "missing" if value is LACKING else json.dumps(value)
    return text if len(text) < 70 else text[:66] + " ..."


def check_changes(tally, inkling, work, make_model, names):
    without_warnings(inkling)
    maker = Maker(work, make_model)
    tables = {"tokenizer.json": TOKENIZERS, "tokenizer_config.json": TOKENIZER_CONFIGS, "config.json": CONFIGS}
    for name in names or dict.fromkeys(name for table in tables.values() for name in table):
        folder = make_folder(maker, name)
        config = read_config(folder)
        if config.get("rope_scaling"):  # so that a tokenizer is compared where only its model is refused
            write_json(folder, "config.json", {**config, "rope_scaling": None})
        (folder / "tokenizer.model").unlink(missing_ok=True)  # and a tokenizer.json where a tokenizer.model comes with it
        for file, table in tables.items():
            changes = table.get(name, [])
            if file == "config.json":  # the model alone, whatever its tokenizer
                for path in [*folder.glob("*token*"), *folder.glob("merges.txt"), *folder.glob("vocab.json")]:
                    path.unlink()
            changed = Changed(inkling, work, folder, file) if changes else None
            right = tally.counts[True]
            if changes:
                tally.judge(f"{name}, {file}", changed.unchanged)
            if changes and tally.counts[True] == right:
                print(f"         {name}, {file}: {len(changes)} changes are not tried")
                continue
            for path, value, *words in changes:
                tally.judge(f"{name}, {file}: {path} {short(value, *words)}", changed.try_change, path, value, *words)
