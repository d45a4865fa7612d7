"""What the folders of real_models.py are made of: the parts of a tokenizer.json, vocabularies that are trained here on this
repository's own texts, and random weights in files as they are published."""
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoConfig

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = ("naïve café, Ångström; Привет, мир; 你好世界 你好; किताब; 👍🏽 👍; 2024 1995 12345 2024 1995; x  =  1\n\t\treturn\n\n"
           "12 123 1234 7 8 20 30; Việt Nam, 한국어\n")


def write_json(folder, name, content):
    (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False))


# The parts of a tokenizer.json.

def added(token, name, special=True, **flags):
    return {"id": token, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            **flags, "special": special}


def behind(first, names, **flags):
    return [added(first + index, name, **flags) for index, name in enumerate(names)]


def tokenizer_json(tokens, normalizer, pre_tokenizer, post_processor, decoder, model):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": model}


def byte_level(prefix, trim, **use_regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, **use_regex}


def split_to_bytes(expression, trim):
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, byte_level(False, trim, use_regex=False)]}


def bos_in_front(name, token):
    def part(kind, id, type_id):
        return {kind: {"id": id, "type_id": type_id}}
    return {"type": "TemplateProcessing", "single": [part("SpecialToken", name, 0), part("Sequence", "A", 0)],
            "pair": [part("SpecialToken", name, 0), part("Sequence", "A", 0), part("SpecialToken", name, 1),
                     part("Sequence", "B", 1)],
            "special_tokens": {name: {"id": name, "ids": [token], "tokens": [name]}}}


def bpe(vocab, merges, **flags):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, **flags, "vocab": vocab, "merges": merges}


def decoder_entries(tokens):
    """added_tokens_decoder of tokenizer_config.json."""
    return {str(token["id"]): {key: token[key] for key in sorted(token) if key != "id"} for token in tokens}


def as_object(name, normalized=False):
    return {"content": name, "lstrip": False, "normalized": normalized, "rstrip": False, "single_word": False}


class Maker:
    """Makes folders below `work`. A vocabulary is trained once for all that have it."""

    def __init__(self, work, make_model):
        self.work, self.make_model, self.trained = work, make_model, {}
        pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "data/fables.grammar"]
        self.text = "".join(path.read_text() for path in pages)

    def byte_vocabulary(self, expression):
        """Returns tokens in the order of their numbers, and merges. The expressions leave more together than SmolLM2's and
        Qwen's own steps do, which cut between digits: so there are tokens of several digits, which these must not find."""
        if expression not in self.trained:
            tokenizer = Tokenizer(models.BPE())
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            if expression:
                tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                    pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
            trainer = trainers.BpeTrainer(
                vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
            tokenizer.train_from_iterator([self.text, FOREIGN * 200], trainer)
            model = json.loads(tokenizer.to_str())["model"]
            tokens = sorted(model["vocab"], key=model["vocab"].get)
            self.trained[expression] = tokens, [" ".join(merge) for merge in model["merges"]]
        return self.trained[expression]

    def sentencepiece(self, controls=()):
        """Returns the file of a model as Llama 2's, with more control pieces behind <unk>, <s> and </s>, its vocabulary, and
        its merges as transformers' converter lists them: all ways to cut a piece in two, the best piece first."""
        if controls not in self.trained:
            prefix = self.work / f"sentencepiece-{len(controls)}"
            SentencePieceTrainer.train(
                sentence_iterator=iter((self.text + FOREIGN * 200).split("\n")), model_prefix=prefix, model_type="bpe",
                vocab_size=800, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                split_digits=True, allow_whitespace_only_pieces=True, character_coverage=0.9995, num_threads=1,
                control_symbols=list(controls), max_sentence_length=20000, minloglevel=2)
            model = SentencePieceProcessor(model_file=f"{prefix}.model")
            pieces = {model.id_to_piece(id): id for id in range(len(model))}
            texts = {piece for piece, id in pieces.items()
                     if not (model.is_control(id) or model.is_unknown(id) or model.is_byte(id))}
            ways = [(-model.get_score(pieces[piece]), pieces[piece[:cut]], pieces[piece[cut:]], f"{piece[:cut]} {piece[cut:]}")
                    for piece in texts for cut in range(1, len(piece)) if {piece[:cut], piece[cut:]} <= texts]
            self.trained[controls] = Path(f"{prefix}.model"), pieces, [merge for _, _, _, merge in sorted(ways)]
        return self.trained[controls]

    def weights(self, folder, dtype=torch.bfloat16, change=dict, shards=1, config=None):
        """Saves a model of the folder's config.json. change: what the published files have otherwise."""
        model = self.make_model(AutoConfig.from_pretrained(folder))
        tokens = len(self.tokens)
        head = model.get_output_embeddings().weight.data
        head[tokens:] = 0  # rows of no token, which nobody has trained
        # <unk>, and bytes that are no character, become text in another way in sentencepiece, tokenizers and inkling.
        head[[token for name, token in self.tokens.items() if name.startswith(("<0x", "<unk>"))]] = 0
        ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
        head[ends[-1] if isinstance(ends, list) else ends] *= 1.7  # so that greedy texts end now and then
        tied = model.config.tie_word_embeddings
        tensors = {name: tensor.detach().to(dtype).contiguous() for name, tensor in model.state_dict().items()
                   if not (tied and name == "lm_head.weight")}
        tensors = change(tensors)
        if shards == 1:
            save_file(tensors, folder / "model.safetensors", {"format": "pt"})
            return
        names, places = list(tensors), {}
        for shard in range(shards):
            file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
            part = names[shard * len(names) // shards:(shard + 1) * len(names) // shards]
            save_file({name: tensors[name] for name in part}, folder / file, {"format": "pt"})
            places.update(dict.fromkeys(part, file))
        size = sum(tensor.nbytes for tensor in tensors.values())
        write_json(folder, "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": places})

    def tokenizer(self, folder, content, **config):
        """Writes tokenizer.json and tokenizer_config.json."""
        write_json(folder, "tokenizer.json", content)
        write_json(folder, "tokenizer_config.json", config)
        self.tokens = {**content["model"]["vocab"], **{token["content"]: token["id"] for token in content["added_tokens"]}}


def vocab_and_merges(folder, vocab, merges):
    write_json(folder, "vocab.json", vocab)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
