"""Every form of tokenizer.json that inkling reads, beside tokenizers: what is done to a text before its words are merged, over
vocabularies that show it."""
import json
import random
import unicodedata

import tokenizers
from texts import ENGLISH, varied, worst
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers_compared import PATTERNS, Inkling, byte_signs

QWEN2 = PATTERNS["llama3"].replace("{1,3}", "")
# Each as some tokenizer.json has it, by what it cuts like.
EXPRESSIONS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "gpt2, shorter": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "gpt2, possessive": PATTERNS["gpt2"],
    "cl100k": PATTERNS["cl100k"].replace("'(?i:[sdmt]|ll|ve|re)", "(?i:'s|'t|'re|'ve|'m|'ll|'d)").replace("?+", "?").replace(
        "++", "+").replace("{1,3}+", "{1,3}").replace("*+", "*").replace(r"\s+$", r"\s+\z"),
    "cl100k, possessive": PATTERNS["cl100k"].replace("{1,3}+", "{1,3}"),
    "llama3": PATTERNS["llama3"],
    "llama3, possessive":
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+""",
    "qwen2": QWEN2,
}
THINK = [AddedToken("<think>", special=False, normalized=False), AddedToken("</think>", special=False, normalized=True),
         AddedToken("<|end|>", special=True, normalized=False)]


def split(expression, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), behavior, invert),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def digits(each):
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=each),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False)])


NOTHING = pre_tokenizers.Sequence([])
# (normalizer, pre-tokenizer) over bytes.
BYTE_FORMS = {
    **{name: (None, split(expression)) for name, expression in EXPRESSIONS.items()},
    "qwen2, removed, inverted": (normalizers.Sequence([]), split(QWEN2, "removed", True)),
    "llama3, isolated, inverted": (None, split(PATTERNS["llama3"], "isolated", True)),
    "gpt2, merged with next, inverted": (None, split(EXPRESSIONS["gpt2"], "merged_with_next", True)),
    "a sequence of one": (None, pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "each digit, gpt2": (None, digits(True)),
    "numbers, gpt2": (None, digits(False)),
    "NFC, qwen2": (normalizers.NFC(), split(QWEN2)),
    "NFC twice, gpt2": (normalizers.Sequence([normalizers.NFC(), normalizers.NFC()]),
                        pre_tokenizers.ByteLevel(add_prefix_space=False)),
}
SIGNS = normalizers.Replace(" ", "\u2581")
PREPENDED = normalizers.Sequence([normalizers.Prepend("\u2581"), SIGNS])
# The same over characters.
CHARACTER_FORMS = {
    "Prepend and Replace": (PREPENDED, None),
    "Replace alone": (SIGNS, NOTHING),
    **{f"Metaspace {scheme}, {'split' if splits else 'whole'}": (
        None, pre_tokenizers.Metaspace(prepend_scheme=scheme, split=splits))
       for scheme in ("first", "always", "never") for splits in (False, True)},
}


def probe_of_bytes():
    """A vocabulary in which bytes merge over every cut: those of ASCII of different kinds with each other, and with every byte
    beyond."""
    signs, near = byte_signs(), b"a1 \n\r!'sSb2"
    pairs = [(x, y) for x in near for y in near] + [(x, y) for x in near for y in range(128, 256)]
    pairs += [(y, x) for x in near for y in range(128, 256)]
    merges = [(signs[x], signs[y]) for x, y in pairs]
    names = [signs[byte] for byte in range(256)] + list(dict.fromkeys(x + y for x, y in merges))
    return models.BPE(vocab={name: number for number, name in enumerate(names)}, merges=list(dict.fromkeys(merges)))


def merges_of_characters(corpus, splits):
    """A vocabulary that tokenizers has learned from characters, with a token for each byte."""
    learning = Tokenizer(models.BPE(byte_fallback=True))
    learning.normalizer = SIGNS
    learning.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=splits)
    trainer = trainers.BpeTrainer(vocab_size=1500, limit_alphabet=300, show_progress=False, initial_alphabet=["\u2581"],
                                  special_tokens=["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))])
    learning.train_from_iterator(corpus.split("\n"), trainer)
    learned = json.loads(learning.to_str())["model"]
    return models.BPE(vocab=learned["vocab"], merges=[tuple(merge) for merge in learned["merges"]], byte_fallback=True,
                      fuse_unk=True, unk_token="<unk>")


def make_forms(corpus):
    """Yields each form by its name."""
    for name, (normalizer, words) in BYTE_FORMS.items():
        tokenizer = Tokenizer(probe_of_bytes())
        tokenizer.decoder = decoders.ByteLevel()
        yield name, tokenizer, normalizer, words
    for name, (normalizer, words) in CHARACTER_FORMS.items():
        tokenizer = Tokenizer(merges_of_characters(corpus, "split" in name))
        back = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence(back + ([] if "never" in name or "alone" in name else [decoders.Strip(" ", 1, 0)]))
        yield name, tokenizer, normalizer, words


def finish(tokenizer, normalizer, words, folder):
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if words is not None:
        tokenizer.pre_tokenizer = words
    # A token whose name the normalizer would prepend a space to is refused.
    added = [token for token in THINK if normalizer is not PREPENDED or not token.normalized]
    tokenizer.add_tokens(added)
    tokenizer.encode_special_tokens = True  # the name of a special token is text, to inkling
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))


def marked(count, seed, common):
    """Yields texts of letters and the marks that combine with them, of parts of Korean syllables, and of characters that NFC
    writes as others."""
    rng = random.Random(seed)
    marks = [chr(c) for c in common if unicodedata.combining(chr(c))]
    others = [chr(c) for c in common if unicodedata.normalize("NFC", chr(c)) != chr(c)]
    composed = [chr(c) for c in common if unicodedata.decomposition(chr(c)) and c < 0xAC00]
    korean = [chr(c) for c in range(0x1100, 0x1200) if c in set(common)] + [chr(c) for c in range(0xAC00, 0xAC80)]
    letters = list("aeiouAEnNcC \n1!") + [chr(c) for c in range(0x3B1, 0x3C9)] + [chr(c) for c in range(0x410, 0x430)]
    for _ in range(count):
        choices = rng.choice([letters, letters + composed, korean, letters + others, others])
        yield "".join(rng.choice(marks) if rng.random() < 0.4 else rng.choice(choices) for _ in range(rng.randrange(1, 40)))


def named(count, seed):
    """Yields texts with the names of added tokens in them."""
    rng = random.Random(seed)
    parts = ["<think>", "</think>", "<|end|>", " ", "a", "12", "\n", "<", "think", ">", "</", "\u0301", "\u0338", "  ", "'s"]
    for _ in range(count):
        yield "".join(rng.choice(parts) for _ in range(rng.randrange(1, 12)))


def worst_of_marks(length):
    """Marks whose order a program may bring about in quadratic time, and syllables that are composed part by part."""
    return {
        "two marks by turns": "a" + "\u0301\u0323" * (length // 4),
        "marks in falling order": "a" + "".join("\u0301" * (length // 6) + "\u0323" * (length // 6) + "\u0327" * (length // 6)),
        "Korean by its parts": "\u1100\u1161\u11a8" * (length // 9),
    }


def check_linear(tally, name, inkling):
    """Eight times the text takes eight times as long: 24 times is refused, and 64 times is what a square would take."""
    slow = []
    for kind in [*worst(100), *worst_of_marks(100)]:
        short, long = ({**worst(size), **worst_of_marks(size)}[kind] for size in (100_000, 800_000))
        times = [seconds for _, seconds in inkling.answers([short, long, short, long])]
        if min(times[1::2]) > 24 * min(times[::2]) + 0.01:
            slow.append(f"{kind} {min(times[::2]):.3f} and {min(times[1::2]):.3f} s")
    tally.note(not slow, f"{name}: linear time for the worst texts" + "".join(f"; not {words}" for words in slow))


def check_forms(tally, bin, work, corpus, count, common):
    nfc = normalizers.NFC()
    tried = ["a{}e", "a\u0301{}", "a{}\u0334", "a{}\u0323", "a\u0360{}"]  # so that a mark's class shows, too
    alike = [c for c in common if all(
        nfc.normalize_str(text.format(chr(c))) == unicodedata.normalize("NFC", text.format(chr(c))) for text in tried)]
    print(f"         NFC: tokenizers and Python differ on {len(common) - len(alike)} of {len(common):,} code points")
    for number, (name, tokenizer, normalizer, words) in enumerate(make_forms(corpus)):
        folder = work / f"form-{number}"
        finish(tokenizer, normalizer, words, folder)
        texts = [*varied(count, 3, alike), *named(count // 10 + 1, 4), *worst(20_000).values(), ENGLISH, "", " ", "  a"]
        texts += [*marked(count, 5, alike), *worst_of_marks(20_000).values()] if "NFC" in name else []
        texts = [text for text in texts if "\u2581" not in text]  # which tokenizers cannot tell from a space
        inkling = Inkling(bin / "print_tokens", folder, way="open")
        theirs = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        wrong = [text for text, a, b in zip(texts, inkling.tokens(texts), theirs, strict=True) if a != b]
        saved = work / f"form-{number}-saved"
        inkling.save(saved)
        again = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
        again.encode_special_tokens = True
        apart = [text for text, ids in zip(texts[:3000], theirs) if again.encode(text, add_special_tokens=False).ids != ids]
        tally.note(not wrong, f"{name}: {len(texts):,} texts as tokenizers has them" + "".join(
            f"; not {text[:60]!a}" for text in wrong[:3]))
        tally.note(not apart, f"{name}, saved by inkling: {len(texts[:3000]):,} texts as before" + "".join(
            f"; not {text[:60]!a}" for text in apart[:3]))
        check_linear(tally, name, inkling)
