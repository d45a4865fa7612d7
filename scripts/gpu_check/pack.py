"""Makes the archive of gpu-check: all that it needs but a driver and LibTorch, laid out as the repository is."""
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from . import places
from .places import PROGRAMS, ROOT

LARGEST = 60  # MiB
FILES = ["LICENSE", "configs", "data/fables.grammar", "benchmarks/peers/torch_step.py", "scripts/gpu-check",
         "scripts/gpu_check"]
# And the test programs with tests labelled cuda.
NEEDED = ["inkling-train", "inkling-sample", "inkling-eval", "bench-step", "bench-ops", "bench-decode", "libinkling_cuda.so"]
# What need not be in the archive: LibTorch and what comes with it, the C and the C++ library.
ELSEWHERE = re.compile(r"lib(torch|torch_cpu|torch_cuda|c10|c10_cuda|cudart|cublas|cublasLt|gomp|stdc\+\+|gcc_s|c|m|dl|rt|pthread)"
                       r"\.so(\.\d+)?|ld-linux-x86-64\.so\.2")


def fail(message):
    sys.exit(f"gpu-check: {message}")


def run(*command):
    code, text = places.output(*map(str, command), limit=3600)
    if code != 0:
        fail(f"{command[0]} failed: {text[-500:]}")
    return text


def copy_programs(names, folder):
    """Without what debuggers read, and without the places of LibTorch on the machine that built them."""
    folder.mkdir(parents=True)
    for name in names:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", PROGRAMS / name))
        missing = [library for library in needed if not ELSEWHERE.fullmatch(library)]
        if missing:
            fail(f"{name} needs {', '.join(missing)}, which another machine may lack: link it statically")
        run("strip", "-o", folder / name, PROGRAMS / name)
    script = folder / "remove_places.cmake"
    script.write_text("".join(f'file(RPATH_REMOVE FILE "{folder / name}")\n' for name in names))
    run(Path(run(ROOT / "scripts/environment").splitlines()[-1]) / "bin/cmake", "-P", script)
    script.unlink()


def copy_files(top):
    for name in FILES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, top / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, top / name)
    (top / "gpu-check").symlink_to("scripts/gpu-check")
    text = places.text_for_tests()
    if text:
        (top / "texts").mkdir()
        shutil.copy2(text, top / "texts/tinyshakespeare.txt")
    else:
        print("gpu-check: without tiny Shakespeare the stage character will fail; scripts/fetch-shakespeare fetches it",
              file=sys.stderr)


def newest_symbols(folder):
    """The newest C and C++ libraries that the programs ask for: what the other machine must have."""
    newest = {}
    for library, version in re.findall(r"\((GLIBC|GLIBCXX)_([0-9.]+)\)", run("objdump", "-T", *folder.iterdir())):
        newest[library] = max(newest.get(library, "0"), version, key=lambda text: [int(part) for part in text.split(".")])
    return newest


def mebibytes(path):
    return path.stat().st_size / 2**20


def pack(archive):
    missing = [name for name in [*NEEDED, "test_kernels_cuda"] if not (PROGRAMS / name).exists()]
    if missing:
        fail(f"there is no {PROGRAMS / missing[0]}: build everything with ./scripts/build (INKLING_CUDA=ON)")
    description = places.description()
    with tempfile.TemporaryDirectory() as work:
        top = Path(work) / "gpu-check"
        copy_programs([*NEEDED, *description["cuda_tests"]], top / "build/bin")
        copy_files(top)
        description["symbols"] = newest_symbols(top / "build/bin")
        (top / places.DESCRIPTION.name).write_text(json.dumps(description))
        archive.parent.mkdir(parents=True, exist_ok=True)
        run("tar", "-C", work, "-czf", archive, "--owner=0", "--group=0", top.name)
        files = sorted((path for path in top.rglob("*") if path.is_file()), key=mebibytes, reverse=True)
        largest = ", ".join(f"{path.name} {mebibytes(path):.1f} MiB" for path in files[:5])
        extracted = sum(map(mebibytes, files))
    if mebibytes(archive) > LARGEST:
        size = mebibytes(archive)
        archive.unlink()
        fail(f"the archive would have {size:.1f} MiB, at most {LARGEST} are allowed; the largest, extracted: {largest}")
    tests = sum(map(len, description["cuda_tests"].values()))
    symbols = ", ".join(f"{library} {version}" for library, version in description["symbols"].items())
    print(f"{archive}: {mebibytes(archive):.1f} MiB, {extracted:.1f} extracted; {tests} tests labelled cuda; asks for "
          f"LibTorch {description['libtorch']}, {symbols}", file=sys.stderr)
