"""A multiple-choice task and texts, made from the tables of data/fables.grammar."""
import json
import random
from pathlib import Path

GRAMMAR = Path(__file__).resolve().parents[2] / "data/fables.grammar"


def table(rule):
    """The rows of a rule of the grammar, whose lines are "  * red | blue": lists of words."""
    lines = GRAMMAR.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.split(":")[0].split(" ")[0] == rule)
    rows = []
    for line in lines[begin + 1:]:
        if not line.strip():
            break
        rows.append([word.strip() for word in line.strip().lstrip("0123456789* ").split("|")])
    return rows


def beginning(random_words):
    pick = lambda rule: random_words.choice(table(rule))[0]  # noqa: E731
    barrier = random_words.choice(table("barrier"))
    pet = pick("beast")
    context = (f"One sunny day, a {pick('trait')} {pet} with a {pick('colour')} {pick('thing')} came to a {barrier[0]}. "
               f"The {pet} did not cross the {barrier[0]} because it was too")
    return context, pet, barrier


def barrier_question(random_words):
    """What made the animal stop: one ending tells of this barrier, the others of others."""
    context, _, barrier = beginning(random_words)
    others = random_words.sample([row for row in table("barrier") if row != barrier], 3)
    endings = [f"{random_words.choice(row[1:])}, so the {barrier[0]} won." for row in [barrier, *others]]
    return context, endings


def mood_question(random_words):
    """What a tired animal does, told at different lengths; the right ending is the one that fits the mood."""
    context, pet, _ = beginning(random_words)
    rows = random_words.sample(table("mood"), 4)
    endings = [f"{rows[0][0]}, so the {pet} {row[1]} under a tree" for row in rows]
    tails = ["", ".", " and dreamed of two plums.", " and dreamed of four cherries."]
    return context, [ending + random_words.choice(tails) for ending in endings]


def questions(count, seed=1):
    """A list of {"context", "endings", "label"}, with a space missing between context and ending."""
    random_words = random.Random(seed)
    made = []
    for number in range(count):
        context, endings = (barrier_question if number % 2 else mood_question)(random_words)
        right = endings[0]
        random_words.shuffle(endings)
        made.append({"context": context, "endings": endings, "label": endings.index(right)})
    return made


def odd_questions():
    """What a program that only saw usual questions would get wrong: no context, white space of every kind between context
    and ending, characters of several bytes, contexts that do not fit into the block, two endings or many, equal ones."""
    story = " ".join(question["context"] for question in questions(8, seed=2))
    contexts = ["", "The fox", "The fox ", "The fox \n\t ", "The fox\n", "a\u00a0\u3000", "Der Fuchs läuft über die Straße, 狐", story,
                story * 3 + "\n"]
    endings = [["was tired", "won"], [" was tired", " won.", "."], ["über", "狐狸", "fox"], ["same", "same", "other"],
               ["tired, so the animal rested under a tree and dreamed of two plums.", "wide"],
               ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]]
    return [{"context": context, "endings": some, "label": (i + j) % len(some)}
            for i, context in enumerate(contexts) for j, some in enumerate(endings)]


def border_questions():
    """Contexts that end within a word, so that a token may lie across the border to the ending. Of some an ending has no
    token of its own, as where " fo" and "x" are one. (Each text is cut once: of texts that are the same as a whole, lm-eval's
    cache gives all but one other places' numbers.)"""
    made = []
    for number, question in enumerate(questions(160, seed=4)):
        text = question["context"]
        cut = len(text) - 5 - number % 36
        while text[cut - 1].isspace():
            cut -= 1
        made.append({"context": text[:cut], "endings": [text[cut:], text[cut:cut + 4]], "label": number % 2})
    return made


def texts():
    """Documents: of one character, shorter than a block, and longer."""
    some = [question["context"] + " " + question["endings"][question["label"]] for question in questions(30, seed=3)]
    return ["a", "The fox", "狐 läuft\n", *some], [" ".join(some[:8]), "\n".join(some)]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
