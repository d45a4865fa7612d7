"""Writes tensors as safetensors: the length of a JSON header, the header, the bytes (docs/formats.md)."""
import ctypes
import json
import os


def write_safetensors(path, tensors):
    """`tensors`: contiguous ones in float32, by name."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    with open(temporary, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write((ctypes.c_char * (4 * tensor.numel())).from_address(tensor.data_ptr()))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
