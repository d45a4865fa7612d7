"""What lm-eval and plain transformers say of a checkpoint."""
import struct

import lm_eval
import torch
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer


class Checkpoint:
    def __init__(self, folder):
        self.folder = folder
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.block_size = self.model.config.max_position_embeddings

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    @torch.no_grad()
    def nats(self, tokens, given=1):
        """-log p of tokens[given:], each given those before it: a list."""
        log_p = self.model(torch.tensor([tokens[:-1]])).logits[0].double().log_softmax(-1)
        chosen = log_p.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
        return (-chosen[given - 1:]).tolist()

    def nats_of_text(self, text, stride):
        """The separator in front, and windows of block_size that advance by `stride`."""
        tokens = [self.tokenizer.bos_token_id, *self.encode(text)]
        nats, scored = [], 1
        for begin in range(0, len(tokens), stride):
            window = tokens[begin:begin + self.block_size + 1]
            if begin + len(window) > scored:
                nats += self.nats(window, scored - begin)
                scored = begin + len(window)
        assert len(nats) == len(tokens) - 1
        return sum(nats)

    def run_lm_eval(self, task):
        """The totals and the samples, in the order of the documents, of one task."""
        model = HFLM(pretrained=self.model, tokenizer=self.tokenizer, batch_size=8, device="cpu")
        result = lm_eval.simple_evaluate(model=model, tasks=[task], num_fewshot=0, log_samples=True, bootstrap_iters=0)
        samples = sorted(result["samples"][task["task"]], key=lambda sample: sample["doc_id"])
        return result["results"][task["task"]], samples


def choice_task(path, delimiter):
    return {
        "task": "choices", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "context", "doc_to_choice": "endings",
        "doc_to_target": "label", "target_delimiter": delimiter,
        "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")]}


def rolling_task(path):
    metrics = ("bits_per_byte", "byte_perplexity")
    return {
        "task": "rolling", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}},
        "test_split": "test", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "text",
        "metric_list": [{"metric": name} for name in metrics]}


def write_eval_file(path, examples):
    """llm.c's file of (label, context, endings), as tokens."""
    stream, longest = [], 0
    for index, (label, context, endings) in enumerate(examples):
        body = [index, label, len(endings), len(context), *context]
        for ending in endings:
            body += [len(ending), *ending]
        size = 2 * (len(body) + 2)
        longest = max(longest, size)
        stream += [65535, size, *body]
    header = [20240522, 1, len(examples), longest] + [0] * 252
    path.write_bytes(struct.pack("<256i", *header) + struct.pack(f"<{len(stream)}H", *stream))


def first_lowest(values):
    return values.index(min(values))
