"""The changes that changed_folders.py tries, by file and folder: where, what stands there then (or a function of what stood
there), and a word that says what a function makes of it, or that a refusal may say instead of the value."""
from real_folders import added, bos_in_front, byte_level, split_to_bytes
from real_models import LLAMA3, METASPACE, QWEN, SPACES_AS_SIGNS

LACKING = object()  # a field that is taken out


def scaled(kind, **numbers):
    return {"rope_type": kind, "rope_theta": 10000.0, **numbers}


def sequence_of(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


def front(*pairs):
    """A template with these tokens in front; of a negative number behind."""
    special = {name: {"id": name, "ids": [abs(token)], "tokens": [name]} for name, token in pairs}
    parts = [{"SpecialToken": {"id": name, "type_id": 0}} for name, token in pairs if token >= 0]
    after = [{"SpecialToken": {"id": name, "type_id": 0}} for name, token in pairs if token < 0]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [*parts, text, *after],
            "pair": [*parts, text, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": special}


BYTES, DIGITS = byte_level(False, True, use_regex=False), {"type": "Digits", "individual_digits": True}
NORMALIZERS = [
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "x"}, {"type": "Nmt"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "_"}, sequence_of("normalizers", {"type": "NFC"}),
    sequence_of("normalizers", {"type": "NFC"}, {"type": "Lowercase"}), sequence_of("normalizers"), {"type": "Nonsense"},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}]
SPLIT, SECOND = "pre_tokenizer.pretokenizers.0.", "pre_tokenizer.pretokenizers.1."
TOKENIZERS = {"Llama-3.2-1B": [
    *(("normalizer", each) for each in NORMALIZERS),
    (SPLIT + "behavior", "Removed"), (SPLIT + "behavior", "MergedWithPrevious"), (SPLIT + "behavior", "MergedWithNext"),
    (SPLIT + "behavior", "Contiguous"), (SPLIT + "invert", True), (SPLIT + "pattern", {"String": " "}),
    (SPLIT + "pattern.Regex", r"\s+|\w+"), (SPLIT + "pattern.Regex", QWEN),
    (SPLIT + "pattern.Regex", LLAMA3.replace("{1,3}", "+")),
    (SPLIT + "pattern.Regex", LLAMA3.replace("(?i:", "(?:")), (SPLIT + "pattern.Regex", "(" + LLAMA3 + ")"),
    ("pre_tokenizer.pretokenizers", lambda steps: steps[::-1], "ByteLevel first"),
    ("pre_tokenizer.pretokenizers", lambda steps: [DIGITS, *steps], "Digits"),
    ("pre_tokenizer.pretokenizers", lambda steps: [steps[0], DIGITS, steps[1]], "Digits"),
    ("pre_tokenizer.pretokenizers", lambda steps: [{"type": "Digits", "individual_digits": False}, *steps], "Digits"),
    ("pre_tokenizer.pretokenizers", lambda steps: [{"type": "Punctuation", "behavior": "Isolated"}, *steps], "Punctuation"),
    ("pre_tokenizer.pretokenizers", lambda steps: [{"type": "WhitespaceSplit"}, *steps], "WhitespaceSplit"),
    ("pre_tokenizer.pretokenizers", lambda steps: [steps[0], steps[0], steps[1]], "Split twice"),
    ("pre_tokenizer.pretokenizers", lambda steps: steps[:1], "Split alone"),
    ("pre_tokenizer.pretokenizers", lambda steps: steps[1:], "ByteLevel alone"),
    (SECOND + "add_prefix_space", True), (SECOND + "use_regex", True), (SECOND + "trim_offsets", False),
    (SECOND + "type", "Nonsense"), ("pre_tokenizer", {"type": "Whitespace"}), ("pre_tokenizer", {"type": "BertPreTokenizer"}),
    ("pre_tokenizer", {"type": "UnicodeScripts"}), ("pre_tokenizer", METASPACE), ("pre_tokenizer", None), ("pre_tokenizer", BYTES),
    ("post_processor", None), ("post_processor", lambda old: old["processors"][1], "TemplateProcessing"),
    ("post_processor", front(("<|begin_of_text|>", 600), ("<|end_of_text|>", 601)), "single"),
    ("post_processor", front(("<|begin_of_text|>", 600), ("<|end_of_text|>", -601)), "single"),
    ("post_processor", front(("<|end_of_text|>", 601))), ("post_processor", front()),
    ("post_processor.processors.1.pair", lambda pair: pair[:2], "the text alone"),
    ("post_processor.processors", lambda old: [old[1], old[1]], "TemplateProcessing twice"),
    ("post_processor.processors.1.special_tokens.<|begin_of_text|>.ids", [601]),
    ("post_processor.processors.1.special_tokens.<|begin_of_text|>.ids", [600, 601]),
    ("post_processor", {"type": "RobertaProcessing", "sep": ["<|end_of_text|>", 601], "cls": ["<|begin_of_text|>", 600],
                        "trim_offsets": True, "add_prefix_space": False}),
    ("post_processor", {"type": "BertProcessing", "sep": ["<|end_of_text|>", 601], "cls": ["<|begin_of_text|>", 600]}),
    ("decoder", None), ("decoder", {"type": "ByteFallback"}), ("decoder", {"type": "WordPiece", "prefix": "##", "cleanup": True}),
    ("decoder", {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}),
    ("decoder", lambda old: sequence_of("decoders", old), "Sequence"), ("decoder", {"type": "Nonsense"}),
    ("decoder", lambda old: sequence_of("decoders", old, {"type": "Strip", "content": " ", "start": 1, "stop": 0}), "Strip"),
    ("model.dropout", 0.1), ("model.dropout", 0.0), ("model.unk_token", "a"), ("model.unk_token", "nothing"),
    ("model.continuing_subword_prefix", "##"), ("model.continuing_subword_prefix", ""), ("model.end_of_word_suffix", "</w>"),
    ("model.end_of_word_suffix", ""), ("model.fuse_unk", True), ("model.byte_fallback", True), ("model.ignore_merges", False),
    ("model.ignore_merges", LACKING), ("model.type", "WordPiece"), ("model.type", "Unigram"), ("model.type", LACKING),
    ("model.something_new", True), ("model.merges", lambda merges: [merge.split(" ") for merge in merges], "pairs"),
    ("model.merges", lambda merges: merges[::-1], "backwards"), ("model.merges", lambda merges: merges[:-50], "without the last"),
    ("model.merges", lambda merges: [*merges, "a nothing"], "nothing"),
    ("model.merges", lambda merges: merges + merges[:5], "twice"), ("model.vocab.a", LACKING),
    ("model.vocab.the", 5000, "5,001"),
    *((f"added_tokens.10.{flag}", True) for flag in ("lstrip", "rstrip", "single_word", "normalized")),
    ("added_tokens.10.special", False), ("added_tokens.10.content", "zebra", "python_tag"), ("added_tokens.10.id", 5),
    ("added_tokens", lambda tokens: [*tokens, added(856, " two words", special=False)], "two words"),
    ("added_tokens", lambda tokens: [*tokens, added(856, "fox", special=False, normalized=True, single_word=True)], "fox"),
    ("truncation", {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}),
    ("padding", {"strategy": {"Fixed": 9}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                 "pad_token": "!"}), ("version", "2.0"), ("something_new", {"type": "Nonsense"}),
], "gpt2": [
    ("pre_tokenizer.add_prefix_space", True), ("pre_tokenizer.use_regex", False), ("pre_tokenizer.trim_offsets", False),
    ("pre_tokenizer", split_to_bytes(QWEN, True), "Regex"),
    ("pre_tokenizer", lambda old: sequence_of("pretokenizers", old), "Sequence"),
    ("post_processor.add_prefix_space", False), ("post_processor", bos_in_front("<|endoftext|>", 600)),
    ("model.ignore_merges", True), ("normalizer", {"type": "NFKC"}), ("added_tokens", []),
], "SmolLM2-135M": [
    (SPLIT + "individual_digits", False), ("pre_tokenizer.pretokenizers", lambda steps: steps[::-1], "Digits last"),
    ("pre_tokenizer.pretokenizers", lambda steps: steps[1:], "without Digits"), (SECOND + "add_prefix_space", True),
    (SECOND + "use_regex", False),
], "Qwen3-0.6B": [
    *(("normalizer", each) for each in (None, NORMALIZERS[1], NORMALIZERS[2], NORMALIZERS[10], NORMALIZERS[11])),
    *((f"added_tokens.24.{flag}", True) for flag in ("lstrip", "rstrip", "single_word", "normalized")),
    ("added_tokens.24.special", True, "is special elsewhere"),
    ("added_tokens.24.content", " <think>", "<think>"), ("added_tokens.24.content", "th"),
], "TinyLlama-1.1B": [
    ("normalizer", None), ("normalizer.normalizers.0.prepend", "x"),
    ("normalizer.normalizers", lambda steps: steps[1:], "Replace alone"),
    ("normalizer.normalizers", lambda steps: [{"type": "NFKC"}, *steps], "NFKC"), ("normalizer.normalizers.1.content", "_"),
    ("normalizer.normalizers", lambda steps: steps[::-1], "Replace first"), ("pre_tokenizer", METASPACE),
    ("pre_tokenizer", DIGITS),
    ("model.fuse_unk", False), ("model.byte_fallback", False), ("model.unk_token", None), ("model.dropout", 0.1),
    ("decoder.decoders.3.start", 0), ("decoder.decoders", lambda steps: steps[:3], "without Strip"),
    ("decoder.decoders", lambda steps: steps[1:], "lacks a Replace"), ("post_processor", None),
    ("model.merges", lambda merges: merges[::-1], "backwards"),
], "Mistral-7B-v0.3": [
    ("pre_tokenizer.prepend_scheme", "always"), ("pre_tokenizer.split", True),
    ("pre_tokenizer.replacement", "_"), ("normalizer", SPACES_AS_SIGNS, "Prepend"), ("decoder.decoders.3.start", 0),
]}
TOKENIZER_CONFIGS = {"gpt2": [
    ("add_prefix_space", True), ("add_bos_token", True), ("add_eos_token", True), ("bos_token", "the"), ("unk_token", "the"),
    ("tokenizer_class", "LlamaTokenizer"), ("tokenizer_class", "Nonsense"), ("model_max_length", 5), ("something_new", 1),
], "Llama-3.2-1B": [
    ("add_prefix_space", True), ("add_bos_token", False), ("add_eos_token", True), ("bos_token", "<|eot_id|>"),
    ("eos_token", None), ("clean_up_tokenization_spaces", False), ("tokenizer_class", "GPT2Tokenizer"),
    ("added_tokens_decoder.610.special", False), ("added_tokens_decoder.610.lstrip", True), ("split_special_tokens", True),
    ("additional_special_tokens", ["the"]), ("padding_side", "left"), ("model_max_length", 5), ("do_lower_case", True)]}
YARN = {"factor": 4.0, "original_max_position_embeddings": 64}
CONFIGS = {"TinyLlama-1.1B": [
    *(("rope_scaling", {"type": kind, "factor": 2.0}) for kind in ("linear", "dynamic", "yarn", "nonsense", "default")),
    *(("rope_scaling", scaled("llama3", factor=factor, low_freq_factor=low, high_freq_factor=4.0,
                              original_max_position_embeddings=64))
      for factor, low in ((8.0, 1.0), (1.0, 1.0), (32.0, 2.0), (8.0, 4.0), (0.5, 1.0))),
    ("rope_scaling", scaled("llama3", factor=8.0), "factor"), ("rope_scaling", scaled("linear", factor=1.0)),
    ("rope_scaling", scaled("yarn", **YARN)), ("rope_scaling", scaled("yarn", **YARN, mscale=0.7)),
    ("rope_scaling", {"factor": 2.0}),
    ("rope_scaling", scaled("longrope", **YARN, short_factor=[1.0] * 8, long_factor=[2.0] * 8)),
    ("rope_parameters", scaled("linear", factor=2.0)), ("rope_theta", 500.0), ("rope_interleaved", True),
    ("partial_rotary_factor", 0.5), ("attention_bias", True), ("mlp_bias", True), ("sliding_window", 16),
    ("use_sliding_window", True),
    ("hidden_act", "gelu"), ("hidden_act", "relu"), ("hidden_act", "gelu_pytorch_tanh"), ("head_dim", 32), ("head_dim", 16),
    ("tie_word_embeddings", True, "does not say"), ("rms_norm_eps", 0.1), ("rms_norm_eps", LACKING), ("something_new", 1),
    ("pretraining_tp", 2),
    ("num_key_value_heads", 4), ("num_key_value_heads", LACKING), ("num_attention_heads", 8), ("num_hidden_layers", 1),
    ("vocab_size", 801), ("max_position_embeddings", 64), ("model_type", "mistral"), ("model_type", "qwen3"),
    ("model_type", "nonsense"),
    ("quantization_config", {"quant_method": "gptq", "bits": 4}, "gptq"), ("layer_types", ["full_attention", "sliding_attention"]),
    ("torch_dtype", "float16"), ("logits_scaling", 2.0), ("attention_multiplier", 0.5)],
    "Mistral-7B-v0.3": [("sliding_window", 16), ("sliding_window", LACKING), ("rope_theta", 500.0), ("attention_bias", True),
                        ("rope_scaling", scaled("yarn", **YARN)), ("head_dim", 32), ("tie_word_embeddings", True, "does not say")],
    "Qwen3-0.6B": [("use_sliding_window", True), ("sliding_window", 16), ("max_window_layers", 1), ("attention_bias", True),
                   ("rope_scaling", scaled("yarn", **YARN)), ("head_dim", 16), ("tie_word_embeddings", False),
                   ("layer_types", ["full_attention", "sliding_attention"])],
    "gpt2": [("activation_function", "relu"), ("activation_function", "quick_gelu"), ("scale_attn_weights", False),
             ("layer_norm_epsilon", 0.1), ("tie_word_embeddings", False), ("n_inner", 128), ("n_positions", 128)]}
