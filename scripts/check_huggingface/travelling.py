"""Every kind of tokenizer with every family of models, from a checkpoint: AutoTokenizer and AutoModelForCausalLM against
inkling's greedy text."""
import json

import torch
from cases import gpt2, llama, mistral, own_family, qwen3
from comparison import run
from transformers import AutoModelForCausalLM, AutoTokenizer

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
def greedy_text(model, tokenizer, prompt):
    tokens = tokenizer(prompt, add_special_tokens=False).input_ids
    if tokenizer.bos_token_id is not None:
        tokens = [tokenizer.bos_token_id, *tokens]
    made = model.generate(
        torch.tensor([tokens]), attention_mask=torch.ones(1, len(tokens), dtype=torch.long), do_sample=False,
        max_new_tokens=TOKENS, pad_token_id=0)
    return tokenizer.decode(made[0, len(tokens):], skip_special_tokens=True)


def compare_cell(inkling, config, work, kind, family):
    """A model of one family trained with one kind of tokenizer. transformers does not open inkling's own family; there the
    tokens of the prompts are compared alone."""
    data, out = work / f"data-{list(KINDS).index(kind)}", work / f"run-{kind}-{family}".replace(" ", "-")
    folder = inkling.train(config, out, settings_of(kind, family, data))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    lines = run(inkling.train_program.parent / "inkling-sample", folder, "--json", "--temperature", 0, "--max-tokens",
                TOKENS, *prompts).splitlines()
    ours = [json.loads(line)["text"] for line in lines]
    if family == own_family:
        tokens = [tokenizer(prompt, add_special_tokens=False).input_ids for prompt in PROMPTS]
        same = [tokenizer.decode(ids) == prompt for ids, prompt in zip(tokens, PROMPTS)]
        return all(same), f"{sum(same)} of {len(same)} prompts come back; transformers does not open {own_family}"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    theirs = [greedy_text(model, tokenizer, prompt) for prompt in PROMPTS]
    # The bytes of a character that is not complete at the end stand in transformers' text alone.
    same = [a == b or a == b.rstrip("\ufffd") for a, b in zip(ours, theirs)]
    words = f"{sum(same)} of {len(same)} greedy texts the same"
    wrong = [f"{a!r} and {b!r}" for a, b, agree in zip(ours, theirs, same) if not agree]
    return all(same), "; ".join([words, *wrong[:1]])


def check_travelling(tally, inkling, config, work):
    for kind in KINDS:
        for family in FAMILIES:
            tally.judge(f"{kind} x {family}", compare_cell, inkling, config, work, kind, family)
