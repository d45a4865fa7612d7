"""The stages of gpu-check: what is worth most comes first. Emulated, everything runs on the GPU in software, smaller."""
import collections
import shutil
import sys

from . import places
from .google_test import run_tests
from .places import EMULATED, PROGRAMS, PYTHON, ROOT
from .runner import LOG_KEPT, Failure, Stage
from .runs import character, decode, memory, peer, ranks, recipe, smoke_runs, steps

KERNEL_TESTS, GRAPH_TESTS = "test_kernels_cuda", "test_backend"
PROGRAM_LIMIT = 150  # seconds for the tests of one program, so that one that hangs does not take all


def compare_versions(stage):
    built, linked = places.description()["libtorch"], places.linked_torch_version(stage.environment) or "none"
    folder, why = places.python_torch()
    python = places.torch_version(folder / "lib/libtorch_cpu.so") if folder else f"none: {why}"
    found = {"versions": {"built against": built, "the loader finds": linked, "python3 has": python}}
    if built != linked or built != python:
        raise Failure(f"built against LibTorch {built}; the loader finds {linked}, and the torch of {PYTHON} is {python}: "
                      f"set PYTHON to a python3 whose torch is {built}", **found)
    return found


def find_gpu(stage):
    names, why = places.gpus(stage.environment)
    if not names:
        raise Failure(f"no NVIDIA GPU with a working driver here: {why}", places.output("nvidia-smi")[1])
    return {"gpus": names, "nvidia_smi": places.output("nvidia-smi")[1]}


def find_libraries(stage):
    missing = {}
    for program in sorted(PROGRAMS.iterdir()):
        found, complaints = places.libraries(program, stage.environment)
        if complaints:
            missing[program.name] = complaints
    if missing:
        lines = [f"{program}: {line}" for program, complaints in missing.items() for line in complaints]
        raise Failure(f"{len(missing)} programs miss libraries: {lines[0]}", "\n".join(lines))


def load(stage, library):
    code = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW | os.RTLD_GLOBAL)"
    ended = stage.execute([sys.executable, "-c", code, library], 60)
    if ended.why:
        raise Failure(f"{library} is not loaded: {(ended.err.strip().splitlines() or [ended.why])[-1]}", ended.log)


def smoke(stage):
    stage.step("every program's libraries", find_libraries, stage)
    stage.step("libtorch_cuda.so", load, stage, "libtorch_cuda.so")
    stage.step("libinkling_cuda.so", load, stage, str(PROGRAMS / "libinkling_cuda.so"))
    smoke_runs(stage)


def run_labelled_cuda(stage, program, names, counts):
    """Every one of these tests passes; emulated, the first of each suite is run (ctest -L software_gpu runs them all)."""
    if EMULATED:
        names = list({name.split(".")[0]: name for name in reversed(names)}.values())
    results, outside = run_tests(stage, PROGRAMS / program, names, limit=PROGRAM_LIMIT)
    found = collections.Counter(status for status, _ in results.values())
    counts.update(found)
    wrong = [(name, *result) for name, result in results.items() if result[0] != "passed"]
    if wrong or outside:
        details = outside + [f"{name}: {status}\n{printed[-1500:]}" for name, status, printed in wrong]
        listed = ", ".join(f"{count} {status}" for status, count in found.items())
        beyond = f"; {outside[0].splitlines()[0]}, outside a test" if outside else ""
        raise Failure(f"{len(wrong)} of {len(names)} tests are not as they should be ({listed}){beyond}",
                      "\n\n".join(details)[:LOG_KEPT], wrong=[name for name, _, _ in wrong], tests=found)
    return {"tests": found}


def some_ran(counts):
    if counts["passed"] == 0:
        raise Failure("no test labelled cuda ran")


def tests(stage):
    labelled, counts = places.description()["cuda_tests"], collections.Counter()
    for program in sorted(labelled, key=lambda program: (program != KERNEL_TESTS, program != GRAPH_TESTS)):
        stage.step(program, run_labelled_cuda, stage, program, labelled[program], counts)
    stage.step("some test labelled cuda ran", some_ran, counts)


def run_under(stage, before, program, names):
    results, outside = run_tests(stage, PROGRAMS / program, names, before)
    wrong = [f"{name}: {status}\n{printed[-1500:]}" for name, (status, printed) in results.items()
             if status != "passed"]
    if wrong or outside:
        raise Failure(f"{len(wrong)} of {len(names)} tests did not pass{', and errors were found' if outside else ''}",
                      "\n\n".join(outside + wrong)[:LOG_KEPT])
    return {"tests": {"passed": len(results)}}


def sanitizer(stage):
    """Every access of the kernels to memory, and races within a block: a command for each suite of tests. Emulated, the
    first of each suite runs once more."""
    suites = collections.defaultdict(list)
    for name in places.description()["cuda_tests"].get(KERNEL_TESTS, []):
        suites[name.split(".")[0]].append(name)
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    for tool in ["without a tool"] if EMULATED else ["memcheck", "racecheck"]:
        before = [] if EMULATED else [program, "--tool", tool, "--error-exitcode", "9"]
        for suite, names in suites.items():
            stage.step(f"{tool}: {suite}", run_under, stage, before, KERNEL_TESTS, names[:1] if EMULATED else names)
    if not suites:
        stage.step("tests of the kernels", some_ran, collections.Counter())


# Seconds that each may take: together 36 minutes. Five commands of at most ten minutes have room for smoke and tests;
# steps, character and decode; peer and recipe; sanitizer and memory; ranks.
STAGES = {"smoke": (smoke, 90), "tests": (tests, 360), "steps": (steps, 180), "memory": (memory, 180),
          "character": (character, 140), "decode": (decode, 120), "peer": (peer, 420), "recipe": (recipe, 150),
          "sanitizer": (sanitizer, 280), "ranks": (ranks, 240)}
LONGEST = 480


def reraise(error):
    raise error


def run_stage(name, folder, limit):
    """Returns whether everything in it passed."""
    action, usual = STAGES[name]
    variables = places.environment()
    description = places.description()
    about = {"emulated": EMULATED, "commit": description["commit"], "packed": description["packed"],
             "date": places.today(), **places.machine(variables)}
    stage = Stage(name, folder, limit or (LONGEST if EMULATED else usual), about, variables)
    try:
        stage.step("LibTorch's version", compare_versions, stage)
        if stage.step("a GPU and its driver", find_gpu, stage) is not None:
            action(stage)
    except Exception as error:  # a mistake of ours between two steps
        stage.step("the stage itself", reraise, error)
    else:
        stage.end()
    finally:
        stage.close()
    return stage.counts["failed"] == stage.counts["not run"] == 0
