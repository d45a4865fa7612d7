#!/usr/bin/env python3
"""Tests of benchmarks/attends and scripts/check-attention that need no program: what is asked, and what counts as right."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks"))


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.name.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


attends = load(ROOT / "benchmarks/attends")
check = load(ROOT / "scripts/check-attention")
reference_pairs = attends.reference_pairs


def words(prompt, spans):
    return {prompt.text[slice(*span)] for span in spans}


def answer(prompt, preferred):
    """What a model with one head would say that takes all it takes from the nouns that `preferred` returns."""
    row = [0.5 if (i, i + 1) in preferred(prompt) else 0.0 for i in range(len(prompt.text))]
    text = {"tokens": [{"text": letter} for letter in prompt.text], "next": [{"text": " " + prompt.noun[:2]}],
            "layers": [{"heads": [{"weights": [row[:i + 1] for i in range(len(row))]}]}]}
    return attends.read_answer(prompt, text)


class Pairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.corpora = {corpus: reference_pairs.make_pairs(ROOT, corpus, 30, 5) for corpus in reference_pairs.CORPORA}

    def test_each_noun_of_a_pair_is_the_right_one_once(self):
        for pairs in self.corpora.values():
            for pair in pairs:
                self.assertEqual(pair.first.right, pair.second.wrong)
                self.assertEqual(pair.first.wrong, pair.second.right)
                self.assertLess(pair.first.right[0], pair.second.right[0])

    def test_the_places_are_those_of_the_nouns(self):
        for pairs in self.corpora.values():
            for prompt in (prompt for pair in pairs for prompt in (pair.first, pair.second)):
                self.assertEqual(words(prompt, prompt.right), {prompt.noun})
                self.assertFalse(words(prompt, prompt.wrong) & words(prompt, prompt.right))

    def test_the_prompts_of_a_pair_differ_in_the_word_asked_alone(self):
        for pairs in self.corpora.values():
            for pair in pairs:
                first, second = (prompt.text[:prompt.asked[0]] + "?" + prompt.text[prompt.asked[1]:]
                                 for prompt in (pair.first, pair.second))
                self.assertEqual(first, second)
                self.assertNotEqual(pair.first.text, pair.second.text)

    def test_no_prompt_comes_twice(self):
        for pairs in self.corpora.values():
            texts = [prompt.text for pair in pairs for prompt in (pair.first, pair.second)]
            self.assertEqual(len(texts), len(set(texts)))

    def test_a_seed_gives_the_same_pairs_and_another_others(self):
        self.assertEqual(self.corpora["fables"], reference_pairs.make_pairs(ROOT, "fables", 30, 5))
        self.assertNotEqual(self.corpora["fables"], reference_pairs.make_pairs(ROOT, "fables", 30, 6))

    def test_names_to_be_recalled_were_told_as_long_ago_as_their_kind_says(self):
        for pair in self.corpora["recall"]:
            for prompt in (pair.first, pair.second):
                between = prompt.text[prompt.right[-1][0]:].replace(",", " ,").replace(":", " :").split()
                self.assertIn(len(between), reference_pairs.DISTANCES[pair.kind])

    def test_a_grammar_of_too_few_sentences_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "fewer than 400 pairs"):
            reference_pairs.make_pairs(ROOT, "small", 400, 1)


class Questions(unittest.TestCase):
    def setUp(self):
        self.pairs = reference_pairs.make_pairs(ROOT, "fables", 5, 1)

    def shares(self, preferred, question):
        return {question(tuple(answer(prompt, preferred) for prompt in (pair.first, pair.second)), ((0, 0),))
                for pair in self.pairs}

    def test_who_takes_the_right_noun_is_right(self):
        inside = lambda prompt: [(i, i + 1) for begin, end in prompt.right for i in range(begin, end)]
        self.assertEqual(self.shares(inside, attends.rank), {1})
        self.assertEqual(self.shares(inside, attends.turn), {1})

    def test_who_takes_the_wrong_noun_is_wrong(self):
        inside = lambda prompt: [(i, i + 1) for begin, end in prompt.wrong for i in range(begin, end)]
        self.assertEqual(self.shares(inside, attends.rank), {0})
        self.assertEqual(self.shares(inside, attends.turn), {0})

    def test_who_always_takes_the_first_noun_or_none_is_right_in_half(self):
        first = lambda prompt: [(i, i + 1) for begin, end in [min(prompt.right + prompt.wrong)] for i in range(begin, end)]
        for preferred in (first, lambda prompt: []):
            self.assertEqual(self.shares(preferred, attends.rank), {0.5})
            self.assertEqual(self.shares(preferred, attends.turn), {0.5})

    def test_a_head_behind_another_takes_what_that_one_took(self):
        prompt = reference_pairs.Prompt("ab c", [(0, 1)], [(1, 2)], "a", (3, 4))
        lower = [[1], [0.25, 0.75], [0.5, 0.5, 0], [0, 1, 0, 0]]
        upper = [[1], [0, 1], [0, 0, 1], [0, 0.5, 0.25, 0.25]]
        text = {"tokens": [{"text": each} for each in prompt.text], "next": [{"text": "b"}],
                "layers": [{"heads": [{"weights": lower}]}, {"heads": [{"weights": upper}]}]}
        said = attends.read_answer(prompt, text)
        looked = said.routes[((0, 0), (1, 0))]
        self.assertEqual((looked.right, looked.wrong), (0.5 * 0.25 + 0.25 * 0.5, 0.5 * 0.75 + 0.25 * 0.5 + 0.25))
        self.assertFalse(said.predicted)

    def test_wilsons_interval_is_the_one_in_the_books(self):
        interval = attends.judged([1] * 8 + [0] * 2)  # 0.490 to 0.943
        self.assertAlmostEqual(interval["low"], 0.490, 3)
        self.assertAlmostEqual(interval["high"], 0.943, 3)


class Document(unittest.TestCase):
    page = "```python\nprint(1 / 3)\n```\n\n```text\n0.333\n```\n\nThat is 0.333.\n"

    def test_what_was_computed_is_accepted(self):
        self.assertEqual(check.differences(self.page), [])

    def test_another_number_in_a_block_or_a_sentence_is_found(self):
        self.assertEqual(len(check.differences(self.page.replace("\n0.333", "\n0.334"))), 2)  # no block prints 0.333 then
        self.assertEqual(len(check.differences(self.page.replace("is 0.333", "is 0.335"))), 1)

    def test_missing_lines_and_words_are_found(self):
        self.assertEqual(len(check.differences(self.page.replace("\n0.333\n", "\n0.333\n0.333\n"))), 1)
        self.assertEqual(len(check.differences(self.page.replace("\n0.333\n", "\nabout 0.333\n"))), 1)

    def test_a_python_block_without_what_it_prints_is_found(self):
        self.assertEqual(len(check.differences(self.page + "```python\nprint(1)\n```\n")), 1)

    def test_writing_gives_what_the_check_accepts(self):
        self.assertIn("0.333", check.rewritten(self.page.replace("print(1 / 3)", "print('0.333')").replace("\n0.333\n", "\n?\n")))


if __name__ == "__main__":
    unittest.main()
