#!/usr/bin/env python3
"""limits.py LIBRARY [CAPABILITY]: what the compiler says of each kernel in our own library, a line each: registers, bytes
of static shared memory, most threads of a block, demangled name. It stands in the ELF files for GPUs inside the library, which
are compressed with zstd."""
import ctypes
import struct
import subprocess
import sys

FAT_BINARY, ELF_KIND, COMPRESSED = 0xBA55ED50, 2, 0x8000
REGISTERS, MOST_THREADS = 0x2F, 0x05  # attributes in .nv.info


def sections(elf):
    """(name, size, offset, is_in_file) of each section."""
    start, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, start + i * size) for i in range(count)]
    names = heads[names_at][4]

    def text(offset):
        return elf[offset:elf.index(b"\0", offset)].decode()

    return {text(names + head[0]): (head[5], head[4], head[1] != 8) for head in heads}


def decompress(data, size):
    zstd = ctypes.CDLL("libzstd.so.1")
    out = ctypes.create_string_buffer(size)
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    got = zstd.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    if zstd.ZSTD_isError(ctypes.c_size_t(got)):
        sys.exit("limits.py: a kernel's code is not compressed with zstd")
    return out.raw[:got]


def gpu_files(library, capability):
    """The ELF files for GPUs of this capability."""
    data = open(library, "rb").read()
    size, offset, _ = sections(data)[".nv_fatbin"]
    fat, at = data[offset:offset + size], 0
    while at + 16 <= len(fat):
        magic, _, header, length = struct.unpack_from("<IHHQ", fat, at)
        if magic != FAT_BINARY:
            at += 8
            continue
        entry, end = at + header, at + header + length
        while entry + 64 <= end:
            kind, _, own, stored = struct.unpack_from("<HHIQ", fat, entry)
            compressed, = struct.unpack_from("<I", fat, entry + 16)
            architecture, = struct.unpack_from("<I", fat, entry + 28)
            flags, = struct.unpack_from("<Q", fat, entry + 40)
            whole, = struct.unpack_from("<Q", fat, entry + 56)
            if kind == ELF_KIND and architecture == capability:
                code = fat[entry + own:entry + own + stored]
                yield decompress(code[:compressed or stored], whole) if flags & COMPRESSED else code
            entry += own + stored
        at = end


def attributes(info):
    at = 0
    while at + 4 <= len(info):
        form, name, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # `value` bytes follow
            yield name, info[at:at + value]
            at += value


def limits(elf):
    found = sections(elf)

    def contents(name):
        size, offset, is_in_file = found.get(name, (0, 0, False))
        return elf[offset:offset + size] if is_in_file else b""

    symbols, texts, registers = contents(".symtab"), contents(".strtab"), {}
    for name, data in attributes(contents(".nv.info")):
        if name == REGISTERS:
            symbol, count = struct.unpack("<II", data)
            start, = struct.unpack_from("<I", symbols, symbol * 24)
            registers[texts[start:texts.index(b"\0", start)].decode()] = count
    for section in found:
        if section.startswith(".nv.info."):
            kernel, threads = section.removeprefix(".nv.info."), 1024
            for name, data in attributes(contents(section)):
                if name == MOST_THREADS:
                    x, y, z = struct.unpack("<III", data)
                    threads = x * y * z
            yield kernel, registers.get(kernel, 0), found.get(f".nv.shared.{kernel}", (0,))[0], threads


def main(library, capability="90"):
    rows = [row for elf in gpu_files(library, int(capability)) for row in limits(elf)]
    names = subprocess.run(["c++filt"], input="\n".join(row[0] for row in rows), text=True, capture_output=True, check=True)
    for (_, registers, shared, threads), name in zip(rows, names.stdout.splitlines()):
        print(registers, shared, threads, name)


main(*sys.argv[1:])
