"""Pairs of prompts for benchmarks/attends and benchmarks/silenced, and what inkling-attend says of them. Both prompts of
a pair are the same but for a word, after which one of two nouns follows that both have named.

The words come from the grammars that the models were trained on (src/data/grammar.h describes their language). Since
each noun of a pair is the right one once, whoever always takes the first noun, or the nearest, or the one that was named
more often, is right in exactly half of the prompts.
"""

import collections
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin/inkling-attend"
AT_ONCE = 100  # prompts on a command line

# Where a noun stands in a prompt: its letters from `begin` up to `end`.
Span = tuple[int, int]


class Prompt(typing.NamedTuple):
    text: str
    right: list[Span]  # where the noun that follows was named
    wrong: list[Span]  # where the other one was
    noun: str  # the one that follows
    asked: Span  # what decides between them


class Pair(typing.NamedTuple):
    kind: str  # one of KINDS
    first: Prompt  # the noun that was named first follows
    second: Prompt


class Grammar:
    """Writes the stories of a grammar; what a grammar may not say, inkling-train has checked."""

    def __init__(self, path: pathlib.Path):
        self.columns, self.productions = {}, collections.defaultdict(list)
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
        text = re.sub(r"\n +(?!(?:[0-9]+ )?\* )(?=\S)", " ", text)  # a deeper line goes on
        for line in text.splitlines():
            if header := re.fullmatch(r"(\w[^:]*):", line):
                names = [name.strip() for name in header[1].split("|")]
                rule, self.columns[names[0]] = names[0], {name: i for i, name in enumerate(names)}
            elif production := re.fullmatch(r" +(?:([0-9]+) )?\* (.*)", line):
                columns = [column.strip() for column in production[2].split("|")]
                self.productions[rule].append((int(production[1] or 1), columns))

    def choose(self, rule, rng):
        weights, columns = zip(*self.productions[rule])
        return rng.choices(columns, weights)[0]

    def production(self, rule, containing):
        """The first column of the one production of a rule that contains a text."""
        found = [columns[0] for _, columns in self.productions[rule] if containing in columns[0]]
        if len(found) != 1:
            raise SystemExit(f"attends: {rule} of the grammar has {len(found)} productions with {containing!r}, not one")
        return found[0]

    def expand(self, text, rng, chosen):
        """Writes a text's braces out; `chosen` holds what was remembered, and what is remembered now."""
        def write(brace):
            capital, variable, name, column = brace.groups()
            known = chosen.get(name) if not variable else None
            rule, columns = known or (name, self.choose(name, rng))
            if variable:
                chosen[variable] = rule, columns
            written = self.expand(columns[self.columns[rule][column] if column else 0], rng, chosen)
            return written[:1].upper() + written[1:] if capital else written
        return re.sub(r"\{(\^?)(?:(\w+)=)?(\w+)(?:\.(\w+))?\}", write, text)


def spans(text, word):
    return [match.span() for match in re.finditer(rf"\b{word}\b", text)]


def it_pair(grammar, rng, kind):
    """The animal did not cross the street because it was too tired, so the; and the same with too wide, so the."""
    endings = collections.defaultdict(list)  # by who follows
    for _, (ending, *_) in grammar.productions["cross"]:
        asked, follows = re.match(r"(.*), so the \{(\w+)\}", ending).groups()
        endings[follows].append(asked)
    chosen = {}
    opening = grammar.expand(grammar.production("story", "did not cross").split("{cross}")[0], rng, chosen)
    nouns = {each: chosen[each][1][0] for each in ("pet", "bar")}  # the animal and what is in its way
    prompts = []
    for right, wrong in (("pet", "bar"), ("bar", "pet")):
        asked = grammar.expand(rng.choice(endings[right]), rng, chosen)
        place = (len(opening), len(opening) + len(asked))
        prompts.append(Prompt(f"{opening}{asked}, so the", spans(opening, nouns[right]), spans(opening, nouns[wrong]),
                              nouns[right], place))
    return Pair(kind, *prompts)


# Distances in tokens, from the name that follows back to where the story said it last: benchmarks/reach has the same.
DISTANCES = {"20 to 44 tokens back": range(20, 45), "95 to 149 tokens back": range(95, 150),
             "350 to 449 tokens back": range(350, 450)}
NEAR = "20 to 44 tokens back"


def recall_pair(grammar, rng, kind):
    """A story up to "the lamp", whose name follows, and the same up to "the drum", which was told of as long ago."""
    groups = [re.findall(r"the (\w+)", " ".join(columns[0] for _, columns in grammar.productions[rule]))
              for rule in ("near", "later", "last")]
    group = {thing: things for things in groups for thing in things}  # any of which may be asked for in its place
    while True:
        story = grammar.expand("{story}", rng, {})
        asks = list(re.finditer(r"\bthe (\w+) (\w+) \w+,", story))
        for place in rng.sample(range(len(asks)), len(asks)):
            here = asks[place].start(1)
            told = collections.defaultdict(list)  # of each thing, where its name stands
            for ask in asks[:place]:
                told[ask[1]].append(ask.span(2))
            # Each word and each comma is a token; the name that follows is one further than the thing.
            far = [thing for thing, names in told.items() if thing in group[asks[place][1]]
                   and len(re.findall(r"\w+|[^\w\s]", story[names[-1][0]:here])) + 1 in DISTANCES[kind]]
            names = {thing: story[slice(*told[thing][0])] for thing in far}
            choices = [two for two in itertools.combinations(far, 2) if names[two[0]] != names[two[1]]]
            # What is asked for late is asked for in some fixed order: only of the first one could it be any other.
            if kind != NEAR and len(far) < len(group[asks[place][1]]):
                continue
            if choices:
                first, second = rng.choice(choices)
                return Pair(kind, *(Prompt(story[:here] + right, told[right], told[wrong], names[right],
                                           (here, here + len(right)))
                                    for right, wrong in ((first, second), (second, first))))


# What prompts are made of: the grammar, how a pair is made, and the kinds of pairs, which the table keeps apart.
CORPORA = {"fables": ("data/fables.grammar", it_pair, ["so the"]),
           "small": ("docs/attention/sentences.grammar", it_pair, ["so the"]),
           "recall": ("data/recall.grammar", recall_pair, list(DISTANCES))}


def make_pairs(root, corpus, count, seed):
    """So many pairs of each kind, no two of which share a prompt."""
    path, make, kinds = CORPORA[corpus]
    grammar, rng, seen, pairs = Grammar(root / path), random.Random(seed), set(), []
    for kind in kinds:
        wanted, tries = len(pairs) + count, 0
        while len(pairs) < wanted:
            tries += 1
            if tries > 50 * count:
                raise SystemExit(f"attends: {path} has fewer than {count} pairs; ask for less with --choose and --report")
            pair = make(grammar, rng, kind)
            texts = {pair.first.text, pair.second.text}
            if not texts & seen:
                seen |= texts
                pairs.append(pair)
    return pairs


def attended(model, prompts):
    """Yields the object that inkling-attend prints for each prompt."""
    for begin in range(0, len(prompts), AT_ONCE):
        some = prompts[begin:begin + AT_ONCE]
        flags = [flag for prompt in some for flag in ("--prompt", prompt.text)]
        with subprocess.Popen([PROGRAM, *model, "--json", *flags], text=True, stdout=subprocess.PIPE) as program:
            for line in program.stdout:
                yield json.loads(line)
        if program.returncode != 0:
            raise SystemExit(f"inkling-attend ended with {program.returncode}")


def tokens_of(text, prompt, spans):
    """Which tokens have a letter of these words. A tokenizer may put something in front of the prompt."""
    ends = [0]
    for token in text["tokens"]:
        ends.append(ends[-1] + len(token["text"]))
    shift = ends[-1] - len(prompt.text)
    return [i for i, (begin, end) in enumerate(zip(ends, ends[1:]))
            if any(begin - shift < stop and start < end - shift for start, stop in spans)]
