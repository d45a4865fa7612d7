"""A program's flags and the settings, as the programs print them."""

import dataclasses


@dataclasses.dataclass
class Option:
    name: str  # "-h, --help", or a positional argument's name
    positional: bool
    type: str  # "" for one without a value
    default: str
    about: str
    repeatable: bool
    required: bool
    group: str

    @property
    def flags(self) -> list[str]:
        return [] if self.positional else self.name.split(", ")

    @property
    def words(self) -> list[str]:
        """The values that are typed as they stand: of auto|cuda|cuda:N the first two."""
        return [word for word in self.type.split("|") if word and word == word.lower()]

    @property
    def kind(self) -> str:
        """What to complete after it: "words", "run", "config", "setting", "file", "folder" or "" for nothing."""
        place = self.name if self.positional else self.type
        if place.startswith("RUN"):
            return "run"
        return {"CONFIG": "config", "KEY=VALUE": "setting", "FILE": "file", "FOLDER": "folder"}.get(
            place, "words" if self.words else "")


class Program:
    def __init__(self, interface: dict):
        self.name: str = interface["program"]
        self.about: str = interface["about"]
        self.footer: str = interface["footer"]
        self.version: str = interface["version"]
        self.options = [Option(**option) for option in interface["options"]]

    @property
    def positionals(self) -> list[Option]:
        return [option for option in self.options if option.positional]

    @property
    def flags(self) -> list[Option]:
        return [option for option in self.options if not option.positional]


@dataclasses.dataclass
class Setting:
    key: str  # "data.tokenizer.kind"; of a section "data.tokenizer"
    about: str
    values: str  # in words; "" for a section
    on_resume: str
    default: object  # None where it must be written
    words: list[str]
    is_path: bool

    @staticmethod
    def all_of(schema: dict, prefix: str = "") -> "list[Setting]":
        found = []
        for name, inner in schema["properties"].items():
            if "properties" in inner:
                section = Setting(prefix + name, inner["description"], "", "", None, [], False)
                found += [section] + Setting.all_of(inner, prefix + name + ".")
            elif not inner.get("deprecated"):
                values = inner["x-values"]
                found.append(Setting(prefix + name, inner["description"], values, inner["x-on-resume"],
                                     inner.get("default"), words_of(inner), "path" in values))
        return found

    @property
    def is_section(self) -> bool:
        return not self.values

    @property
    def first_sentence(self) -> str:
        return plain(self.about).split(". ")[0].split(": ")[0].split("; ")[0].rstrip(".")


def words_of(schema: dict) -> list[str]:
    """The words that a setting takes, apart from those that it took once."""
    if schema.get("deprecated") and "x-values" not in schema:
        return []
    if schema.get("type") == "boolean":
        return ["true", "false"]
    if "const" in schema:
        return [str(schema["const"])]
    words = [word for each in schema.get("anyOf", []) for word in words_of(each)]
    # Patterns of attention and devices begin with these words.
    words += [word for word in ("cpu", "cuda") if word + "|" in schema.get("pattern", "")]
    words += ["full"] if schema.get("pattern", "").startswith("^(full|") else []
    return sorted(dict.fromkeys(words + schema.get("enum", [])), key=lambda word: word != "auto")  # in their order


def plain(text: str) -> str:
    return text.replace("`", "")
