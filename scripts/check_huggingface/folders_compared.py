"""The folders of real_models.py, each as published, as transformers saves it again, and with tokenizer.model alone: what
tokenizers, sentencepiece and transformers make of each, against inkling's programs. A line has five words:

    ids          print_tokens: what tokenizers has from tokenizer.json, sentencepiece where there is tokenizer.model alone
    sample       inkling-sample's likeliest text: what generate of transformers has in float32
    eval         inkling-eval of a text of one window, and of questions: transformers' losses
    train        20 steps of inkling-train, and the checkpoint as transformers opens it
    saved again  that checkpoint as transformers saves it, as inkling opens it"""
import json
import shutil
import subprocess
import time

import torch
from comparison import open_with_transformers, read_config, relative_tolerance, run
from folder_judges import LONG, JsonJudge, judge_of, read_json, texts_of, tokens_of
from real_folders import Maker
from real_models import FOLDERS, make_folder
from transformers import AutoModelForCausalLM, AutoTokenizer

CELLS = ["ids", "sample", "eval", "train", "saved again"]
PROMPTS = ["The fox", "It was 2024, and 1,000 of", "naïve café: 你好", "def f(x):\n\treturn", "<think>\nWhy"]
TOKENS = 64
EVALUATED = ("The fox didn't cross the river in 2024, because it was too deep.\n\n"
             "It said: “naïve café”, 12345 times; 你好 (and  so\ton).\n")
QUESTIONS = [
    {"context": "The fox did not cross the river because it was too", "endings": [" deep", " tired", " 2024 miles"], "label": 0},
    {"context": "What is 12 and 30? ", "endings": ["42", "forty", "1230"], "label": 0},
    {"context": "naïve", "endings": [" café", "té", "\nline"], "label": 1}]
TRAINING = """
data: {{source: {text}, dir: {dir}, val_fraction: 0.1}}
model: {{init_from: {folder}}}
optimizer: {{learning_rate: 1e-3}}
schedule: {{warmup_steps: 0}}
training: {{max_steps: 20, batch_size: 2}}
evaluation: {{interval: 20, batches: 1}}
checkpoint: {{interval: 20}}
runtime: {{device: cpu, threads: 1}}
"""
LEGEND = """
The name of a special token in a text is text, to inkling and so to every judge; that of any other added token is the token.
sentencepiece-like tokenizers: texts with U+2581 and with names of bytes (<0x0A>) are encoded otherwise, as docs/formats.md
says, and are not asked for. Nor does a model draw <unk> or single bytes there, which each program writes as other text.
sample: the likeliest token is an end of texts now and then. Where the texts differ, the two likeliest tokens must be nearer
to each other than 1e-4.
eval: the text fits into one window, with the token in front that the post_processor or else the end of texts gives.
sample: texts are decoded by the tokenizer alone, without AutoTokenizer's clean_up_tokenization_spaces.
saved by transformers 5: the judge is the tokenizer.json that it saves, which may be another tokenizer than the published
one (SmolLM2 without Digits, Llama 2 without a space in front of a text that begins with one)."""


class Folder:
    """One folder in one form."""

    def __init__(self, inkling, work, folder):
        self.inkling, self.work, self.folder, self.checkpoint = inkling, work, folder, None
        self.judge, self.texts, self.model = judge_of(folder), texts_of(folder), open_with_transformers(folder)

    def program(self, name, *arguments):
        return run(self.inkling.train_program.parent / name, *arguments)

    def cell(self, name):
        """Returns an empty text where both agree, or else what differs."""
        try:
            return getattr(self, name.replace(" ", "_"))()
        except Exception as error:  # of either program: what cannot be opened does not agree
            said = (str(error).splitlines() or ["?"])[0].rpartition("error: ")[2].replace(f"{self.work}/", "")
            return said if isinstance(error, RuntimeError) else f"{type(error).__name__}: {said}"

    def compare_ids(self, ours, theirs):
        apart = [place for place, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
        shown = "; ".join(f"{self.texts[place][:40]!a} is {ours[place][:12]} for {theirs[place][:12]}" for place in apart[:3])
        return f"{len(apart)} of {len(ours)} texts have other ids: {shown}" if apart else ""

    @torch.no_grad()
    def compare_logits(self, folder, model, tokens):
        expected = model(torch.tensor([tokens])).logits[0]
        difference = (self.inkling.logits(folder, tokens) - expected).abs().max().item()
        allowed = relative_tolerance * max(1.0, expected.abs().max().item())
        return "" if difference <= allowed else f"logits are {difference:.2e} apart, of {allowed:.1e}"

    def ids(self):
        return self.compare_ids(tokens_of(self.inkling, self.folder, self.texts), [self.judge.ids(text) for text in self.texts])

    @torch.no_grad()
    def sample(self):
        words = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
        lines = self.program("inkling-sample", self.folder, "--json", "--temperature", 0, "--max-tokens", TOKENS, *words)
        said = [self.sampled(prompt, json.loads(line)["text"]) for prompt, line in zip(PROMPTS, lines.splitlines(), strict=True)]
        return next(filter(None, said), "")

    def sampled(self, prompt, ours):
        ids = self.judge.prompt(prompt)
        made = self.model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False, pad_token_id=0,
            max_new_tokens=TOKENS, output_logits=True, return_dict_in_generate=True)
        new = made.sequences[0, len(ids):].tolist()
        ends = self.model.generation_config.eos_token_id
        shown = new[:-1] if new[-1] in (ends if isinstance(ends, list) else [ends]) else new
        begin = len(self.judge.decode(ids))
        expected = self.judge.decode(ids + shown)[begin:]
        # The bytes of a character that is not complete at the end stand in transformers' text alone.
        if expected.startswith(ours) and not expected[len(ours):].strip("\ufffd"):
            return self.compare_logits(self.folder, self.model, ids + new)
        others = self.inkling.continuation(self.folder, ids, len(new))
        same = next((place for place in range(len(new)) if others[place] != new[place]), len(new))
        if same < len(new):
            first, second = made.logits[same][0].topk(2).values.tolist()
            if first - second < 1e-4 and ours.startswith(self.judge.decode(ids + new[:same])[begin:].rstrip("\ufffd")):
                return self.compare_logits(self.folder, self.model, ids + new)
        at = next((place for place, (a, b) in enumerate(zip(ours, expected)) if a != b), min(len(ours), len(expected)))
        return (f"{prompt!r} goes on with {ours[at:at + 30]!r} for {expected[at:at + 30]!r} behind {at} characters, "
                f"{same} of {len(new)} tokens the same")

    def token_in_front(self):
        """What the tokenizer puts in front of a text, or else the end of texts."""
        front = self.judge.prompt("")
        if front:
            return front
        tokenizer = self.judge.tokenizer
        for file in ("tokenizer_config.json", "special_tokens_map.json"):
            name = read_json(self.folder / file).get("eos_token")
            if name:
                return [tokenizer.token_to_id(name if isinstance(name, str) else name["content"])]
        return [read_config(self.folder)["eos_token_id"]]

    @torch.no_grad()
    def nats(self, given, tokens):
        """-log p of each of `tokens`, which come behind the tokens given."""
        log_p = self.model(torch.tensor([given + tokens[:-1]])).logits[0].double().log_softmax(-1)
        return -log_p[len(given) - 1:].gather(1, torch.tensor(tokens)[:, None])[:, 0]

    def eval(self):
        file, questions = self.work / "evaluated.txt", self.work / "questions.jsonl"
        file.write_text(EVALUATED)
        questions.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
        ours = json.loads(self.program("inkling-eval", self.folder, "--text", file, "--json"))
        nats = self.nats(self.token_in_front(), self.judge.ids(EVALUATED))
        if ours["tokens"] != len(nats) or abs(ours["loss"] - nats.mean()) > 1e-5 * max(1, nats.mean()):
            return f"loss {ours['loss']:.7f} of {ours['tokens']} tokens for {nats.mean():.7f} of {len(nats)}"
        lines = self.program("inkling-eval", self.folder, "--choices", questions, "--each", "--json").splitlines()
        answers = [json.loads(line) for line in lines[:-1]]  # the last line is of all questions
        said = [self.answered(question, answer) for question, answer in zip(QUESTIONS, answers, strict=True)]
        return next(filter(None, said), "")

    def answered(self, question, ours):
        """Tokens and scores as lm-eval has them: white space between the context and an ending is the ending's."""
        context = question["context"].rstrip()
        given = self.judge.prompt(context)
        wholes = [self.judge.prompt(question["context"] + ending)[len(given):] for ending in question["endings"]]
        theirs = [-self.nats(given, tokens).sum().item() for tokens in wholes]
        near = all(abs(a - b) <= 1e-5 * max(1, abs(b)) for a, b in zip(ours["log_likelihoods"], theirs, strict=True))
        same = sorted(range(len(theirs)), key=lambda place: ours["log_likelihoods"][place]) == sorted(
            range(len(theirs)), key=lambda place: theirs[place])
        return "" if near and same else f"{context!r}: endings have {ours['log_likelihoods']} for {theirs}"

    def train(self):
        text, config, out = self.work / "text.txt", self.work / "train.yaml", self.work / f"{self.folder.name}-run"
        text.write_text(LONG * 2)
        config.write_text(TRAINING.format(text=text, dir=f"{out}-data", folder=self.folder))
        self.checkpoint = self.inkling.train(config, out, {})
        model = open_with_transformers(self.checkpoint)
        said = [self.not_kept(), self.compare_logits(self.checkpoint, model, self.judge.ids(EVALUATED))]
        tokenizer = JsonJudge(AutoTokenizer.from_pretrained(self.checkpoint).backend_tokenizer)
        self.trained_ids = tokens_of(self.inkling, self.checkpoint, self.texts)
        said.append(self.compare_ids(self.trained_ids, [tokenizer.ids(text) for text in self.texts]))
        said.append(self.compare_ids(self.trained_ids, tokens_of(self.inkling, self.folder, self.texts)))
        return "; ".join(filter(None, said))

    def not_kept(self):
        """What the folder says of its family and of how to generate, and the checkpoint does not."""
        lost = []
        for file, keys in (("config.json", ["architectures", "bos_token_id", "eos_token_id"]), ("generation_config.json", None)):
            before, after = (read_json(place / file) for place in (self.folder, self.checkpoint))
            keys = keys or before.keys() - {"_from_model_config", "transformers_version"}
            lost += [f"{key} of {file} is {after.get(key)} for {before[key]}"
                     for key in sorted(keys) if after.get(key) != before[key]]
        return ", ".join(lost)

    def saved_again(self):
        if not self.checkpoint:
            return "no checkpoint"
        folder = self.work / f"{self.folder.name}-saved-again"
        model = open_with_transformers(self.checkpoint)
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(self.checkpoint).save_pretrained(folder)
        said = [self.compare_ids(tokens_of(self.inkling, folder, self.texts), self.trained_ids),
                self.compare_logits(folder, model, self.judge.ids(EVALUATED))]
        return "; ".join(filter(None, said))


def forms_of(published):
    """Makes the folder's other forms beside it."""
    yield "as published", published
    saved = published.with_name(published.name + "-saved")
    AutoModelForCausalLM.from_pretrained(published).save_pretrained(saved)
    AutoTokenizer.from_pretrained(published).save_pretrained(saved)
    yield "saved by transformers 5", saved
    if (published / "tokenizer.model").exists():
        alone = published.with_name(published.name + "-model")
        shutil.copytree(published, alone, ignore=shutil.ignore_patterns("tokenizer.json"))
        yield "tokenizer.model alone", alone


def texts_apart(published, other):
    """Says on which texts two forms of a folder are two tokenizers by the judges themselves."""
    first, second = judge_of(published), judge_of(other)
    apart = [text for text in texts_of(published) if first.ids(text) != second.ids(text)]
    return f"{len(apart)} texts, as {', '.join(ascii(text[:24]) for text in apart[:4])}" if apart else ""


def without_warnings(inkling):
    """Starts print_logits so that what it warns of does not stand between the lines of a table."""
    inkling.printer = subprocess.Popen(
        [inkling.print_program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def check_folders(tally, inkling, work, make_model, names):
    maker, details, notes, begin = Maker(work, make_model), [], [], time.monotonic()
    without_warnings(inkling)
    print(f"{'folder':22}{'form':25}" + "".join(f"{cell:12}" for cell in CELLS))
    for name in names or FOLDERS:
        published = make_folder(maker, name)
        for form, folder in forms_of(published):
            if folder != published and (apart := texts_apart(published, folder)):
                notes.append(f"{name}, {form}: not the published tokenizer.json on {apart}")
            opened = Folder(inkling, work, folder)
            said = {cell: opened.cell(cell) for cell in CELLS}
            for words in dict.fromkeys(filter(None, said.values())):
                details.append(f"{name}, {form}, {', '.join(cell for cell in CELLS if said[cell] == words)}: {words}")
            for words in said.values():
                tally.counts[not words] += 1
            print(f"{name:22}{form:25}" + "".join(f"{'DIFFERS' if said[cell] else 'agree':12}" for cell in CELLS), flush=True)
    print("", *details, "", *notes, LEGEND, f"{time.monotonic() - begin:.0f} s", sep="\n")
