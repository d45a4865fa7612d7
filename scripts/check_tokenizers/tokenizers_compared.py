"""inkling's tokenizer and the foreign ones, each as a function from a text to its tokens."""
import base64
import gzip
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import bpe_openai
import numpy
import quicktok
import tiktoken
import tokenizers
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

# As tiktoken writes them (0.14), and as Llama 3's tokenizer.json does.
PATTERNS = {
    "gpt2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "cl100k": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "llama3": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
}


def frames(texts):
    """The texts as print_tokens reads them."""
    return b"".join(struct.pack("<I", len(data)) + data for data in (text.encode() for text in texts))


class Inkling:
    def __init__(self, program, *tokenizer, way="encode"):
        self.command = [program, way, *tokenizer]

    def answers(self, texts):
        """Returns the tokens of each text and the seconds of processor time that encoding took."""
        run = subprocess.run(self.command, input=frames(texts), stdout=subprocess.PIPE, check=True)
        numbers, at, answers = numpy.frombuffer(run.stdout, numpy.uint32), 0, []
        while at < len(numbers):
            microseconds, end = numbers[at], at + 2 + int(numbers[at + 1])
            answers.append((numbers[at + 2 : end].tolist(), microseconds / 1e6))
            at = end
        return answers

    def tokens(self, texts):
        return [tokens for tokens, _ in self.answers(texts)]

    def save(self, folder):
        """Writes the tokenizer into a new folder, as a model is saved with it."""
        program, _, opened = self.command
        subprocess.run([program, "save", opened, folder], check=True)

    def seconds(self, text):
        """The time that encoding takes when the program has met the text before, as in the rounds of the others."""
        return self.answers([text, text])[1][1]


@dataclass
class Vocabulary:
    """One vocabulary with one pattern, as every program takes it."""

    name: str
    inkling: Inkling
    tiktoken: tiktoken.Encoding
    tokenizers: tokenizers.Tokenizer
    others: dict = field(default_factory=dict)  # functions that encode without making Python's lists, where they can

    def judges(self):
        return {
            "tiktoken": self.tiktoken.encode_ordinary,
            "tokenizers": lambda text: self.tokenizers.encode(text, add_special_tokens=False).ids,
        }


def read_ranks(text):
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in text.splitlines())}


def make_probe(bin, work, name):
    """A vocabulary that shows where a pattern cuts: letters, digits, spaces, line ends and signs merge with the first byte
    of any character behind them, and its last byte with these."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    for near in b"a1 \n!":
        for byte in range(128, 256):
            ranks[bytes([near, byte])] = len(ranks)
            ranks[bytes([byte, near])] = len(ranks)
    file = work / f"probe-{name}.tiktoken"
    file.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))
    return Vocabulary(
        f"{name}, every cut shown",
        Inkling(bin / "print_tokens", file, name),
        tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={}),
        bpe_of_ranks(ranks, name),
    )


def make_vocabularies(bin, gpt2, work):
    """GPT-2's own, and cl100k's ranks with the patterns of cl100k and Llama 3."""
    program = bin / "print_tokens"
    ranks = data_gym_to_mergeable_bpe_ranks(str(gpt2 / "vocab.bpe"), str(gpt2 / "encoder.json"))
    model = tokenizers.models.BPE.from_file(str(gpt2 / "encoder.json"), str(gpt2 / "vocab.bpe"))
    foreign = tokenizers.Tokenizer(model)
    foreign.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield Vocabulary(
        "gpt2",
        Inkling(program, gpt2),
        tiktoken.Encoding("gpt2", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={}),
        foreign,
    )
    data = Path(bpe_openai.__file__).parent / "data/cl100k_base.tiktoken.gz"
    file = work / "cl100k.tiktoken"
    file.write_bytes(gzip.decompress(data.read_bytes()))
    ranks = read_ranks(file.read_text())
    for name in ("cl100k", "llama3"):
        yield Vocabulary(
            name,
            Inkling(program, file, name),
            tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={}),
            bpe_of_ranks(ranks, name),
            fastest_of_cl100k() if name == "cl100k" else {},
        )


def bpe_of_ranks(ranks, name):
    """The ranks as a model of tokenizers: every pair whose bytes together are a token merges, the lowest rank first."""
    signs = byte_signs()
    as_text = {token: "".join(signs[byte] for byte in token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.get):
        for cut in range(1, len(token)):
            if token[:cut] in ranks and token[cut:] in ranks:
                merges.append((as_text[token[:cut]], as_text[token[cut:]]))
    model = tokenizers.models.BPE(
        vocab={as_text[token]: rank for token, rank in ranks.items()}, merges=merges, ignore_merges=True
    )
    result = tokenizers.Tokenizer(model)
    # Oniguruma reads {1,3}+ as a repetition and $ as the end of any line.
    pattern = PATTERNS[name].replace("{1,3}+", "{1,3}").replace(r"\s++$", r"\s+\z")
    result.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return result


def byte_signs():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte) for byte in own} | {byte: chr(256 + i) for i, byte in enumerate(rest)}


def fastest_of_cl100k():
    fast = quicktok.get_encoding("cl100k_base")
    return {
        "bpe-openai": bpe_openai.get_encoding("cl100k_base")._backend.encode,  # the rest of it takes 1 MB at most
        "quicktok": lambda text: fast.encode_batch([text])[0],
    }
