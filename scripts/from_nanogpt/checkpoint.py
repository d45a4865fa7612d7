"""nanoGPT's ckpt.pt as the config and the tensors of a GPT2LMHeadModel."""
import torch


class BadInput(Exception):
    """What is wrong with a file, and what to do."""


# Linear weights are [out, in] in nanoGPT, and [in, out] in GPT-2's files.
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
SIZES = ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")


def shapes_of(sizes):
    """The tensors of a GPT-2 by name, as nanoGPT has them: [out, in]."""
    c, shapes = sizes["n_embd"], {}
    shapes["wte.weight"] = (sizes["vocab_size"], c)
    shapes["wpe.weight"] = (sizes["block_size"], c)
    for layer in range(sizes["n_layer"]):
        for name, out, inside in [("attn.c_attn", 3 * c, c), ("attn.c_proj", c, c), ("mlp.c_fc", 4 * c, c),
                                  ("mlp.c_proj", c, 4 * c)]:
            shapes[f"h.{layer}.{name}.weight"] = (out, inside)
            shapes[f"h.{layer}.{name}.bias"] = (out,)
        for name in ("ln_1", "ln_2"):
            shapes[f"h.{layer}.{name}.weight"] = shapes[f"h.{layer}.{name}.bias"] = (c,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (c,)
    return shapes


def open_checkpoint(path):
    """The dict that torch.save wrote. With weights_only torch makes tensors and plain values and runs nothing."""
    with open(path, "rb") as file:
        try:
            checkpoint = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # torch.load raises almost anything, with the advice to switch weights_only off
            raise BadInput("it is not what torch.save writes of tensors and plain values: it is damaged, or it would run a "
                           "program when it is opened") from None
    arguments = checkpoint.get("model_args") if isinstance(checkpoint, dict) else None
    tensors = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not isinstance(arguments, dict) or not isinstance(tensors, dict):
        raise BadInput("it is no checkpoint of nanoGPT, which has model_args and model")
    return arguments, tensors


def read_sizes(arguments):
    sizes = {name: arguments.get(name) for name in SIZES}
    for name, value in sizes.items():
        if type(value) is not int or not 0 < value < 2**31:
            raise BadInput(f"its model_args has {name} {value!r}, and that must be a number above 0")
    return sizes


def plain_names(tensors):
    """Strips what torch.compile and GPT's outermost module put in front, and leaves out the buffer of the causal mask."""
    named = {}
    for name, tensor in tensors.items():
        plain = str(name).removeprefix("_orig_mod.").removeprefix("transformer.")
        is_mask = plain.endswith(".attn.bias")
        if not is_mask:
            named[plain] = tensor
    return named


def read_checkpoint(path):
    """Returns config.json's object and the float32 tensors of model.safetensors, by name."""
    arguments, stored = open_checkpoint(path)
    sizes, stored = read_sizes(arguments), plain_names(stored)
    bias = bool(arguments.get("bias", True))
    head, shapes, tensors = stored.pop("lm_head.weight", None), shapes_of(sizes), {}
    for name, shape in shapes.items():
        tensor = stored.pop(name, None)
        if tensor is None and name.endswith(".bias") and not bias:
            tensor = torch.zeros(shape)  # GPT-2's files always have biases
        if not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != shape:
            found = "none" if tensor is None else f"one of the shape {list(getattr(tensor, 'shape', []))}"
            raise BadInput(f"its model_args ask for a tensor {name} of the shape {list(shape)}, and it has {found}")
        tensor = tensor.float()
        tensors[f"transformer.{name}"] = tensor.t().contiguous() if name.endswith(TRANSPOSED) else tensor.contiguous()
    if stored:
        raise BadInput(f"it holds {next(iter(stored))}, which nanoGPT's own model.py does not have: a model that was changed "
                       "cannot be written as GPT-2's")
    if head is not None and not torch.equal(head.float(), tensors["transformer.wte.weight"]):
        raise BadInput("its lm_head.weight is not its wte.weight, and nanoGPT ties the two")
    return config_of(sizes, bias, float(arguments.get("dropout") or 0)), tensors


def config_of(sizes, bias, dropout):
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": sizes["vocab_size"],
              "n_positions": sizes["block_size"], "n_ctx": sizes["block_size"], "n_embd": sizes["n_embd"],
              "n_layer": sizes["n_layer"], "n_head": sizes["n_head"],
              # nanoGPT computes GELU exactly; before May 2023 it approximated it by tanh, which is "gelu_new" here.
              "activation_function": "gelu", "layer_norm_epsilon": 1e-5, "resid_pdrop": dropout, "embd_pdrop": dropout,
              "attn_pdrop": dropout, "tie_word_embeddings": True}
    if not bias:
        config["inkling"] = {"bias": False}
    return config
