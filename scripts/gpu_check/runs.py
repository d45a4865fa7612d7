"""The stages of gpu-check that train, write and measure."""
import hashlib
import json
import os

from .places import EMULATED, PROGRAMS, PYTHON, ROOT, text_for_tests
from .runner import Failure

# A model so small that a step takes milliseconds on a busy CPU; its threads would wait for each other.
TINY = {"model.n_layer": 1, "model.n_head": 2, "model.n_embd": 32, "model.block_size": 16, "training.batch_size": 16,
        "runtime.threads": 1} if EMULATED else {}
# Thirty steps of a small model on the characters of the shipped grammar: no corpus is needed. Muon's products are in
# bfloat16 on a GPU, too far from the CPU's for the tolerance below; `character` trains with it.
SHORT = {"data.source": ROOT / "data/fables.grammar", "data.stories": 2000, "data.tokenizer.kind": "char",
         "optimizer.name": "adamw", "optimizer.embedding_learning_rate": "auto",
         "model.block_size": 128, "training.batch_size": 8, "training.max_steps": 30, "schedule.warmup_steps": 5,
         "evaluation.interval": 30, "logging.interval": 1} | TINY
# How far a loss may be from that of the same step on the CPU, in nats.
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}


def flags(settings):
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def on_gpu(kernels, dtype="bfloat16"):
    return {"runtime.device": "cuda", "runtime.kernels": kernels, "runtime.dtype": dtype}


# Starts as many processes as $0 says, with the variables that torchrun sets on machines of $GPUS GPUs each, and ends as
# the first that failed. NCCL takes such machines for different ones by NCCL_HOSTID, so several ranks may share a GPU.
# With $LOSE, a file, rank 1 is killed once there is something about a step in it, and rank 0 has to end by itself.
AS_RANKS = """
(( local = $0 < GPUS ? $0 : GPUS ))
for ((rank = 0; rank < $0; rank++)); do
  NCCL_HOSTID=$((rank / local)) RANK=$rank LOCAL_RANK=$((rank % local)) WORLD_SIZE=$0 LOCAL_WORLD_SIZE=$local "$@" & ranks+=($!)
done
if [ "$LOSE" ]; then
  until grep -q loss "$LOSE" 2> /dev/null; do kill -0 "${ranks[0]}" || exit; sleep 0.1; done
  sleep 1
  kill -KILL "${ranks[1]}"
  begun=${EPOCHREALTIME/./}
  wait "${ranks[0]}"
  echo "code $? after $(((${EPOCHREALTIME/./} - begun) / 1000)) ms"
  exit 0
fi
for rank in "${ranks[@]}"; do wait "$rank" || code=${code:-$?}; done
exit "${code:-0}"
"""


def as_ranks(stage, name, ranks, gpus, lose=""):
    """How a command is started as so many ranks; the machine itself is their network."""
    port = 29500 + sum(map(ord, name)) % 1000
    return ["env", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={port}", "NCCL_SOCKET_IFNAME=lo", "NCCL_NET=Socket",
            f"GPUS={gpus}", f"LOSE={lose}", "bash", "-c", AS_RANKS, ranks]


def train_command(stage, name, config, settings):
    return [PROGRAMS / "inkling-train", ROOT / "configs" / config, "--out", stage.work / name, *flags(settings)]


def train(stage, name, config, settings, limit=120, more=(), ranks=1, gpus=1):
    """Trains into the folder of this name; returns the lines of its log."""
    several = as_ranks(stage, name, ranks, gpus) if ranks > 1 else []
    stage.command([*several, *train_command(stage, name, config, settings), *more], limit)
    return [json.loads(line) for line in (stage.work / name / "log.jsonl").read_text().splitlines()]


def train_short(stage, name, settings, ranks=1, gpus=1):
    log = train(stage, name, "fables.yaml", SHORT | settings, ranks=ranks, gpus=gpus)
    weights = sorted((stage.work / name / "checkpoints").glob("*/model.safetensors"))[-1]
    return {"losses": [line["loss"] for line in log if "loss" in line],
            "weights": hashlib.sha256(weights.read_bytes()).hexdigest()}


def write(stage, run, count, kernels="", dtype="bfloat16"):
    """Texts of a seed; on the CPU where no kernels are named."""
    form = ["--kernels", kernels, "--dtype", dtype] if kernels else []
    text = stage.command([PROGRAMS / "inkling-sample", stage.work / run, "--prompt", "One ", "--count", count, "--seed", 1,
                          "--max-tokens", 30 if EMULATED else 300, "--device",
                          "cuda" if kernels else "cpu", *form])
    if not text.strip():
        raise Failure("it wrote nothing")
    return {"text": text}


def smoke_runs(stage):
    stage.step("inkling-train starts", stage.command, [PROGRAMS / "inkling-train", "--help"])
    product = "import torch; x = torch.randn(512, 512, device='cuda'); (x @ x).sum().item()"
    stage.step("a product in PyTorch", stage.command, [PYTHON, "-W", "ignore", "-c", product])
    few = {"training.max_steps": 5}
    stage.step("train auto", train_short, stage, "auto", few)
    stage.step("write auto", stage.command, [PROGRAMS / "inkling-sample", stage.work / "auto", "--prompt", "One "])
    stage.step("evaluate auto", stage.command, [PROGRAMS / "inkling-eval", stage.work / "auto"])
    stage.step("train reference-float32", train_short, stage, "reference-float32",
               on_gpu("reference", "float32") | few)
    stage.step("train fused-bfloat16", train_short, stage, "fused-bfloat16", on_gpu("fused") | few)
    stage.step("write with fused kernels", write, stage, "fused-bfloat16", 2, "fused")
    for kernels in ("fused", "reference"):
        time_ours(stage, f"twenty steps of gpt2_124m, {kernels}", 20, "gpt2_124m.yaml", kernels,
                  {"training.batch_size": 16, "training.micro_batch_size": 16})
        stage.step(f"where a step of GPT-2's layers goes, {kernels}", profile, stage, kernels)


def profile(stage, kernels):
    """The kernels that ten steps of GPT-2's layers spend most time in: how often each runs, and for how long."""
    trace = stage.work / f"trace-{kernels}.json"
    layers = {"model.n_layer": 12, "model.n_head": 12, "model.n_embd": 768, "model.block_size": 1024, "model.dropout": 0,
              "model.bias": "true", "model.activation": "gelu_tanh", "training.batch_size": 16}
    few = {"training.max_steps": 14, "schedule.warmup_steps": 5}
    train(stage, f"profiled-{kernels}", "shakespeare_char.yaml", find_text() | layers | few | on_gpu(kernels) | TINY,
          more=["--profile", trace])
    longest = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("cat") == "kernel":
            count, spent = longest.get(event["name"], (0, 0.0))
            longest[event["name"]] = count + 1, spent + event["dur"]
    rows = sorted(longest.items(), key=lambda row: -row[1][1])[:40]
    lines = [f"| {name[:150]} | {count} | {spent / 1000:.3f} |".replace("\n", " ") for name, (count, spent) in rows]
    return {"table": "\n".join(["| kernel | runs | ms |", "|---|---|---|", *lines])}


def compare_losses(runs, name, tolerance):
    reference, losses = ((runs[run] or {}).get("losses", []) for run in ("cpu", name))
    if not losses or len(losses) != len(reference):
        raise Failure(f"{len(losses)} losses, and {len(reference)} on the CPU: there is nothing to compare")
    differences = [abs(ours - theirs) for ours, theirs in zip(losses, reference)]
    worst = max(differences)
    found = {"largest_difference": worst, "tolerance": tolerance, "first": losses[0], "last": losses[-1]}
    if not all(difference <= tolerance for difference in differences):  # where one is not a number either
        raise Failure(f"{worst:.2e} nats from the CPU's losses, tolerance {tolerance:g}", **found)
    return found


def same(what, results, one, other):
    """Two results that must be the same in every bit."""
    if results[one] is None or results[other] is None:
        raise Failure("one of the two did not pass: there is nothing to compare")
    differ = [field for field in results[one] if results[one][field] != results[other][field]]
    if differ:
        raise Failure(f"{what} differ in their {' and '.join(differ)}")


def steps(stage):
    """The same thirty steps on the CPU and on the GPU, and what the models then write."""
    forms = {"reference-float32": on_gpu("reference", "float32"), "reference-bfloat16": on_gpu("reference"),
             "reference-again": on_gpu("reference"),
             "fused-float32": on_gpu("fused", "float32"), "fused-bfloat16": on_gpu("fused"),
             "fused-again": on_gpu("fused"),
             "fused-micro-batches": on_gpu("fused", "float32") | {"training.micro_batch_size": 4},
             "fused-any-order": on_gpu("fused") | {"runtime.deterministic": "false"}}
    plain = {"runtime.device": "cpu", "runtime.dtype": "float32"}
    runs = {"cpu": stage.step("train cpu", train_short, stage, "cpu", plain)}
    for name, settings in forms.items():
        runs[name] = stage.step(f"train {name}", train_short, stage, name, settings)
        stage.step(f"{name} against cpu", compare_losses, runs, name, TOLERANCE[settings["runtime.dtype"]])
    for kernels in ("reference", "fused"):
        stage.step(f"{kernels} twice", same, "two runs", runs, f"{kernels}-bfloat16", f"{kernels}-again")
    texts = {"cpu": stage.step("write cpu", write, stage, "fused-float32", 16)}
    for name, kernels, dtype in (("reference-float32", "reference", "float32"),
                                 ("fused-float32", "fused", "float32"), ("fused-bfloat16", "fused", "bfloat16"),
                                 ("fused-again", "fused", "bfloat16")):
        texts[name] = stage.step(f"write {name}", write, stage, "fused-float32", 16, kernels, dtype)
    stage.step("write twice", same, "sixteen texts of a seed", texts, "fused-bfloat16", "fused-again")
    for name in ("reference-float32", "fused-float32"):
        stage.step(f"texts of cpu and {name}", compare_texts, texts, name)


def compare_texts(texts, name):
    """For the reader: rounding may lead to another token."""
    if texts["cpu"] is None or texts[name] is None:
        raise Failure("one of the two did not pass: there is nothing to compare")
    return {"same": texts["cpu"] == texts[name]}


def find_text():
    """Tiny Shakespeare as the setting of a run."""
    text = text_for_tests()
    if text is None:
        raise Failure("tiny Shakespeare is missing: put tinyshakespeare.txt into the folder that INKLING_TEST_DATA names")
    return {"data.source": text}


def train_character(stage, recipe, settings, limit):
    log = train(stage, recipe, f"{recipe}.yaml", find_text() | settings, limit)
    evaluations = [[line["step"], line["val_loss"]] for line in log if "val_loss" in line]
    return {"best_loss": min(loss for _, loss in evaluations), "evaluations": evaluations,
            "training_seconds": max(line["seconds"] for line in log if "seconds" in line)}


def reaches(run, limit, figure="best_loss"):
    if run is None or not run[figure] <= limit:
        raise Failure(f"{figure} is {run and run[figure]}, at most {limit} was expected")


def count_waits(stage):
    """How often the host calls what waits for the GPU, in ten steps."""
    trace, few = stage.work / "trace.json", {"training.max_steps": 14, "schedule.warmup_steps": 5}
    stage.command([PROGRAMS / "inkling-train", ROOT / "configs/shakespeare_char.yaml", "--out", stage.work / "profiled",
                   "--profile", trace, *flags(find_text() | few | on_gpu("fused") | TINY)])
    waits = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("cat") == "cuda_runtime" and ("Synchronize" in event["name"] or event["name"] == "cudaMemcpy"):
            waits[event["name"]] = waits.get(event["name"], 0) + 1
    return {"waits": waits}


def character(stage):
    """nanoGPT's character run on tiny Shakespeare, 5,000 steps with their evaluations, and a fifth of them with Muon."""
    few = {"training.max_steps": 20, "schedule.warmup_steps": 5, "evaluation.interval": 10, "evaluation.batches": 1}
    settings = on_gpu("fused") | TINY | (few if EMULATED else {})
    run = stage.step("5,000 steps", train_character, stage, "shakespeare_char", settings, 90)
    # nanoGPT's README reports 1.4697; seeds of its CPU run differ by 0.02.
    stage.step("as good as nanoGPT", reaches, run, 5.0 if EMULATED else 1.50)
    run = stage.step("1,000 steps with Muon", train_character, stage, "shakespeare_fast", settings, 40)
    stage.step("as good as nanoGPT in a fifth of its steps", reaches, run, 5.0 if EMULATED else 1.4697)
    stage.step("what the host waits for", count_waits, stage)


def train_by_recipe(stage):
    """A minute of tiny Shakespeare by settings that are chosen here: what they expect, and what comes. Emulated, its
    beginning, which is tried out in small steps."""
    text, run = find_text()["data.source"], stage.work / "recipe"
    if EMULATED:
        beginning = stage.work / "beginning.txt"
        beginning.write_bytes(text.read_bytes()[:3000])
        text = beginning
    stage.command([PROGRAMS / "inkling-train", text, "--minutes", 1, "--device", "cuda", "--out", run], 130)
    told = [line[2:] for line in (run / "recipe.yaml").read_text().splitlines() if line.startswith("# ")]
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    evaluation = json.loads(stage.command([PROGRAMS / "inkling-eval", run, "--json"]))
    return {"told": told[2:], "training_seconds": max(line["seconds"] for line in log if "seconds" in line),
            "bits_per_byte": evaluation["bits_per_byte"]}


def recipe(stage):
    run = stage.step("tiny Shakespeare in a minute", train_by_recipe, stage)
    # Two CPU cores come to 2.09.
    stage.step("as good as two CPU cores", reaches, run, 8 if EMULATED else 2.2, "bits_per_byte")


def measure(stage, command, limit=120):
    """Runs a program that prints one JSON object last."""
    return {"measured": json.loads(stage.command(command, limit).splitlines()[-1])}


def decode(stage):
    """Generating with GPT-2 124M in four forms."""
    for name, kernels, dtype, rows in (("fused", "fused", "bfloat16", 1), ("fused, 16 texts", "fused", "bfloat16", 16),
                                       ("reference", "reference", "bfloat16", 1),
                                       ("fused float32", "fused", "float32", 1)):
        command = [PROGRAMS / "bench-decode", ROOT / "configs/gpt2_124m.yaml", "--json", "--rows", rows, "--tokens",
                   2 if EMULATED else 256]
        stage.step(name, measure, stage, command + flags(on_gpu(kernels, dtype) | TINY))


# Whose memory is measured, and how: configurations with the micro-batches that a GPU of 24 GiB could take.
MEMORY_CONFIGS = {"gpt2_124m": 16, "llama_124m": 16, "llama_15m": 16, "shakespeare_char": 64, "shakespeare_fast": 32,
                  "shakespeare_sentencepiece": 32, "fables": 16, "long_context": 1, "recall": 16}
MEMORY_FORMS = {"fused": ("fused", {}), "recompute": ("fused", {"training.recompute": "block"}),
                "mask": ("fused", {"data.documents": "mask"}), "reference": ("reference", {})}
# How far the estimate may be off: this share of what is reserved, or as many bytes.
MEMORY_TOLERANCE = 0.05, 64 << 20


def take_memory(stage, config, kernels, settings):
    """What three steps make LibTorch reserve, beside what was expected."""
    found = measure(stage, [PROGRAMS / "bench-step", ROOT / f"configs/{config}.yaml", "--memory", "--json",
                            *flags(on_gpu(kernels) | settings | TINY)])["measured"]
    expected, held = found["expected_bytes"], found["held_bytes"]
    share, least = MEMORY_TOLERANCE
    if abs(expected - held) > max(share * held, least):
        raise Failure(f"{expected / 2**20:.0f} MiB were expected, {held / 2**20:.0f} MiB are reserved", memory=found)
    return {"memory": found}


def memory(stage):
    """The estimate of memory, which `auto` goes by, beside what is reserved."""
    for config, rows in MEMORY_CONFIGS.items():
        for form, (kernels, settings) in MEMORY_FORMS.items():
            settings = settings | {"training.batch_size": rows, "training.micro_batch_size": "auto" if EMULATED else rows}
            stage.step(f"{config}, {form}", take_memory, stage, config, kernels, settings)


def pace_of_ranks(stage, count):
    """GPT-2's layers on characters, 16 windows of 1,024 for each GPU: tokens in a second, behind the first steps."""
    layers = {"model.n_layer": 12, "model.n_head": 12, "model.n_embd": 768, "model.block_size": 1024, "model.dropout": 0,
              "training.batch_size": 16 * count, "training.max_steps": 60, "schedule.warmup_steps": 5, "logging.interval": 20}
    log = train(stage, f"pace-{count}", "shakespeare_char.yaml", find_text() | layers | on_gpu("fused") | TINY, ranks=count,
                gpus=count)
    return {"tokens_per_second": [line for line in log if "tokens_per_second" in line][-1]["tokens_per_second"]}


def lose_a_rank(stage, gpus):
    """The other has to notice while it waits in NCCL."""
    endless = SHORT | on_gpu("fused") | {"training.max_steps": 1000000, "evaluation.interval": 1000000, "logging.interval": 10}
    start = as_ranks(stage, "lost", 2, gpus, stage.work / "lost/log.jsonl")
    said = stage.command([*start, *train_command(stage, "lost", "fables.yaml", endless)], 60).split()
    if said[-5:-2] != ["code", "3", "after"] or int(said[-2]) > 2000:
        raise Failure(f"the other rank ended with {' '.join(said[-5:])}")
    return {"milliseconds": int(said[-2])}


def ranks(stage):
    """The same bits by 1, 2, 4 and 8 ranks, and how fast they are on a GPU each. Where there is one GPU, 2 and 4 ranks
    share it."""
    code = "import torch; print(torch.cuda.device_count())"
    count = int(stage.command([PYTHON, "-W", "ignore", "-c", code]).split()[-1])
    several = [number for number in (2, 4, 8) if number <= (4 if count == 1 else count)]
    forms = {"fused-bfloat16": on_gpu("fused"), "muon": on_gpu("fused") | {"optimizer.name": "muon", "training.ema": 0.9}}
    for name, form in forms.items():
        settings = form | {"runtime.split": "batch", "training.micro_batch_size": 2 if EMULATED else 1}
        runs = {"1": stage.step(f"{name}, 1 rank", train_short, stage, f"{name}-1", settings)}
        for number in several:
            runs[str(number)] = stage.step(f"{name}, {number} ranks", train_short, stage, f"{name}-{number}", settings,
                                           number, count)
            stage.step(f"{name}, {number} ranks and 1", same, "the runs", runs, "1", str(number))
    stage.step("a rank is lost", lose_a_rank, stage, count)
    for gpus in (number for number in (1, 2, 4, 8) if number <= count):
        stage.step(f"pace on {gpus}", pace_of_ranks, stage, gpus)


ROWS = int(os.environ.get("MICRO_BATCH", 64))  # of 1,024 tokens, that go through GPT-2 together
GPT2 = {"layers": 12, "heads": 12, "width": 768, "block": 1024, "batch": ROWS, "vocab": 50304}  # padded, as nanoGPT does
CHAR = {"layers": 6, "heads": 6, "width": 384, "block": 256, "batch": 64, "vocab": 65}


def time_ours(stage, name, count, config, kernels, settings):
    command = [*(["env", "SOFTWARE_GPU_COMPUTES=0"] if EMULATED else []), PROGRAMS / "bench-step", ROOT / "configs" / config,
               "--json", "--steps", 2 if EMULATED else count, *(["--vocab-size", 65] if EMULATED else [])]
    stage.step(name, measure, stage, command + flags(on_gpu(kernels) | settings | TINY))


def time_pytorch(stage, name, count, shape, *more):
    """Emulated, nothing is compiled: that needs a compiler and Python's headers."""
    if EMULATED:
        shape, more = {"layers": 1, "heads": 2, "width": 32, "block": 16, "batch": 16, "vocab": 65}, []
    command = [PYTHON, "-W", "ignore", ROOT / "benchmarks/peers/torch_step.py", *more, "--steps",
               2 if EMULATED else count, "--device", "cuda"]
    command += [part for key, value in shape.items() for part in (f"--{key}", value)]
    stage.step(name, measure, stage, command, 200)


def peer(stage):
    """Step times in turns with PyTorch, which has no dropout: shakespeare_char is timed without it too."""
    gpt2 = {} if EMULATED else {"training.batch_size": 64, "training.micro_batch_size": ROWS}
    as_gpt2, turns = ("--bias", "--activation", "gelu_tanh"), (1,) if EMULATED else (1, 2)
    for turn in turns:
        time_ours(stage, f"gpt2_124m fused, {turn}", 20, "gpt2_124m.yaml", "fused", gpt2)
        time_pytorch(stage, f"gpt2_124m PyTorch compiled, {turn}", 20, GPT2, "--compile", *as_gpt2)
        time_ours(stage, f"gpt2_124m fused in any order, {turn}", 20, "gpt2_124m.yaml", "fused",
                  gpt2 | {"runtime.deterministic": "false"})
    time_pytorch(stage, "gpt2_124m PyTorch eager", 20, GPT2, *as_gpt2)
    time_ours(stage, "gpt2_124m reference", 20, "gpt2_124m.yaml", "reference", gpt2)
    for turn in turns:
        time_ours(stage, f"shakespeare_char without dropout fused, {turn}", 200, "shakespeare_char.yaml", "fused",
                  {"model.dropout": 0})
        time_pytorch(stage, f"shakespeare_char PyTorch compiled, {turn}", 200, CHAR, "--compile")
    time_pytorch(stage, "shakespeare_char PyTorch eager", 100, CHAR)
    time_ours(stage, "shakespeare_char fused", 200, "shakespeare_char.yaml", "fused", {})
    time_ours(stage, "shakespeare_char reference", 100, "shakespeare_char.yaml", "reference", {})
    stage.step("each operation of gpt2_124m", measure_operations, stage, flags(on_gpu("fused") | gpt2 | TINY))


def measure_operations(stage, settings):
    return {"table": stage.command([PROGRAMS / "bench-ops", ROOT / "configs/gpt2_124m.yaml", "--vocab-size",
                                    65 if EMULATED else 50257, "--rounds", 1 if EMULATED else 15, *settings])}
