"""Folders of published models made tiny: the keys of their files, the steps of their tokenizers, the names, types and shards of
their weights are those of the hub; the weights are two layers of random numbers, and the vocabularies are trained here. What
is below is written down by hand from the published folders; nothing is downloaded.

Of their numbers the relations are kept: special tokens stand behind the vocabulary (Llama 3, Qwen), in front of it (SmolLM2)
or are 0, 1 and 2 (Llama 2); Qwen's model has more rows than its tokenizer has tokens; Llama 3's positions are scaled within
the tiny block, too."""
import shutil

import torch
from real_folders import (
    added, as_object, behind, bos_in_front, bpe, byte_level, decoder_entries, split_to_bytes, tokenizer_json, vocab_and_merges,
    write_json)

BLOCK_SIZE = 256
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3, QWEN = CONTRACTIONS + r"|\p{N}{1,3}" + REST, CONTRACTIONS + r"|\p{N}" + REST


def configs(folder, config, generation):
    write_json(folder, "config.json", config)
    write_json(folder, "generation_config.json", generation)


# Keys that the families' config.json files share, with sizes that are tiny.
LLAMA = {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
         "intermediate_size": 112, "max_position_embeddings": BLOCK_SIZE, "model_type": "llama", "num_attention_heads": 4,
         "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16", "use_cache": True}
LLAMA4 = {**LLAMA, "attention_bias": False, "attention_dropout": 0.0, "mlp_bias": False, "pretraining_tp": 1}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}


def gpt2(maker, folder, prefix="", **config):
    tokens, merges = maker.byte_vocabulary(None)
    end = "<|endoftext|>"
    vocab = {name: id for id, name in enumerate([*tokens, end])}
    model = bpe(vocab, merges, continuing_subword_prefix="", end_of_word_suffix="")
    model = {key: model[key] for key in model if key not in ("type", "byte_fallback")}  # as files of 2020 leave them out
    content = tokenizer_json([added(vocab[end], end, normalized=True)], None, byte_level(False, True), byte_level(True, False),
                             byte_level(True, True), model)
    maker.tokenizer(folder, content, model_max_length=BLOCK_SIZE)
    vocab_and_merges(folder, vocab, merges)
    ends = {"bos_token_id": vocab[end], "eos_token_id": vocab[end]}
    sizes = {"n_ctx": BLOCK_SIZE, "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": BLOCK_SIZE}
    configs(folder, {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, **ends, "embd_pdrop": 0.1,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", **sizes, "resid_pdrop": 0.1,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
        "summary_use_proj": True, "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        "vocab_size": len(vocab), **config}, {"_from_model_config": True, **ends, "transformers_version": "4.26.0.dev0"})
    mask = torch.ones(BLOCK_SIZE, BLOCK_SIZE).tril()[None, None]
    maker.weights(folder, torch.float32, lambda tensors: {
        **{prefix + name.removeprefix("transformer."): tensor for name, tensor in tensors.items()},
        **{f"{prefix}h.{layer}.attn.bias": mask.clone() for layer in range(2)}})  # buffers of older versions


def distilgpt2(maker, folder):
    gpt2(maker, folder, "transformer.", _num_labels=1, id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})


SMOLLM2_NAMES = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<filename>",
                 "<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>", "<jupyter_start>", "<jupyter_text>",
                 "<jupyter_code>", "<jupyter_output>", "<jupyter_script>", "<empty_output>"]


def smollm2(maker, folder, instruct=False):
    tokens, merges = maker.byte_vocabulary(None)
    special = behind(0, SMOLLM2_NAMES)
    vocab = {name: id for id, name in enumerate([*SMOLLM2_NAMES, *tokens])}
    steps = [{"type": "Digits", "individual_digits": True}, byte_level(False, True, use_regex=True)]
    content = tokenizer_json(special, None, {"type": "Sequence", "pretokenizers": steps}, None,
                             byte_level(True, True, use_regex=True), bpe(vocab, merges))
    end, start, stop = SMOLLM2_NAMES[:3]
    roles = {"bos_token": start, "eos_token": stop, "pad_token": stop} if instruct else {"bos_token": end, "eos_token": end}
    names = [start, stop] if instruct else SMOLLM2_NAMES
    chat = {"chat_template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                             "'<|im_end|>' + '\n'}}{% endfor %}"} if instruct else {}
    maker.tokenizer(folder, content, add_prefix_space=False, added_tokens_decoder=decoder_entries(special),
                    additional_special_tokens=names, **roles, **chat, clean_up_tokenization_spaces=False,
                    model_max_length=BLOCK_SIZE, tokenizer_class="GPT2Tokenizer", unk_token=end, vocab_size=len(vocab))
    write_json(folder, "special_tokens_map.json", {"additional_special_tokens": names, "unk_token": as_object(end),
                                                   **{role: as_object(name) for role, name in roles.items()}})
    vocab_and_merges(folder, vocab, merges)
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2} if instruct else {"bos_token_id": 0, "eos_token_id": 0}
    extra = {"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}}} if instruct else {}
    configs(folder, {**LLAMA4, **ids, **extra, "initializer_range": 0.041666666666666664, "is_llama_config": True,
                     "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True,
                     "transformers_version": "4.40.1", "vocab_size": len(vocab)},
            {"_from_model_config": True, **ids, "transformers_version": "4.40.1"})
    maker.weights(folder)


LLAMA3_NAMES = ["begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1", "finetune_right_pad_id",
                "reserved_special_token_2", "start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag",
                *(f"reserved_special_token_{number}" for number in range(3, 248))]


def llama3(maker, folder, instruct=False):
    tokens, merges = maker.byte_vocabulary(LLAMA3)
    # Some of Llama 3's tokens are reached by no merges: a word that is such a token becomes it by ignore_merges alone.
    parts = {part for merge in merges for part in merge.split()}
    merges = [merge for place, merge in enumerate(merges) if place % 9 or merge.replace(" ", "") in parts]
    vocab, first = {name: id for id, name in enumerate(tokens)}, len(tokens)
    special = behind(first, [f"<|{name}|>" for name in LLAMA3_NAMES])
    begin, end = special[0]["content"], special[9 if instruct else 1]["content"]
    front = {"type": "Sequence", "processors": [byte_level(True, False, use_regex=True), bos_in_front(begin, first)]}
    content = tokenizer_json(special, None, split_to_bytes(LLAMA3, True), front, byte_level(True, True, use_regex=True),
                             bpe(vocab, merges, ignore_merges=True))
    chat = {"chat_template": "{{- bos_token }}{% for message in messages %}{{ message['content'] + '<|eot_id|>' }}{% endfor %}"}
    maker.tokenizer(folder, content, added_tokens_decoder=decoder_entries(special), bos_token=begin, **(chat if instruct else {}),
                    clean_up_tokenization_spaces=True, eos_token=end, model_input_names=["input_ids", "attention_mask"],
                    model_max_length=BLOCK_SIZE, tokenizer_class="PreTrainedTokenizerFast")
    write_json(folder, "special_tokens_map.json", {"bos_token": as_object(begin), "eos_token": as_object(end)})
    ends = {"bos_token_id": first, "eos_token_id": [first + 1, first + 8, first + 9] if instruct else first + 1}
    scaling = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 32,
               "rope_type": "llama3"}
    configs(folder, {**LLAMA4, **ends, "head_dim": 16, "rope_scaling": scaling, "rope_theta": 500000.0,
                     "tie_word_embeddings": True, "transformers_version": "4.45.0.dev0", "vocab_size": first + len(special)},
            {**({} if instruct else {"_from_model_config": True}), **ends, "do_sample": True, "temperature": 0.6, "top_p": 0.9,
             "transformers_version": "4.45.0.dev0"})
    maker.weights(folder)


QWEN_SPECIAL = ["endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start",
                "quad_end", "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad"]
QWEN_OTHERS = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
               "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


def qwen(maker, folder, version):
    tokens, merges = maker.byte_vocabulary(LLAMA3)
    vocab, first = {name: id for id, name in enumerate(tokens)}, len(tokens)
    special = behind(first, [f"<|{name}|>" for name in QWEN_SPECIAL])
    all_added = special + behind(first + len(special), QWEN_OTHERS if version == 3 else QWEN_OTHERS[:8], special=False)
    content = tokenizer_json(
        all_added, {"type": "NFC"}, split_to_bytes(QWEN, False), byte_level(False, False, use_regex=False),
        byte_level(False, False, use_regex=False), bpe(vocab, merges, continuing_subword_prefix="", end_of_word_suffix=""))
    end = special[2 if version == 3 else 0]["content"]
    maker.tokenizer(
        folder, content, add_bos_token=False, add_prefix_space=False, added_tokens_decoder=decoder_entries(all_added),
        additional_special_tokens=[token["content"] for token in special[1:]], bos_token=None,
        chat_template="{% for message in messages %}{{ message['content'] }}{% endfor %}", clean_up_tokenization_spaces=False,
        eos_token=end, errors="replace", model_max_length=BLOCK_SIZE, pad_token=special[0]["content"],
        split_special_tokens=False, tokenizer_class="Qwen2Tokenizer", unk_token=None)
    vocab_and_merges(folder, vocab, merges)
    common = {**LLAMA, "attention_dropout": 0.0, "bos_token_id": first, "rms_norm_eps": 1e-06, "tie_word_embeddings": True,
              "use_sliding_window": False, "vocab_size": first + 64}  # more than there are tokens
    if version == 3:
        config = {**common, "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "eos_token_id": first + 2,
                  "head_dim": 32, "max_window_layers": 28, "model_type": "qwen3", "rope_scaling": None, "rope_theta": 1000000,
                  "sliding_window": None, "transformers_version": "4.51.0"}
        generation = {"bos_token_id": first, "do_sample": True, "eos_token_id": [first + 2, first], "pad_token_id": first,
                      "temperature": 0.6, "top_k": 20, "top_p": 0.95, "transformers_version": "4.51.0"}
    else:
        config = {**common, "architectures": ["Qwen2ForCausalLM"], "eos_token_id": first, "max_window_layers": 24,
                  "model_type": "qwen2", "rope_theta": 1000000.0, "sliding_window": BLOCK_SIZE, "transformers_version": "4.40.1",
                  "use_mrope": False}
        generation = {"bos_token_id": first, "do_sample": False, "eos_token_id": first, "max_new_tokens": 2048,
                      "transformers_version": "4.37.0"}
    configs(folder, config, generation)
    # Qwen3's file holds the head although it is the table of tokens.
    head = {True: lambda tensors: {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, False: dict}
    maker.weights(folder, change=head[version == 3])


SPACES_BACK = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
SPACES_AS_SIGNS = {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}


def sentencepiece_files(maker, folder, controls=(), more=(), metaspace=False, **config):
    """tokenizer.model, tokenizer.json and tokenizer_config.json. more: names of tokens behind the model's own."""
    file, vocab, merges = maker.sentencepiece(controls)
    shutil.copy(file, folder / "tokenizer.model")
    special = behind(0, ["<unk>", "<s>", "</s>", *controls]) + behind(len(vocab), more)
    model = bpe(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    steps = (None, METASPACE) if metaspace else (SPACES_AS_SIGNS, None)
    content = tokenizer_json(special, *steps, bos_in_front("<s>", 1), SPACES_BACK, model)
    maker.tokenizer(folder, content, **config)
    return len(vocab)


LLAMA2_TOKENIZER = {"clean_up_tokenization_spaces": False, "legacy": False, "sp_model_kwargs": {},
                    "tokenizer_class": "LlamaTokenizer"}
LLAMA2_NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
BEYOND = 1000000000000000019884624838656  # what transformers writes where a text may have any length


def tinyllama(maker, folder):
    size = sentencepiece_files(
        maker, folder, added_tokens_decoder=decoder_entries(behind(0, ["<unk>", "<s>", "</s>"])),
        chat_template="{% for message in messages %}{{ message['content'] + eos_token }}{% endfor %}", **LLAMA2_NAMES,
        **LLAMA2_TOKENIZER, model_max_length=BLOCK_SIZE, pad_token="</s>", padding_side="right", use_default_system_prompt=False)
    write_json(folder, "special_tokens_map.json", {
        **{role: as_object(name) for role, name in LLAMA2_NAMES.items()}, "pad_token": as_object("</s>")})
    configs(folder, {**LLAMA, **ENDS, "attention_bias": False, "pretraining_tp": 1, "rope_scaling": None, "rope_theta": 10000.0,
                     "transformers_version": "4.35.0", "vocab_size": size},
            {**ENDS, "max_length": 2048, "pad_token_id": 0, "transformers_version": "4.35.0"})
    maker.weights(folder)


def llama2(maker, folder, more=()):
    roles = {role: {"__type": "AddedToken", **as_object(name)} for role, name in LLAMA2_NAMES.items()}
    pad = {"pad_token": more[0] if more else None}
    size = sentencepiece_files(maker, folder, more=more, add_bos_token=True, add_eos_token=False, **roles, **LLAMA2_TOKENIZER,
                               model_max_length=BEYOND, **pad, padding_side="right")
    names = {role: as_object(name) for role, name in LLAMA2_NAMES.items()}
    write_json(folder, "special_tokens_map.json", {**names, **(pad if more else {})})
    if more:
        write_json(folder, "added_tokens.json", {name: size + place for place, name in enumerate(more)})
    configs(folder, {"_name_or_path": "meta-llama/Llama-2-7b-hf", **LLAMA, **ENDS, "num_key_value_heads": 4, "pad_token_id": 0,
                     "pretraining_tp": 1, "rope_scaling": None, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0",
                     "vocab_size": size},
            {**ENDS, "do_sample": True, "max_length": 4096, "pad_token_id": 0, "temperature": 0.6, "top_p": 0.9,
             "transformers_version": "4.31.0.dev0"})
    turns = 1 / 10000 ** (torch.arange(0, 16, 2) / 16)  # a buffer of older versions
    maker.weights(folder, torch.float16, lambda tensors: {
        **tensors, **{f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": turns.clone() for layer in range(2)}}, shards=2)


# Of the controls behind these, [control_8] to [control_768], there are a few here.
MISTRAL_CONTROLS = ("[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
                    "[/TOOL_RESULTS]", *(f"[control_{number}]" for number in range(8, 20)))


def mistral(maker, folder):
    size = sentencepiece_files(
        maker, folder, MISTRAL_CONTROLS, metaspace=True, add_bos_token=True, add_eos_token=False, add_prefix_space=True,
        added_tokens_decoder=decoder_entries(behind(0, ["<unk>", "<s>", "</s>", *MISTRAL_CONTROLS])), **LLAMA2_NAMES,
        **LLAMA2_TOKENIZER, model_max_length=BEYOND, pad_token=None, spaces_between_special_tokens=False,
        use_default_system_prompt=False)
    write_json(folder, "special_tokens_map.json", {role: as_object(name) for role, name in LLAMA2_NAMES.items()})
    configs(folder, {**LLAMA, **ENDS, "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "model_type": "mistral",
                     "rope_theta": 1000000.0, "sliding_window": None, "transformers_version": "4.42.0.dev0", "vocab_size": size},
            {"_from_model_config": True, **ENDS, "transformers_version": "4.42.0.dev0"})
    maker.weights(folder, shards=3)


FOLDERS = {
    "SmolLM2-135M": smollm2,
    "SmolLM2-135M-Instruct": lambda maker, folder: smollm2(maker, folder, instruct=True),
    "Llama-3.2-1B": llama3,
    "Llama-3.2-1B-Instruct": lambda maker, folder: llama3(maker, folder, instruct=True),
    "TinyLlama-1.1B": tinyllama,
    "Qwen3-0.6B": lambda maker, folder: qwen(maker, folder, 3),
    "Qwen2.5-0.5B": lambda maker, folder: qwen(maker, folder, 2),
    "Mistral-7B-v0.3": mistral,
    "Llama-2-7b": llama2,
    "Llama-2-7b-and-PAD": lambda maker, folder: llama2(maker, folder, ["[PAD]"]),
    "gpt2": gpt2,
    "distilgpt2": distilgpt2,
}


def make_folder(maker, name):
    folder = maker.work / name
    folder.mkdir()
    FOLDERS[name](maker, folder)
    return folder
