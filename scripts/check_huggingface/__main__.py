"""What scripts/check-huggingface runs: BIN [FOLDER... | finetune TEXT | folders [NAME...] | changes [NAME...]], where BIN holds
inkling's programs."""
import copy
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from cases import foreign_models, older_configs, older_tensors, refused_configs, trained_models, training_config
from changed_folders import check_changes
from comparison import Inkling, compare_folder, read_config, write_config
from config_keys import check_config_keys
from finetuning import check_finetuning, check_finetuning_gpt2
from folders_compared import check_folders
from own_models import check_own
from safetensors.torch import load_file, save_file
from travelling import check_travelling


class Tally:
    """Counts comparisons and prints a line for each."""

    def __init__(self):
        self.counts = {True: 0, False: 0}

    def judge(self, name, compare, *arguments):
        """compare(*arguments) returns whether both programs agree, and words that say how well."""
        try:
            agree, words = compare(*arguments)
        except Exception as error:  # of either program: what cannot be opened does not agree
            agree, words = False, f"{type(error).__name__}: {error}"
        self.counts[agree] += 1
        print(f"{'agrees ' if agree else 'DIFFERS'}  {name}: {words}", flush=True)


def compare_trained(inkling, out, family, settings):
    folder = inkling.train(out.parent / "tiny.yaml", out, settings)
    config = read_config(folder)
    if config["architectures"] != [family]:
        return False, f"saved as {config['architectures']}, not as {family}"
    return compare_folder(inkling, folder, save_again=True)


def check_trained(tally, inkling, work):
    grammar = Path(__file__).resolve().parents[2] / "data/fables.grammar"
    (work / "tiny.yaml").write_text(training_config.format(grammar=grammar, dir=work / "data"))
    for number, (family, name, model) in enumerate(trained_models):
        settings = {f"model.{key}": value for key, value in model.items()}
        for steps, when in ((0, "fresh"), (100, "after 100 steps")):
            settings["training.max_steps"] = steps
            out = work / f"run{number}-{steps}"
            tally.judge(f"inkling's {name}, {when}", compare_trained, inkling, out, family, settings)


@torch.no_grad()
def lively_model(config):
    """Makes a model in which every weight matters: transformers begins with biases of 0, norms of 1 and matrices so
    small that little shows in the logits."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(config))  # .to(dtype) writes into the config
    for name, weight in model.named_parameters():
        if weight.dim() == 1 and name.endswith("weight"):
            weight.normal_(1.0, 0.3)
        else:
            weight.normal_(0.0, 0.1 if name.endswith(("embed_tokens.weight", "wte.weight")) else 0.2)
    return model.eval()


def compare_foreign(inkling, folder, config, storage):
    dtype, shard_size = storage
    lively_model(config).to(dtype).save_pretrained(folder, max_shard_size=shard_size)
    if (shard_size != "1GB") != (folder / "model.safetensors.index.json").exists():
        return False, "transformers did not split the model as it was to"
    return compare_folder(inkling, folder)


def change_config(folder, changes):
    config = {**read_config(folder), **changes}
    write_config(folder, {key: config[key] for key in config if config[key] is not ...})


def compare_older(inkling, folder, config, changes):
    lively_model(config).save_pretrained(folder)
    change_config(folder, changes)
    return compare_folder(inkling, folder)  # with what transformers opens there


def compare_older_tensors(inkling, folder, config, names):
    lively_model(config).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, **{name: torch.ones(4) for name in names}}, folder / "model.safetensors", {"format": "pt"})
    return compare_folder(inkling, folder)


def compare_refusal(inkling, folder, config, refused):
    key, changes = refused
    lively_model(config).save_pretrained(folder)
    inkling.logits(folder, [1, 2])  # so that what is refused below is the change
    change_config(folder, changes)
    refusal = inkling.refusal(folder)
    return key in refusal.replace(str(folder), ""), f"inkling says {refusal!r}" if refusal else "inkling computes it"


def check_foreign(tally, inkling, work):
    storages = {"F32": (torch.float32, "1GB"), "BF16": (torch.bfloat16, "1GB"), "sharded": (torch.float32, "40KB")}
    for number, (name, config) in enumerate(foreign_models):
        for word, storage in storages.items():
            folder = work / f"made{number}-{word}"
            tally.judge(f"transformers' {name}, {word}", compare_foreign, inkling, folder, config, storage)
    for number, (name, config, changes) in enumerate(older_configs):
        tally.judge(f"transformers' {name}", compare_older, inkling, work / f"older{number}", config, changes)
    for number, (name, config, names) in enumerate(older_tensors):
        tally.judge(f"transformers' {name}", compare_older_tensors, inkling, work / f"tensors{number}", config, names)
    for number, (key, config, changes) in enumerate(refused_configs):
        folder, refused = work / f"refused{number}", (key, changes)
        tally.judge(f"{config.model_type} refused for its {key}", compare_refusal, inkling, folder, config, refused)


def main(inkling, folders):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tally = Tally()
    with tempfile.TemporaryDirectory() as work:
        if folders[:1] == ["finetune"]:
            check_finetuning_gpt2(tally, inkling, Path(work), Path(folders[1]))
            folders = folders[2:]
        elif folders[:1] == ["folders"]:
            check_folders(tally, inkling, Path(work), lively_model, folders[1:])
            folders = []
        elif folders[:1] == ["changes"]:
            check_changes(tally, inkling, Path(work), lively_model, folders[1:])
            folders = []
        elif not folders:
            check_finetuning(tally, inkling, Path(work), lively_model)
            check_trained(tally, inkling, Path(work))
            check_own(tally, inkling, Path(work) / "tiny.yaml", Path(work))
            check_foreign(tally, inkling, Path(work))
            check_config_keys(tally, inkling, Path(work), lively_model)
            check_travelling(tally, inkling, Path(work) / "tiny.yaml", Path(work), lively_model)
    for folder in folders:
        tally.judge(folder, compare_folder, inkling, folder, None, True)
    print(f"{tally.counts[True]} agree, {tally.counts[False]} differ")
    return int(tally.counts[False] > 0)


if __name__ == "__main__":
    sys.exit(main(Inkling(Path(sys.argv[1])), sys.argv[2:]))
