"""Sentencepiece models as folders made elsewhere hold them: inkling's tokens beside those of the sentencepiece library, and
beside those that tokenizers gives from what inkling saves."""
import json
import re
import subprocess

import sentencepiece
import tokenizers
from texts import ENGLISH, worst
from tokenizers_compared import Inkling

# Of a piece that is found in text as it stands, one goes over line ends.
SYMBOLS = {"user_defined_symbols": ["<tag>", "\n\n", "\u2581\u2581\u2581"], "control_symbols": ["[INST]"]}
MODELS = {
    "bpe": {"model_type": "bpe"},
    "bpe without a prefix": {"model_type": "bpe", "add_dummy_prefix": False},
    "bpe, symbols": {"model_type": "bpe", **SYMBOLS},
    "bpe, pieces over spaces": {"model_type": "bpe", "split_by_whitespace": False},
    "unigram": {"model_type": "unigram"},
    "unigram, symbols": {"model_type": "unigram", **SYMBOLS},
}
# Is encoded otherwise by one of the three (docs/formats.md).
UNLIKE = re.compile("\u2581|<0x[0-9A-F]{2}>|</?s>|<unk>|\\[INST\\]")


def make_folder(work, name, corpus):
    """A folder as Llama 2's: tokenizer.model, and a tokenizer_config.json that says what to begin with."""
    folder = work / f"model-{list(MODELS).index(name)}"
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus.split("\n")), model_prefix=folder / "tokenizer", vocab_size=1500, num_threads=1,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, character_coverage=0.995, minloglevel=2,
        **{"add_dummy_prefix": True, **MODELS[name]})
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def compare(tally, model, words, texts, mine, theirs):
    """unigram may break ties otherwise, and sentencepiece's sums of 32 bits lose digits in a long text: there inkling, which
    encodes it in stretches, may find a more probable way."""
    apart = [(text, a, b) for text, a, b in zip(texts, mine, theirs, strict=True) if a != b]
    scores = [(sum(map(model.get_score, a)), sum(map(model.get_score, b))) for _, a, b in apart]
    ties = [words.startswith("unigram") and a >= b - 1e-6 * abs(b) for a, b in scores]
    wrong = [text for (text, _, _), tie in zip(apart, ties) if not tie]
    count = f", but for {sum(ties)} at least as probable" if any(ties) else ""
    tally.note(not wrong, words + count + "".join(f"; not {text[:60]!a}" for text in wrong[:3]))


def check_foreign_models(tally, bin, work, corpus, texts):
    texts = [text for text in [*texts, "", *worst(20_000).values(), *(ENGLISH * n for n in (1, 30, 3000))] if not UNLIKE.search(text)]
    for name in MODELS:
        folder = make_folder(work, name, corpus)
        saved = work / f"{folder.name}-saved"
        subprocess.run([bin / "print_tokens", "save", folder, saved], check=True)
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        foreign = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
        mine = Inkling(bin / "print_tokens", folder, way="open").tokens(texts)
        words = f"{name}, a model made elsewhere: {len(texts):,} texts as"
        compare(tally, model, f"{words} sentencepiece has them", texts, mine, [model.encode(text) for text in texts])
        theirs = [foreign.encode(text).ids for text in texts]
        begun = all(ids[0] == model.bos_id() for ids in theirs)
        theirs = [ids[1:] for ids in theirs]
        compare(tally, model, f"{words} tokenizers has them from the folder saved", texts, mine, theirs)
        back = sum(foreign.decode(ids) == text for ids, text in zip(theirs, texts))
        again = Inkling(bin / "print_tokens", saved, way="open").tokens(texts) == mine
        tally.note(begun and back == len(texts) and again, f"{name}: {back:,} texts come back, and begin with <s>")
