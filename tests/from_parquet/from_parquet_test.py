#!/usr/bin/env python3
"""scripts/from-parquet: every row of a table becomes a line of JSON that inkling-prepare reads. Exit 3 without pyarrow."""
import datetime
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("INKLING_BUILD", ROOT / "build")) / "bin"
SCRIPT = ROOT / "scripts" / "from-parquet"
installed = subprocess.run([ROOT / "scripts" / "foreign-packages", "parquet"], stdout=subprocess.PIPE, text=True)
if installed.returncode == 3:
    sys.exit(3)
sys.path.insert(0, installed.stdout.strip())
import pyarrow  # noqa: E402
from pyarrow import feather, ipc, parquet  # noqa: E402

ROWS = [{"id": i, "text": f"Row {i}: déjà\n𝄞 \"{'x' * (i % 300)}\"", "score": float("nan") if i % 3 else 0.5,
         "meta": {"day": datetime.date(2024, 2, 29), "bytes": b"\xff!", "list": [1.5, float("inf")]}} for i in range(2000)]
LINES = [row | {"score": None if i % 3 else 0.5, "meta": {"day": "2024-02-29", "bytes": "\ufffd!", "list": [1.5, None]}}
         for i, row in enumerate(ROWS)]

WITHOUT_LINKS = """import errno, os, runpy, sys
made_meanwhile, *sys.argv = sys.argv[1:]
def refuse(*names):
    if made_meanwhile:
        open(made_meanwhile, "w").close()
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), *names)
os.link = refuse
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class FromParquet(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)  # enterContext() is of Python 3.11
        self.folder = Path(temporary.name)

    def run_script(self, *arguments, code=0):
        done = subprocess.run([SCRIPT, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def lines(self, name):
        return [json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").splitlines()]

    def test_every_row_becomes_a_line_whatever_the_table_is_kept_in(self):
        table = pyarrow.Table.from_pylist(ROWS)
        parquet.write_table(table, self.folder / "a.parquet", row_group_size=300)
        feather.write_feather(table, self.folder / "a.feather")
        with ipc.new_stream(self.folder / "a.arrow", table.schema) as stream:
            stream.write_table(table, max_chunksize=700)
        (self.folder / "shard").write_bytes((self.folder / "a.parquet").read_bytes())
        for name in ("a.parquet", "a.feather", "a.arrow", "shard"):
            said = self.run_script(name, f"{name}.jsonl")
            self.assertIn("wrote 2,000 rows", said)
            self.assertEqual(self.lines(f"{name}.jsonl"), LINES, name)
        self.run_script("--column", "id", "a.parquet", "a.arrow", "ids.jsonl")
        self.assertEqual(self.lines("ids.jsonl"), [{"id": row["id"]} for row in ROWS] * 2)

    def test_csv_and_tsv_keep_commas_quotes_and_lines_in_their_fields(self):
        (self.folder / "a.csv").write_text('\ufefftitle,body\n"one, two","a ""b""\nc"\nthree,d\n', encoding="utf-8")
        (self.folder / "b.TSV").write_text("title\tbody\none, two\te\n", encoding="utf-8")
        (self.folder / "c.csv").write_text("title;body\n1,5;f\n", encoding="utf-8")
        said = self.run_script("a.csv", "b.TSV", "c.csv", "all.jsonl")
        self.assertIn("data.jsonl_field: title (or body)", said)
        self.assertEqual(self.lines("all.jsonl"), [{"title": title, "body": body} for title, body in [
            ("one, two", 'a "b"\nc'), ("three", "d"), ("one, two", "e"), ("1,5", "f")]])

    def test_quotes_of_tsv_are_text_where_they_do_not_enclose_fields(self):
        quoted = [{"id": "1", "text": 'a\t"b"\nc'}, {"id": "2", "text": "d"}]
        for written, how, read in [
                ('1\t"a\t""b""\nc"\n2\td\n', "enclose fields", quoted),
                ('1\t"Hi" he said\n2\td\n', "are part of the text", [{"id": "1", "text": '"Hi" he said'}, quoted[1]]),
                ('1\t"Hi\n2\td\n', "are part of the text", [{"id": "1", "text": '"Hi'}, quoted[1]]),
                ('"1\t5"\n2"\td\n', "are part of the text", [{"id": '"1', "text": '5"'}, {"id": '2"', "text": "d"}])]:
            (self.folder / "a.tsv").write_text("id\ttext\n" + written, encoding="utf-8")
            self.assertIn(f"a.tsv: quotes in it {how}", self.run_script("a.tsv", "out.jsonl"))
            self.assertEqual(self.lines("out.jsonl"), read)
            (self.folder / "out.jsonl").unlink()

    def test_null_texts_are_passed_over_or_counted(self):
        bodies = [None, "a", None, "b"]
        table = pyarrow.table({"id": [1, 2, 3, 4], "body": bodies})
        parquet.write_table(table, self.folder / "a.parquet")
        said = self.run_script("--column", "body", "a.parquet", "body.jsonl")
        self.assertIn("wrote 2 rows to body.jsonl; passed over 2 rows that are null; train on it with", said)
        self.assertEqual(self.lines("body.jsonl"), [{"body": "a"}, {"body": "b"}])
        said = self.run_script("a.parquet", "all.jsonl")
        self.assertIn("wrote 4 rows to all.jsonl; body is null in 2 rows, which a single --column passes over;", said)
        self.assertIn("data.jsonl_field: body\n", said)
        self.assertEqual([line["body"] for line in self.lines("all.jsonl")], bodies)

    def test_finished_rows_are_kept_where_there_are_no_hard_links(self):
        (self.folder / "a.csv").write_text("text\na\n")
        program = [sys.executable, "-B", "-c", WITHOUT_LINKS]
        rest = [ROOT / "scripts" / "from_parquet", "a.csv"]
        settings = {"cwd": self.folder, "capture_output": True, "text": True,
                    "env": os.environ | {"PYTHONPATH": installed.stdout.strip()}}
        done = subprocess.run([*program, "", *rest, "out.jsonl"], **settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.lines("out.jsonl"), [{"text": "a"}])
        done = subprocess.run([*program, "late.jsonl", *rest, "late.jsonl"], **settings)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("all rows are in late.jsonl.part", done.stderr)
        self.assertEqual(self.lines("late.jsonl.part"), [{"text": "a"}])
        self.assertEqual(self.lines("late.jsonl"), [])

    def test_inkling_prepare_reads_what_is_written_compressed_too(self):
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), self.folder / "a.parquet")
        for name in ("a.jsonl", "a.jsonl.zst", "a.jsonl.gz"):
            self.run_script("a.parquet", name)
            (self.folder / "run.yaml").write_text(
                f"data: {{source: {name}, tokenizer: {{kind: byte}}, dir: {name}-tokens}}\n")
            done = subprocess.run([BIN / "inkling-prepare", "run.yaml"], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            made = json.loads((self.folder / f"{name}-tokens" / "dataset.json").read_text())
            self.assertEqual(made["train"]["bytes"] + made["validation"]["bytes"],
                             sum(len(row["text"].encode()) for row in ROWS), name)
        self.assertEqual(gzip.decompress((self.folder / "a.jsonl.gz").read_bytes()),
                         (self.folder / "a.jsonl").read_bytes())

    def test_bad_input_is_named_and_leaves_nothing(self):
        (self.folder / "a.parquet").write_text("no table")
        (self.folder / "b.csv").write_text("a,b\n1,2\n3\n")
        (self.folder / "there.jsonl").write_text("mine")
        (self.folder / "other.jsonl.part").write_text("mine too")
        self.assertIn("Parquet", self.run_script("a.parquet", "out.jsonl", code=2))
        self.assertIn("b.csv:3: this row has not as many fields", self.run_script("b.csv", "out.jsonl", code=2))
        self.assertIn("has no column text; there are a, b", self.run_script("--column", "text", "b.csv", "out.jsonl", code=2))
        self.assertIn("is there already", self.run_script("b.csv", "there.jsonl", code=2))
        self.assertIn("other.jsonl.part is there already", self.run_script("b.csv", "other.jsonl", code=2))
        self.assertIn("gone.parquet", self.run_script("gone.parquet", "out.jsonl", code=2))
        self.assertIn("name the file to write last", self.run_script("a.parquet", "b.csv", code=2))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.parquet", "b.csv", "other.jsonl.part", "there.jsonl"])
        self.assertEqual((self.folder / "other.jsonl.part").read_text(), "mine too")
        self.assertEqual((self.folder / "there.jsonl").read_text(), "mine")


if __name__ == "__main__":
    unittest.main(verbosity=2)
