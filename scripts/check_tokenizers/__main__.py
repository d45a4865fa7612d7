"""What scripts/check-tokenizers runs: BIN GPT2 [STRINGS | speed TEXT...], where BIN holds inkling's programs and GPT2 the
tokenizer files of GPT-2."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

import tokenizers
from foreign_models import check_foreign_models
from json_forms import check_forms
from texts import ENGLISH, assigned, varied, worst
from tokenizers_compared import Inkling, frames, make_probe, make_vocabularies

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
LATER_UNICODE = [range(0x2EBF0, 0x2EE5E)]  # assigned by 15.1, which some Pythons know; inkling's tables are of 15.0


class Tally:
    """Counts comparisons and prints a line for each."""

    def __init__(self):
        self.counts = {True: 0, False: 0}

    def note(self, agree, words):
        self.counts[agree] += 1
        print(f"{'agrees ' if agree else 'DIFFERS'}  {words}", flush=True)


def as_ranges(codes):
    """1, 2, 3, 7 as "U+0001..0003 U+0007"."""
    ranges = []
    for code in codes:
        if ranges and ranges[-1][1] + 1 == code:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    words = [f"U+{a:04X}" if a == b else f"U+{a:04X}..{b:04X}" for a, b in ranges]
    return " ".join(words[:12]) + (f" and {len(words) - 12} more" if len(words) > 12 else "")


def check_code_points(tally, vocabulary):
    """Cuts every code point between letters, digits, spaces and signs. Returns those on which all agree."""
    codes = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    texts = [f"a{chr(c)}a {chr(c)}1{chr(c)}1 !{chr(c)}!{chr(c)}\n{chr(c)} \n{chr(c)}" for c in codes]
    mine = vocabulary.inkling.tokens(texts)
    different = set()
    for name, encode in vocabulary.judges().items():
        found = [c for c, text, tokens in zip(codes, texts, mine) if encode(text) != tokens]
        wrong = [
            c
            for c in found
            if unicodedata.category(chr(c)) != "Cn" and not any(c in later for later in LATER_UNICODE)
        ]
        words = f"{vocabulary.name}: {len(codes):,} code points as {name} has them"
        if found:
            words += f", but for {len(found):,}, {len(wrong)} of them assigned in Unicode 15.0: {as_ranges(wrong or found)}"
        tally.note(not wrong, words)
        different.update(found)
    return [c for c in assigned() if c not in different]


def check_texts(tally, vocabulary, texts):
    mine = vocabulary.inkling.tokens(texts)
    theirs = {name: [encode(text) for text in texts] for name, encode in vocabulary.judges().items()}
    characters = sum(map(len, texts))
    for name, tokens in theirs.items():
        wrong = [text for text, a, b in zip(texts, mine, tokens) if a != b]
        words = f"{vocabulary.name}: {len(texts):,} texts of {characters:,} characters as {name} has them"
        tally.note(not wrong, words + "".join(f"; not {text[:60]!a}" for text in wrong[:5]))
    apart = [text for text, a, b in zip(texts, *theirs.values()) if a != b]
    print(f"         {vocabulary.name}: {' and '.join(theirs)} differ from each other on {len(apart)} of them")


def learned(bin, text, size):
    """inkling's merges and vocabulary, and its seconds."""
    command = [bin / "print_tokens", "learn", str(size)]
    run = subprocess.run(command, input=frames([text]), capture_output=True, check=True)
    return json.loads(run.stdout)["model"], float(run.stderr)


def learned_by_tokenizers(text, size):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    start = time.process_time()
    tokenizer.train_from_iterator([text], trainer=trainer)
    seconds = time.process_time() - start
    return json.loads(tokenizer.to_str())["model"], seconds


def merges_of(model):
    return [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]


def check_learning(tally, bin, texts):
    for name, text in texts.items():
        (mine, _), (theirs, _) = learned(bin, text, 8192), learned_by_tokenizers(text, 8192)
        agree = merges_of(mine) == merges_of(theirs) and mine["vocab"] == theirs["vocab"]
        tally.note(agree, f"{len(mine['merges']):,} merges learned from {name} as tokenizers learns them")


KINDS = {
    "byte": "kind: byte",
    "char": "kind: char",
    "sentencepiece unigram": "kind: sentencepiece, vocab_size: 3000, character_coverage: 0.99",
    "sentencepiece bpe": "kind: sentencepiece, model_type: bpe, vocab_size: 3000, character_coverage: 0.99",
    "bpe": "kind: bpe, vocab_size: 2000",
    "bpe by llama3's pattern": "kind: bpe, pattern: llama3, vocab_size: 2000",
    "bpe from gpt2": "kind: bpe, from: gpt2",
}
UNLIKE = re.compile("\u2581|<0x[0-9A-F]{2}>|</s>|<unk>")  # is encoded otherwise there (text/hugging_face_files.h)


def documentation():
    return "".join(page.read_text() for page in sorted(ROOT.glob("docs/**/*.md")))


def check_folders(tally, bin, work, texts):
    """The tokens that tokenizers gives from what inkling writes beside a data set, for every kind."""
    corpus = "\n".join(texts[:200]) + documentation() + ENGLISH
    (work / "corpus.txt").write_bytes(corpus.encode())
    # The same once more as two documents, so that there is a separator.
    (work / "more.txt").write_text(ENGLISH)
    for name, settings in KINDS.items():
        for sources in ("corpus.txt", "corpus.txt, more.txt"):
            folder = Path(tempfile.mkdtemp(dir=work)) / "data"
            config = work / "prepare.yaml"
            config.write_text(f"data: {{source: [{sources}], dir: '{folder}', tokenizer: {{{settings}}}}}\n")
            subprocess.run([bin / "inkling-prepare", config], cwd=work, capture_output=True, check=True)
            foreign = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            seen = set(corpus)
            chosen = [text for text in texts + [ENGLISH] if not UNLIKE.search(text)]
            if name == "char":
                chosen = ["".join(c for c in text if c in seen) for text in chosen]
            mine = Inkling(bin / "print_tokens", folder, way="open").tokens(chosen)
            theirs = [foreign.encode(text, add_special_tokens=False).ids for text in chosen]
            wrong = [text for text, a, b in zip(chosen, mine, theirs) if a != b]
            back = [text for text, ids in zip(chosen, theirs) if foreign.decode(ids) != text]
            words = f"{name}, {foreign.get_vocab_size():,} tokens: {len(chosen):,} texts as tokenizers has them from the folder"
            words += "".join(f"; not {text[:60]!a}" for text in wrong[:3])
            words += "".join(f"; not back {text[:60]!a}" for text in back[:3])
            tally.note(not wrong and not back, words)


def check(bin, gpt2, count, work):
    tally = Tally()
    for vocabulary in make_vocabularies(bin, gpt2, work):
        probe = make_probe(bin, work, vocabulary.name)
        common = check_code_points(tally, probe)
        texts = list(varied(count, 1, common))
        check_texts(tally, vocabulary, texts)
        check_texts(tally, probe, texts)
        check_texts(tally, vocabulary, list(worst(20_000).values()))
    check_folders(tally, bin, work, texts[:10_000])
    check_foreign_models(tally, bin, work, documentation(), texts[:10_000])
    check_forms(tally, bin, work, documentation(), 100_000 if os.environ.get("INKLING_NIGHTLY") else count, common)
    texts = {"English": ENGLISH * 50, "varied texts": " ".join(varied(20_000, 2, common))}
    check_learning(tally, bin, texts)
    print(f"{tally.counts[True]} agree, {tally.counts[False]} differ")
    return 1 if tally.counts[False] else 0


def measure(name, text, programs):
    """Prints a line for each program: MB/s of one core in the median of interleaved rounds, and inkling's ratio to it."""
    size = len(text.encode()) / 1e6
    seconds = {program: [] for program in programs}
    for _ in range(ROUNDS):
        for program, encode in programs.items():
            if isinstance(encode, Inkling):
                seconds[program].append(encode.seconds(text))
                continue
            start = time.thread_time()
            encode(text)
            seconds[program].append(time.thread_time() - start)
    ours = seconds["inkling"]
    for program, times in seconds.items():
        ratios = sorted(theirs / mine for mine, theirs in zip(ours, times))
        print(
            f"| {name} | {program} | {size / statistics.median(times):.1f} | {1e3 * statistics.median(times) / size:.1f} | "
            f"{statistics.median(ratios):.1f} ({ratios[0]:.1f}-{ratios[-1]:.1f}) |",
            flush=True,
        )


def speed(bin, gpt2, files, work):
    print("| Text, vocabulary | Program | MB/s | ns/byte | inkling is faster by |\n|---|---|---|---|---|")
    texts = {Path(file).name: Path(file).read_bytes().decode()[:10_000_000] for file in files}
    for vocabulary in make_vocabularies(bin, gpt2, work):
        if vocabulary.name == "llama3":
            continue
        programs = {"inkling": vocabulary.inkling, "tiktoken": vocabulary.tiktoken.encode_to_numpy}
        programs["tokenizers"] = lambda text, foreign=vocabulary.tokenizers: foreign.encode_batch_fast([text])
        for name, text in texts.items():
            measure(f"{name}, {vocabulary.name}", text, programs | vocabulary.others)
        for name, text in worst(1_000_000).items():
            measure(f"{name}, {vocabulary.name}", text, {"inkling": vocabulary.inkling})
    print("\n| Text, tokens learned | inkling, s | tokenizers, s | inkling is faster by |\n|---|---|---|---|")
    for name, text in texts.items():
        pairs = [(learned(bin, text, 32768)[1], learned_by_tokenizers(text, 32768)[1]) for _ in range(3)]
        mine, theirs = (statistics.median(times) for times in zip(*pairs))
        print(f"| {name}, 32,768 | {mine:.2f} | {theirs:.2f} | {theirs / mine:.1f} |", flush=True)
    return 0


def main():
    bin, gpt2, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        if words[:1] == ["speed"]:
            return speed(Path(bin), Path(gpt2), words[1:], Path(work))
        return check(Path(bin), Path(gpt2), int(words[0]) if words else 30_000 if os.environ.get("INKLING_NIGHTLY") else 3_000, Path(work))


sys.exit(main())
