"""Manual pages, in mdoc."""

import datetime
import json
import os
import re
import textwrap

from program import Option, Program, Setting

LIBTORCH = [
    ("INKLING_TORCH", "The folder of a LibTorch, where the one that would be found is not the one to use."),
    ("INKLING_INSTRUCTION_SET", "Which loops the processor runs: avx512, avx2 or baseline. Without it, the best it has."),
]
NO_COLOR = ("NO_COLOR", "Where this is set to anything, messages have no color.")


def date() -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc) if seconds else datetime.datetime.now()
    return f"{day:%B} {day.day}, {day.year}"


def escaped(text: str) -> str:
    """Text that roff leaves as it is, `words` in it bold."""
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text.replace("\\", "\\e"))
    text = "".join(letter if ord(letter) < 128 else f"\\[u{ord(letter):04X}]" for letter in text)
    return re.sub(r"^([.'])", r"\\&\1", text)


def prose(text: str) -> list[str]:
    """Sentences, each on lines of its own, as roff wants them."""
    joined = " ".join(text.split())
    sentences = re.split(r"(?<=[a-z0-9)`][.?!]) (?=[A-Z0-9`])", joined)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, 70, break_long_words=False,
                                                                      break_on_hyphens=False)]
    return [escaped(line) for line in bold_within_lines(lines)]


def bold_within_lines(lines: list[str]) -> list[str]:
    """`a b` that is cut at its space becomes `a` and `b`."""
    is_open = False
    closed = []
    for line in lines:
        text = "`" + line if is_open else line
        is_open = text.count("`") % 2 == 1
        closed.append(text + "`" if is_open else text)
    return closed


def head(name: str, section: int, version: str, about: str) -> list[str]:
    about = about.split(". ")[0].rstrip(".")
    return [f".Dd {date()}", f".Dt {name.upper()} {section}", f".Os inkling {version}", ".Sh NAME", f".Nm {name}",
            f".Nd {escaped(about[0].lower() + about[1:])}"]


def listed(items: list[tuple[str, list[str]]]) -> list[str]:
    lines = [".Bl -tag -width Ds"]
    for tag, text in items:
        lines += [f".It {tag}"] + text
    return lines + [".El"]


def tag_of(option: Option) -> str:
    if option.positional:
        return f"Ar {option.name}"
    flags = " , ".join("Fl " + (flag[1:].replace("-", "\\-") if flag.startswith("--") else flag[1:])
                       for flag in option.flags)
    return flags + (f" Ar {option.type}" if option.type else "")


def text_of(option: Option) -> list[str]:
    about = option.about[0].upper() + option.about[1:] + "."
    lines = prose(about)
    if option.default:
        lines.append(escaped(f"The default is {option.default}."))
    if option.repeatable:
        lines.append("May be repeated.")
    return lines


def paragraphs(footer: str) -> dict[str, list[str]]:
    """The parts of what stands below the flags in --help: examples, exit codes, and the rest."""
    parts: dict[str, list[str]] = {"examples": [], "codes": [], "rest": []}
    for paragraph in re.split(r"\n\n|\n(?=Exit codes:)", footer):
        codes = re.match(r"Exit codes: (.*)\.$", paragraph.strip(), re.DOTALL)
        if codes:
            parts["codes"] = re.split(r",\s+(?=\d+ )", codes[1])
        elif re.match(r"Examples?:\n", paragraph):
            parts["examples"] = [line.strip() for line in paragraph.split("\n")[1:]]
        elif paragraph.strip():
            parts["rest"].append(paragraph)
    return parts


def synopsis(program: Program) -> list[str]:
    lines = [".Sh SYNOPSIS", f".Nm {program.name}", ".Op Ar OPTIONS"]
    for option in program.positionals:
        name = f"Ar {option.name}" + (" ..." if option.repeatable else "")
        lines.append(f".{name}" if option.required else f".Op {name}")
    return lines


def see_also(names: list[tuple[str, int]]) -> list[str]:
    names = sorted(names, key=lambda each: (each[1], each[0]))
    return [".Sh SEE ALSO"] + [f".Xr {name} {section}" + (" ," if i + 1 < len(names) else "")
                               for i, (name, section) in enumerate(names)]


def page_of(program: Program, programs: list[Program]) -> str:
    parts = paragraphs(program.footer)
    lines = head(program.name, 1, program.version, program.about) + synopsis(program)
    lines += [".Sh DESCRIPTION"] + prose(program.about)
    for paragraph in parts["rest"]:
        lines += [".Pp"] + prose(paragraph)
    lines += [".Pp", "The arguments and flags are:"]
    lines += listed([(tag_of(option), text_of(option)) for option in program.options])
    environment = [NO_COLOR] + (LIBTORCH if any(option.name == "--device" for option in program.options)
                                or program.name == "inkling-train" else [])
    lines += [".Sh ENVIRONMENT"] + listed([(f"Ev {name}", prose(about)) for name, about in sorted(environment)])
    if any(option.kind in ("config", "run") for option in program.options):
        lines += [".Sh FILES"] + listed([
            ("Pa share/inkling/configs", ["Settings to start from, below the folder that inkling is installed in."]),
            ("Pa runs/NAME", ["All that a run makes: its settings, its log and its checkpoints."])])
    codes = [(f"{code.split(' ', 1)[0]}", prose(" ".join(code.split(" ", 1)[1].split()).capitalize() + "."))
             for code in parts["codes"]]
    if codes:
        lines += [".Sh EXIT STATUS"] + listed(codes)
    if parts["examples"]:
        lines += [".Sh EXAMPLES", ".Bd -literal -offset indent"] + [escaped(line) for line in parts["examples"]] + [".Ed"]
    others = [(other.name, 1) for other in programs if other.name != program.name]
    return "\n".join(lines + see_also(others + [("inkling-config", 5)])) + "\n"


def setting_text(setting: Setting) -> list[str]:
    default = "It must be written." if setting.default is None else f"The default is {json.dumps(setting.default)}."
    on_resume = {"applies": "A change on a resume applies at once.",
                 "asks": "A change on a resume needs `--accept-changes`.",
                 "refused": "A change needs a new run."}[setting.on_resume]
    return prose(setting.about) + [escaped(f"Takes {setting.values}.")] + prose(default) + prose(on_resume)


def page_of_settings(settings: list[Setting], programs: list[Program]) -> str:
    lines = head("inkling-config", 5, programs[0].version, "The settings of a run of inkling")
    lines += [".Sh DESCRIPTION"] + prose(
        "A config is one YAML file with the sections below. A setting that is left out has its default; only "
        "`data.source` must be written. `--set section.key=value` overrides a setting, and `--print-config` prints the "
        "result with every setting. Paths start in the working folder; a source that is not there is looked for from "
        "the folder of the config, and from the folder around that one.")
    lines += [".Pp"] + prose(
        "An editor completes and checks a config by its JSON schema, share/inkling/config.schema.json below the folder "
        "that inkling is installed in, which `inkling-train --schema` prints too. Most editors take its path from a "
        "comment in the config's first line:")
    lines += [".Bd -literal -offset indent", "# yaml-language-server: $schema=PATH", ".Ed"]
    for section in settings:
        if not section.is_section:
            continue
        inside = [setting for setting in settings
                  if not setting.is_section and setting.key.rpartition(".")[0] == section.key]
        lines += [f".Ss {section.key}"] + prose(section.about)
        lines += listed([(f"Cm {setting.key.rpartition('.')[2]}", setting_text(setting)) for setting in inside])
    lines += [".Sh EXAMPLES", ".Bd -literal -offset indent", "data:", "  source: my.txt", "training:",
              "  max_steps: 500", ".Ed"]
    return "\n".join(lines + see_also([(program.name, 1) for program in programs])) + "\n"
