"""How scripts/check-huggingface compares what inkling and transformers compute from one model folder.

Logits may differ by 1e-4 of the largest logit or of 1, whichever is larger, and weights of attention, which are at most
1, by 1e-4. Besides, both programs generate the likeliest tokens, inkling from its cached keys and values."""
import json
import struct
import subprocess
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

relative_tolerance = 1e-4
longest_text = 256
longest_continuation = 64


class Inkling:
    """inkling's programs."""

    def __init__(self, bin_folder):
        self.train_program = bin_folder / "inkling-train"
        self.tokens_program = bin_folder / "print_tokens"
        self.print_program = bin_folder / "print_logits"
        self.printer = None

    def ask(self, *request):
        """The lines that print_logits answers."""
        if self.printer is None or self.printer.poll() is not None:
            self.printer = subprocess.Popen([self.print_program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        print(*request, sep="\t", file=self.printer.stdin, flush=True)
        lines = []
        for line in self.printer.stdout:
            if line == "\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError(f"print_logits ended with {self.printer.wait()} at {request[:3]}")

    def rows(self, *request):
        """The same as numbers, float32 [lines, numbers in each]."""
        lines = self.ask(*request)
        if lines[-1].startswith("error: "):
            raise RuntimeError(lines[-1])
        return torch.tensor([[float(word) for word in line.split()] for line in lines])

    def logits(self, folder, tokens):
        """float32 [tokens, vocabulary]: the logits after each token."""
        return self.rows("logits", folder, *tokens)

    def attention(self, folder, tokens):
        """float32 [layers * heads, tokens, tokens]: how much each token takes of each."""
        return self.rows("attention", folder, *tokens).view(-1, len(tokens), len(tokens))

    def continuation(self, folder, prompt, count):
        return self.rows("greedy", count, folder, *prompt)[0].long().tolist()

    def refusal(self, folder):
        """What it says instead of computing; empty where it computes."""
        last = self.ask("logits", folder, 1, 2)[-1]
        return last if last.startswith("error: ") else ""

    def tokens(self, folder, texts):
        """The tokens of each text as a document, by the tokenizer of a folder."""
        frames = b"".join(struct.pack("<I", len(data)) + data for data in (text.encode() for text in texts))
        done = subprocess.run([self.tokens_program, "open", folder], input=frames, stdout=subprocess.PIPE, check=True)
        numbers, at, answers = [number for (number,) in struct.iter_unpack("<I", done.stdout)], 0, []
        while at < len(numbers):  # microseconds, the number of tokens, the tokens
            end = at + 2 + numbers[at + 1]
            answers.append(numbers[at + 2 : end])
            at = end
        return answers

    def train(self, config, out, settings):
        """Returns the folder of the newest checkpoint."""
        run(self.train_program, config, "--out", out, *(f"--set={key}={value}" for key, value in settings.items()))
        return max((out / "checkpoints").iterdir())


def run(*command):
    """Returns what the command prints; throws its last line of errors where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.splitlines() or [""])[-1]
        raise RuntimeError(f"{Path(command[0]).name} ends with {done.returncode}: {last}")
    return done.stdout


def read_config(folder):
    return json.loads((Path(folder) / "config.json").read_text())


def write_config(folder, config):
    (Path(folder) / "config.json").write_text(json.dumps(config))


def open_with_transformers(folder):
    """Returns the model in float32; throws where a tensor is missing, left over or of another shape. Code of the folder runs
    for inkling's own family alone."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, trust_remote_code=is_own(read_config(folder)))
    keys = [key for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]]
    if keys:
        raise RuntimeError("; ".join(f"transformers reports {key} {sorted(map(str, info[key]))}" for key in keys))
    return model.eval()


def is_own(config):
    return config["model_type"] == "inkling"


def some_tokens(vocab_size, positions):
    return [(7919 * position + 5) % vocab_size for position in range(min(positions, longest_text))]


class Comparison:
    """A folder as inkling opens it, against `model`, which is what it holds as transformers computes it."""

    @torch.no_grad()
    def __init__(self, inkling, folder, model):
        self.inkling, self.folder, self.model = inkling, folder, model
        self.tokens = some_tokens(model.config.vocab_size, model.config.max_position_embeddings)
        self.expected = model(torch.tensor([self.tokens])).logits[0]
        largest = self.expected.abs().max().item()
        self.allowed = relative_tolerance * max(1.0, largest)
        self.agree = True
        self.words = [f"{type(model).__name__}, {len(self.tokens)} tokens, largest logit {largest:.3f}"]

    def result(self):
        return self.agree, ", ".join(self.words)

    def logits(self, folder, what="largest difference"):
        difference = (self.inkling.logits(folder, self.tokens) - self.expected).abs().max().item()
        self.agree = self.agree and difference <= self.allowed
        self.words.append(f"{what} {difference:.2e} of {self.allowed:.1e}")

    def logits_saved_again(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model.save_pretrained(folder)
            self.logits(folder, "after transformers saved it")

    @torch.no_grad()
    def attention(self):
        self.model.set_attn_implementation("eager")  # the only one that returns its weights
        layers = self.model(torch.tensor([self.tokens]), output_attentions=True).attentions
        theirs, ours = torch.cat(layers).flatten(0, 1), self.inkling.attention(self.folder, self.tokens)
        difference = (ours - theirs).abs().max().item()
        self.agree = self.agree and difference <= relative_tolerance
        self.words.append(f"weights of attention {difference:.2e} of {relative_tolerance:.1e}")

    def generated(self, prompt, count, **settings):
        """transformers' likeliest tokens behind a prompt, and their logits."""
        return self.model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
            max_new_tokens=count, eos_token_id=None, pad_token_id=0, output_logits=True, return_dict_in_generate=True,
            **settings)

    @torch.no_grad()
    def continuation(self, beyond=0):
        """Compares greedy texts. Where transformers' two likeliest tokens are nearer to each other than twice what a logit may
        differ by, either is right, and what follows is another text. beyond: how many tokens more than the block has."""
        prompt = self.tokens[:max(1, len(self.tokens) // 4)]
        count = min(longest_continuation, len(self.tokens) - len(prompt)) + beyond
        generated = self.generated(prompt, count)
        theirs = generated.sequences[0, len(prompt):].tolist()
        ours = self.inkling.continuation(self.folder, prompt, count)
        if [len(theirs), len(ours)] != [count, count]:
            self.agree = False
            self.words.append(f"generated {len(ours)} tokens and transformers {len(theirs)}, not {count}")
            return
        same = next((place for place in range(count) if ours[place] != theirs[place]), count)
        self.words.append(f"{same} of {count} greedy tokens the same ({len(set(theirs))} kinds)")
        if same < count:
            first, second = generated.logits[same][0].topk(2).values.tolist()
            self.agree = self.agree and first - second <= 2 * self.allowed
            self.words.append(f"then the two likeliest are {first - second:.2e} apart")


def compare_folder(inkling, folder, model=None, save_again=False):
    """Compares with `model`, or with what transformers opens there. Returns whether both agree, and words."""
    comparison = Comparison(inkling, folder, model or open_with_transformers(folder))
    comparison.logits(folder)
    if save_again:
        comparison.logits_saved_again()
    comparison.continuation()
    if not is_own(read_config(folder)):
        comparison.attention()
    return comparison.result()
