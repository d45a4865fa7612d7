"""Where things are: the programs, LibTorch, the GPU; and what the archive was built from.

An archive that `gpu-check pack` makes is laid out as the repository is, so both are found in the same way.
"""
import datetime
import functools
import glob
import itertools
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin"
DESCRIPTION = ROOT / "archive.json"  # in an archive only
PYTHON = os.environ.get("PYTHON", "python3")  # the one whose torch is compared with, and gives LibTorch
EMULATED = "SOFTWARE_GPU" in os.environ  # started by tests/software_gpu/run: small sizes


def output(*command, environment=None, limit=60):
    """Returns the exit code of a short command and all it printed; a command that does not start has the code None."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment, timeout=limit)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return done.returncode, done.stdout.decode(errors="replace").strip()


def python_torch():
    """Returns the folder of the torch package of PYTHON, or None and why there is none."""
    find = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')"
    code, found = output(PYTHON, "-c", find)
    if code != 0 or not found:
        return None, found or "it has no torch package"
    return Path(found.splitlines()[-1]).parent, ""


def environment():
    """The environment of our programs: LibTorch is python3's torch, or what LD_LIBRARY_PATH already holds."""
    variables = dict(os.environ)
    torch, _ = python_torch()
    folders = [] if torch is None else [str(torch / "lib"), *sorted(glob.glob(str(torch.parent / "nvidia/*/lib")))]
    folders += filter(None, [os.environ.get("LD_LIBRARY_PATH")])
    if folders:
        variables["LD_LIBRARY_PATH"] = ":".join(folders)
    return variables | {"INKLING_EXPECT_CUDA": "1"}  # a CUDA test that would be skipped says why and fails


def libraries(program, variables):
    """Which file each library of a program is, by the loader's own answer, and the loader's complaints."""
    code, text = output("ldd", str(program), environment=variables)
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", text, re.MULTILINE))
    complaints = [line.strip() for line in text.splitlines() if "not found" in line]
    return found, complaints if complaints or code == 0 else [text or "ldd failed"]


def torch_version(library):
    """The version of the LibTorch that libtorch_cpu.so lies in, or None."""
    torch = Path(library).resolve().parent.parent
    for name, pattern in (("version.py", r"__version__ = '([^']+)'"), ("build-version", r"(\S+)")):
        if (torch / name).is_file():
            found = re.search(pattern, (torch / name).read_text())
            if found:
                return found.group(1)
    return None


def linked_torch_version(variables):
    return torch_version(libraries(PROGRAMS / "inkling-train", variables)[0].get("libtorch_cpu.so", "/"))


def cuda_tests(ctest):
    """The tests labelled cuda, and what is said of CUDA's libraries (tests/software_gpu): their names by test program."""
    code, text = output(ctest, "--test-dir", str(PROGRAMS.parent), "-L", "^(cuda|software_gpu)$", "--show-only=json-v1", limit=600)
    if code != 0:
        sys.exit(f"gpu-check: ctest does not list the tests labelled cuda: {text[-500:]}")
    tests = {}
    for test in json.loads(text)["tests"]:
        for program, selection in itertools.pairwise(test["command"]):
            name = selection.removeprefix("--gtest_filter=")
            if name != selection and name.startswith("Cuda/") and "*" not in name:
                tests.setdefault(Path(program).name, []).append(name)
    return tests


@functools.cache
def description():
    """What the archive was built from; in a clone, what has been built there."""
    if DESCRIPTION.exists():
        return json.loads(DESCRIPTION.read_text())
    code, folder = output(str(ROOT / "scripts/environment"), limit=3600)
    if code != 0:
        sys.exit(f"gpu-check: scripts/environment failed: {folder[-500:]}")
    commit = output("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12")[1]
    return {"commit": commit, "packed": datetime.datetime.now().isoformat(timespec="seconds"),
            "libtorch": linked_torch_version(dict(os.environ)),
            "cuda_tests": cuda_tests(f"{folder.splitlines()[-1]}/bin/ctest")}


# Asked of the driver itself: nvidia-smi is not everywhere. In a process of its own, so that ours stays without CUDA.
ASK_DRIVER = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
code = driver.cuInit(0)
if code:
    raise SystemExit(f"cuInit returns {code}")
count, name = ctypes.c_int(), ctypes.create_string_buffer(100)
driver.cuDeviceGetCount(ctypes.byref(count))
for device in range(count.value):
    driver.cuDeviceGetName(name, 100, device)
    print(name.value.decode())
"""


def gpus(variables):
    """The names of the GPUs here, and if there is none, why."""
    code, text = output(sys.executable, "-c", ASK_DRIVER, environment=variables)
    names = text.splitlines() if code == 0 else []
    return names, "" if names else text.splitlines()[-1] if text else "the driver counts none"


def machine(variables):
    """What a result depends on and a reader wants to know."""
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
    code, smi = (None, "") if EMULATED else output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
    names, _ = gpus(variables)
    return {"gpu": smi.splitlines()[0] if code == 0 and smi else ", ".join(names) or "none",
            "cpu": f"{processor.group(1) if processor else platform.machine()}, {os.cpu_count()} cores",
            "system": f"{platform.system()} {platform.release()}, glibc {platform.libc_ver()[1]}",
            "libtorch": linked_torch_version(variables) or "not found"}


def text_for_tests():
    """Tiny Shakespeare, or None."""
    folders = [os.environ.get("INKLING_TEST_DATA"), ROOT / "texts", ROOT.parent / "shared/data"]
    paths = [Path(folder) / "tinyshakespeare.txt" for folder in folders if folder] + [ROOT / "data/shakespeare.txt"]
    return next((path for path in paths if path.is_file()), None)


def today():
    return datetime.date.today().isoformat()
