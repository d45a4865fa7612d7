"""Writes man pages and what bash, zsh and fish complete: python3 scripts/interface FOLDER SCHEMA INTERFACE...

SCHEMA is what `inkling-train --schema` prints, an INTERFACE what a program prints by --interface: both come from the
lists that parse flags and settings, so nothing is written down twice. FOLDER becomes a share/ folder.
"""
import datetime
import json
import os
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
DESCRIPTION = """A config is one YAML file with the sections below. A setting that is left out has its default; only `data.source`
must be written. `--set section.key=value` overrides a setting, and `--print-config` prints the result with every setting.
Paths start in the working folder; a source that is not there is looked for from the folder of the config, and from the
folder around that one. An editor completes and checks a config by its JSON schema, share/inkling/config.schema.json below
the folder that inkling is installed in, if the config begins with the line `# yaml-language-server: $schema=PATH`."""
ENVIRONMENT = {"INKLING_INSTRUCTION_SET": "Which loops the processor runs: avx512, avx2 or baseline. Without it, the best it has.",
               "INKLING_TORCH": "The folder of a LibTorch, where the one that would be found is not the one to use.",
               "NO_COLOR": "Where this is set to anything, messages have no color."}


def settings_of(schema: dict, prefix: str = "") -> list[tuple[str, dict]]:
    """("data.tokenizer.kind", its schema) of every setting, and ("data.tokenizer", …) of every section before them."""
    found = []
    for name, inner in schema["properties"].items():
        if not inner.get("deprecated"):
            found.append((prefix + name, inner))
            found += settings_of(inner, prefix + name + ".") if "properties" in inner else []
    return found


def words_of(schema: dict) -> list[str]:
    """The words that a setting takes, apart from those that it took once."""
    if schema.get("deprecated") and "x-values" not in schema:
        return []
    words = [word for each in schema.get("anyOf", []) for word in words_of(each)]
    words += [json.dumps(word) if isinstance(word, bool) else word for word in schema.get("enum", [])]
    words += ["true", "false"] if schema.get("type") == "boolean" else [schema["const"]] if "const" in schema else []
    # Patterns of attention, scalings and devices begin with words.
    words += [word for word in re.findall(r"\w+", schema.get("pattern", "").split(" ")[0]) if word in ("full", "none", "cpu", "cuda")]
    return sorted(dict.fromkeys(words), key=lambda word: word != "auto")


def table_of(programs: list[dict], settings: list[tuple[str, dict]]) -> str:
    """completion.tsv, which scripts/interface/complete reads."""
    rows = []
    for program in programs:
        for option in program["options"]:
            place = option["name"] if option["positional"] else option["type"]
            words = " ".join(word for word in option["type"].split("|") if word and word == word.lower())
            kind = {"CONFIG": "CONFIG", "KEY=VALUE": "SETTING", "FILE": "FILE", "FOLDER": "FOLDER"}.get(place, words or "-" if place else "")
            for name in [""] if option["positional"] else option["name"].split(", "):
                rows.append((program["program"], name, "RUN" if place.startswith("RUN") else kind, option["about"]))
    for key, schema in settings:
        if "properties" not in schema:
            kind = "FILE" if "path" in schema["x-values"] else " ".join(words_of(schema)) or "-"
            rows.append(("=", key, kind, re.split("[.:;] ", schema["description"].replace("`", ""))[0].rstrip(".")))
    return "".join("\t".join(row) + "\n" for row in rows)


def prose(text: str) -> list[str]:
    """Each sentence begins a line, as roff wants it, and `words` are bold."""
    lines = re.sub(r"(?<=[\w)\]`][.?!]) (?=[A-Z0-9`])", "\n", " ".join(text.split())).split("\n")
    lines = [re.sub(r"`([^`]*)`", r"\\fB\1\\fR", line.replace("\\", "\\e")) for line in lines]
    return [re.sub(r"^([.'])", r"\\&\1", "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in line)) for line in lines]


def page(name: str, section: int, about: str, version: str, body: list[str], others: list[str]) -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc) if seconds else datetime.datetime.now()
    about = about.split(". ")[0].rstrip(".")
    head = [f".Dd {day:%B} {day.day}, {day.year}", f".Dt {name.upper()} {section}", f".Os inkling {version}", ".Sh NAME", f".Nm {name}",
            f".Nd {about[0].lower()}{about[1:]}"]
    see_also = " ,\n.Xr ".join(other for other in others if other.split()[0] != name)
    return "\n".join(head + body + [".Sh SEE ALSO", f".Xr {see_also}"]) + "\n"


def listed(entries: dict[str, list[str]]) -> list[str]:
    return [".Bl -tag -width Ds"] + [line for tag, text in entries.items() for line in (f".It {tag}", *text)] + [".El"]


def program_page(program: dict, others: list[str]) -> str:
    arguments = [option for option in program["options"] if option["positional"]]
    body = [".Sh SYNOPSIS", f".Nm {program['program']}", ".Op Ar OPTIONS"]
    body += [("." if option["required"] else ".Op ") + f"Ar {option['name']}" + " ..." * option["repeatable"] for option in arguments]
    body += [".Sh DESCRIPTION", *prose(program["about"])]
    examples, codes = [], []
    for paragraph in re.split(r"\n\n|\n(?=Exit codes:)", program["footer"].strip()):
        if paragraph.startswith("Example"):
            examples = [".Sh EXAMPLES", ".Bd -literal -offset indent", *map(str.strip, paragraph.split("\n")[1:]), ".Ed"]
        elif paragraph.startswith("Exit codes: "):
            codes = [".Sh EXIT STATUS", *prose(paragraph.removeprefix("Exit codes: "))]
        elif paragraph:
            body += [".Pp", *prose(paragraph)]
    entries = {}
    for option in program["options"]:
        flags = " , ".join("Fl " + flag[1:].replace("-", "\\-") for flag in option["name"].split(", "))
        tag = f"Ar {option['name']}" if option["positional"] else flags + f" Ar {option['type']}" * bool(option["type"])
        entries[tag] = prose(option["about"][0].upper() + option["about"][1:] + "." + f" The default is {option['default']}." *
                             bool(option["default"]) + " May be repeated." * option["repeatable"])
    body += [".Pp", "The arguments and flags are:", *listed(entries), ".Sh ENVIRONMENT"]
    body += listed({f"Ev {name}": prose(about) for name, about in ENVIRONMENT.items()})
    return page(program["program"], 1, program["about"], program["version"], body + codes + examples, others)


def settings_page(settings: list[tuple[str, dict]], version: str, others: list[str]) -> str:
    body = [".Sh DESCRIPTION", *prose(DESCRIPTION)]
    for section, schema in settings:
        if "properties" in schema:
            inside = {key.rpartition(".")[2]: about for key, about in settings if key.rpartition(".")[0] == section and "x-values" in about}
            body += [f".Ss {section}", *prose(schema["description"])]
            body += listed({f"Cm {key}": prose(
                f"{about['description']} Takes {about['x-values']}." + (f" The default is `{json.dumps(about['default']).strip(chr(34))}`." if "default" in
                about else " It must be written.") + f" On a resume: {about['x-on-resume']}.") for key, about in inside.items()})
    return page("inkling-config", 5, "The settings of a run of inkling", version, body, others)


def main(folder: str, schema: str, *interfaces: str) -> None:
    settings = settings_of(json.loads(pathlib.Path(schema).read_text()))
    programs = [json.loads(pathlib.Path(path).read_text()) for path in sorted(interfaces)]
    names = [program["program"] for program in programs]
    others = [*(f"{name} 1" for name in names), "inkling-config 5"]
    files = {f"man/man1/{program['program']}.1": program_page(program, others) for program in programs}
    files["man/man5/inkling-config.5"] = settings_page(settings, programs[0]["version"], others)
    files["inkling/completion.tsv"] = table_of(programs, settings)
    files["inkling/complete"] = (HERE / "complete").read_text()
    # bash and fish look for a file of the program's name. zsh looks into the first folder of these below /usr/local, and
    # below /usr, on Debian and Ubuntu, into the second one alone.
    places = {"inkling.bash": [f"bash-completion/completions/{name}" for name in names],
              "inkling.fish": [f"fish/vendor_completions.d/{name}.fish" for name in names],
              "_inkling": [f"zsh/{place}/_inkling" for place in ("site-functions", "vendor-completions")]}
    for source, targets in places.items():
        files |= dict.fromkeys(targets, (HERE / source).read_text().replace("@PROGRAMS@", " ".join(names)))
    for path, text in ((pathlib.Path(folder) / name, text) for name, text in files.items()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


main(*sys.argv[1:])
