"""What docs/attention.md computes with. Its small model (docs/attention/model) is read here without any library, and its
numbers are ordinary Python lists: a vector is a list of numbers, a matrix a list of rows.
"""

import json
import math
import os
import pathlib
import struct
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent / "model"
PROGRAMS = pathlib.Path(os.environ.get("INKLING_BUILD", FOLDER.parent.parent.parent / "build")) / "bin"
exact = False  # scripts/check-attention compares numbers that are not rounded


def attend(prompt, *flags):
    """What inkling-attend says of a prompt: docs/formats.md, "Attention"."""
    command = [PROGRAMS / "inkling-attend", FOLDER, "--json", "--prompt", prompt, *flags]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def weights():
    """The tensors of model.safetensors by their names in GPT-2, as matrices or vectors."""
    data = (FOLDER / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, tensor in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            numbers = list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]))
            columns = tensor["shape"][-1]
            rows = [numbers[i:i + columns] for i in range(0, len(numbers), columns)]
            tensors[name.removeprefix("transformer.")] = rows if len(tensor["shape"]) == 2 else numbers
    return tensors


def product(rows, matrix):
    """[T, A] times [A, B]: each row becomes a sum of the matrix's rows."""
    columns = list(zip(*matrix))
    return [[sum(map(float.__mul__, row, column)) for column in columns] for row in rows]


def add(rows, others):
    return [[a + b for a, b in zip(*two)] for two in zip(rows, others)]


def normals(count, stream):
    """Random numbers from the normal distribution, a function of their place: src/base/random.h, here by Box and Muller."""
    def mix(x):
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 % 2**64
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb % 2**64
        return x ^ (x >> 31)

    def uniform(i):
        return (mix((mix(stream) + (i + 1) * 0x9e3779b97f4a7c15) % 2**64) + 0.5) / 2**64
    return [math.sqrt(-2 * math.log(uniform(2 * i))) * math.cos(2 * math.pi * uniform(2 * i + 1)) for i in range(count)]


def number(x, digits=3):
    return f"{x:.12f}" if exact else f"{x:.{digits}f}"


def show(*lines):
    """Prints names and vectors in columns: each line is a name and its numbers, or its words."""
    for name, *cells in lines:
        cells = [cell if isinstance(cell, str) else str(cell) if isinstance(cell, int) else number(cell) for cell in cells]
        print(f"{name:<10}" + "".join(f" {cell:>7}" for cell in cells).rstrip())
