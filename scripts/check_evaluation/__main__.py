"""What scripts/check-evaluation runs: BIN WORK, where BIN holds inkling's programs and WORK is an empty folder.

A log-likelihood may differ by 1e-4 of itself or of 1, whichever is larger; what it decides must be the same, but for
endings that are nearer to each other than that."""
import json
import logging
import math
import os
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from foreign import Checkpoint, choice_task, first_lowest, rolling_task, write_eval_file
from questions import GRAMMAR, border_questions, odd_questions, questions, texts, write_lines

relative_tolerance = 1e-4
RULES = ["accuracy", "accuracy_per_token", "accuracy_per_character"]  # in the order of "chosen"
CONFIG = GRAMMAR.parents[1] / "configs/fables.yaml"
MODELS = {
    "Qwen3, sentencepiece": [],
    "GPT-2, byte-level bpe": ["data.tokenizer.kind=bpe", "data.tokenizer.vocab_size=1000", "model.norm=layernorm",
                              "model.position=learned", "model.activation=gelu_tanh", "model.bias=true",
                              "model.qk_norm=false", "model.tie_embeddings=true", "model.initialization=gpt2"],
}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} ends with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


class Check:
    """A checkpoint, and how often the others agree on it."""
    agree, differ = 0, 0

    def __init__(self, bin_folder, work, name, settings):
        self.bin, self.work, self.name = bin_folder, work, name
        out = work / name.replace(" ", "-").replace(",", "")
        shorter = [f"data.source={GRAMMAR}", "data.stories=10000", f"data.dir={out}-data", "training.max_steps=400",
                   "evaluation.interval=400", "checkpoint.interval=400"]
        run(bin_folder / "inkling-train", CONFIG, "--out", out, *(f"--set={word}" for word in [*shorter, *settings]))
        self.checkpoint = Checkpoint(max((out / "checkpoints").iterdir()))

    def evaluate(self, *arguments):
        """The objects that inkling-eval prints."""
        lines = run(self.bin / "inkling-eval", self.checkpoint.folder, "--json", *arguments).splitlines()
        return [json.loads(line) for line in lines]

    def judge(self, what, same, words):
        Check.agree += same
        Check.differ += not same
        print(f"{'agrees ' if same else 'DIFFERS'}  {self.name}, {what}: {words}", flush=True)

    def compare(self, what, ours, theirs, words):
        """Of lists of numbers."""
        off = max(abs(a - b) / max(1, abs(b)) for a, b in zip(ours, theirs, strict=True))
        self.judge(what, off <= relative_tolerance, f"{words}, largest difference {off:.1e} of {relative_tolerance:.0e}")

    def compare_choices(self, what, path, rows, theirs, rules):
        """`theirs`: the nats of the endings of each example. `rules`: for each, which accuracy it is, what a sum of nats is
        divided by, and how many answers the other program calls right."""
        *ours, totals = self.evaluate("--choices", path, "--each")
        flat = [-value for line in ours for value in line["log_likelihoods"]]
        self.compare(f"{what}, log-likelihoods", flat, [nats for row in theirs for nats in row],
                     f"{len(flat)} endings of {len(rows)} questions")
        for key, divisors, right in rules:
            place, other = RULES.index(key), 0
            for line, nats, divisor in zip(ours, theirs, divisors, strict=True):
                scores = [a / b for a, b in zip(nats, divisor, strict=True)]
                chosen = line["chosen"][place]
                off = 2 * relative_tolerance * max(1, max(nats)) / min(divisor)
                other += chosen != first_lowest(scores) and scores[chosen] - min(scores) > off
            same = other == 0 and totals[f"{key}_right"] == right
            error = math.sqrt(right / len(rows) * (1 - right / len(rows)) / (len(rows) - 1))
            same = same and abs(totals[f"{key}_standard_error"] - error) < 1e-9
            self.judge(f"{what}, {key}", same, f"{totals[f'{key}_right']} and {right} of {len(rows)} right, +- {error:.4f}")

    def choices_by_lm_eval(self, what, rows, delimiter):
        """Ours is given the delimiter at the end of the context."""
        path = write_lines(self.work / "choices.jsonl", rows)
        totals, samples = self.checkpoint.run_lm_eval(choice_task(path, delimiter))
        theirs = [[-float(answer[0]) for answer in sample["filtered_resps"]] for sample in samples]
        spaced = [{**row, "context": row["context"] + delimiter} for row in rows]
        ones = [[1] * len(row["endings"]) for row in rows]
        lengths = [[len(ending) for ending in row["endings"]] for row in rows]
        right = {key: round(totals[f"{key},none"] * len(rows)) for key in ("acc", "acc_norm")}
        self.compare_choices(f"lm-eval on {what}", write_lines(self.work / "spaced.jsonl", spaced), rows, theirs,
                             [("accuracy", ones, right["acc"]), ("accuracy_per_character", lengths, right["acc_norm"])])

    def borders_by_lm_eval(self, rows):
        """lm-eval ends with an assertion at an ending without a token of its own; ours passes over its line alone."""
        encode = self.checkpoint.encode
        scored = [row for row in rows
                  if all(len(encode(row["context"] + ending)) > len(encode(row["context"])) for ending in row["endings"])]
        across = sum(encode(row["context"] + row["endings"][0])[:len(encode(row["context"]))] != encode(row["context"])
                     for row in scored)
        (totals,) = self.evaluate("--choices", write_lines(self.work / "borders.jsonl", rows))
        counts = (totals["examples"], totals["passed_over"])
        same = across > 0 and counts == (len(scored), len(rows) - len(scored))
        self.judge("borders", same, f"{counts[0]} questions, {across} of them with a token across, {counts[1]} passed over")
        self.choices_by_lm_eval("borders", scored, "")

    def choices_of_llm_c(self, rows):
        """llm.c's definition, by transformers: the lowest mean loss over an ending's tokens."""
        encode = self.checkpoint.encode
        examples = [(row["label"], encode(row["context"].rstrip()), [encode(" " + ending) for ending in row["endings"]])
                    for row in rows]
        write_eval_file(self.work / "choices.bin", examples)
        theirs = [[sum(self.checkpoint.nats(context + ending, len(context))) for ending in endings]
                  for _, context, endings in examples]
        lengths = [[len(ending) for ending in endings] for _, _, endings in examples]
        ones = [[1] * len(row) for row in lengths]
        rules = []
        for key, divisors in (("accuracy", ones), ("accuracy_per_token", lengths)):
            chosen = [first_lowest([a / b for a, b in zip(nats, divisor)]) for nats, divisor in zip(theirs, divisors)]
            rules.append((key, divisors, sum(a == row["label"] for a, row in zip(chosen, rows))))
        self.compare_choices("llm.c's definition by transformers", self.work / "choices.bin", rows, theirs, rules)

    def text(self):
        short, long = texts()
        path = write_lines(self.work / "texts.jsonl", [{"text": text} for text in short + long])
        for stride in (self.checkpoint.block_size, 17):
            *ours, total = self.evaluate("--text", path, "--each", "--stride", stride)
            theirs = [self.checkpoint.nats_of_text(text, stride) for text in short + long]
            self.compare(f"texts by transformers, stride {stride}", [line["loss"] * line["tokens"] for line in ours], theirs,
                         f"{len(theirs)} documents, {total['tokens']} tokens, loss {total['loss']:.4f}")
        path = write_lines(self.work / "short.jsonl", [{"text": text} for text in short])
        (total,) = self.evaluate("--text", path)
        totals, _ = self.checkpoint.run_lm_eval(rolling_task(path))
        theirs = [totals["bits_per_byte,none"], math.log2(totals["byte_perplexity,none"])]
        self.compare("bits per byte by lm-eval", [total["bits_per_byte"]] * 2, theirs,
                     f"{len(short)} documents, {total['bits_per_byte']:.4f} and {theirs[0]:.4f}")


def main(bin_folder, work):
    torch.set_num_threads(1)  # the models are small, and a second thread waits for the first
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    for name, settings in list(MODELS.items())[:None if os.environ.get("INKLING_NIGHTLY") else 1]:
        check = Check(bin_folder, work, name, settings)
        check.choices_by_lm_eval("questions", questions(300), " ")
        check.choices_by_lm_eval("odd questions", odd_questions(), "")
        check.borders_by_lm_eval(border_questions())
        check.choices_of_llm_c(questions(300))
        check.text()
    print(f"{Check.agree} agree, {Check.differ} differ")
    return int(Check.differ > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
