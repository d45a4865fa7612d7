"""The texts on which tokenizers are compared."""
import random
import sys
import unicodedata

ENGLISH = """The animal didn't cross the street because it was too tired, so the fox said: "We'll wait, I'm sure they've
    seen 1,024 lights (or 3.14?) -- isn't it?"  HE'LL go; SHE'S gone.\r\n\tdef f(x): return x**2  # naïve café\n\n\n"""


def assigned():
    """The code points of characters that this Python knows, and of private use. Surrogates are none."""
    return [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def blocks(code_points):
    """Runs of neighbours of 256: most scripts are in a few of them."""
    by_block = {}
    for code in code_points:
        by_block.setdefault(code >> 8, []).append(chr(code))
    return list(by_block.values())


def varied(count, seed, code_points):
    """Yields `count` texts out of these code points, the same for the same seed."""
    rng = random.Random(seed)
    known = set(code_points)
    every = [chr(c) for c in code_points]
    scripts = blocks(code_points)
    spaces = [c for c in every if c.isspace()] + [" "] * 9 + ["\n", "\n", "\r\n"]
    digits = [c for c in every if unicodedata.category(c)[0] == "N"] + list("0123456789") * 60
    contractions = ["'s", "'S", "'ll", "'LL", "'Ve", "'re", "'d", "'\u017f", "'", "\u2019s", "'t", "'m", "'v", "l", "a", "B", " ", "1"]

    def some(choices, most):
        return "".join(rng.choice(choices) for _ in range(rng.randrange(1, most)))

    kinds = [
        lambda: some(every, 40),
        lambda: some(rng.choice(scripts), 60),
        lambda: some(rng.choice(scripts) + [" ", "\n", "."], 60),
        lambda: some(spaces + ["a", "1", "!"], 30),
        lambda: some(contractions, 20),
        lambda: rng.choice(every) * rng.randrange(1, 250),
        lambda: rng.choice(spaces) * rng.randrange(1, 100) + rng.choice(every),
        lambda: some(digits + list(" .,-"), 30),
        lambda: some("abcdefghijklmnopqrstuvwxyz", 200),
        lambda: some("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \n\rab", 40),
        lambda: ENGLISH[(start := rng.randrange(len(ENGLISH))) : start + rng.randrange(1, 120)],
    ]
    for _ in range(count):
        text = rng.choice(kinds)()
        yield "".join(c for c in text if ord(c) in known)


def worst(length):
    """Texts of `length` bytes that have cost tokenizers quadratic time, by name."""
    rng = random.Random(1)
    return {
        "a megabyte of a": "a" * length,
        "random letters without a space": "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(length)),
        "ab over and over": "ab" * (length // 2),
        "spaces": " " * length,
        "line ends": "\n" * length,
        "digits": "1234567890" * (length // 10),
        "exclamation marks": "!" * length,
        "Chinese without a space": "\u4e2d\u6587\u5b57" * (length // 9),
    }
