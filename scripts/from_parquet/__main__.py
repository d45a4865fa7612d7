"""usage: from-parquet [--column NAME]... TABLE... OUT.jsonl[.gz|.zst]"""
import csv
import json
import math
import os
import sys
from collections import Counter
from pathlib import Path

import pyarrow
from pyarrow import feather, ipc, parquet

ROWS_AT_A_TIME = 256  # of long texts these are some MiB
LONGEST_QUOTED = 1 << 24  # characters of a quoted field of .tsv; a lone quote would otherwise take the file into memory


class BadInput(Exception):
    pass


def tsv_quoting(path):
    """Spreadsheets quote in .tsv as in .csv, others quote nothing: fields are quoted where the whole file can be read so."""
    csv.field_size_limit(LONGEST_QUOTED)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            widths = {len(row) for row in csv.reader(file, delimiter="\t", strict=True) if row}
        quoting = csv.QUOTE_MINIMAL if len(widths) <= 1 else csv.QUOTE_NONE
    except csv.Error:
        quoting = csv.QUOTE_NONE
    how = "are part of the text" if quoting == csv.QUOTE_NONE else "enclose fields, as in .csv"
    print(f"{path}: quotes in it {how}", file=sys.stderr)
    return quoting


def csv_rows(path, columns):
    quoting = tsv_quoting(path) if path.suffix.lower() == ".tsv" else csv.QUOTE_MINIMAL
    csv.field_size_limit(2**31 - 1)
    with open(path, newline="", encoding="utf-8-sig") as file:
        header = file.readline()
        file.seek(0)
        semicolons = "," not in header and ";" in header  # as spreadsheets write it where "," is the decimal point
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ";" if semicolons else ","
        reader = csv.DictReader(file, delimiter=delimiter, quoting=quoting, strict=True)
        check_columns(path, columns, reader.fieldnames or [])
        for row in reader:
            if None in row or None in row.values():
                raise BadInput(f"{path}:{reader.line_num}: this row has not as many fields as the first line")
            yield {name: row[name] for name in columns} if columns else row


def arrow_batches(path, columns):
    with pyarrow.memory_map(str(path)) as file:
        magic = file.read(6)
        file.seek(0)
        if magic == b"ARROW1":
            reader = ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        elif magic[:4] == b"FEA1":  # the first version of Feather, which is read whole
            table = feather.read_table(path, memory_map=True)
            reader, batches = table, table.to_batches()
        else:  # as the library datasets keeps it
            reader = batches = ipc.open_stream(file)
        check_columns(path, columns, reader.schema.names)
        for batch in batches:
            yield batch.select(columns) if columns else batch


def parquet_batches(path, columns):
    # Without a buffer, or with one filled ahead, pyarrow holds a whole row group, and some tables are a single one.
    with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        check_columns(path, columns, file.schema_arrow.names)
        yield from file.iter_batches(ROWS_AT_A_TIME, columns=columns or None)


def check_columns(path, columns, there):
    for name in columns:
        if name not in there:
            raise BadInput(f"{path} has no column {name}; there are {', '.join(there)}")


def rows_of(path, columns):
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        yield from csv_rows(path, columns)
        return
    with open(path, "rb") as file:
        magic = file.read(4)
    if kind == ".parquet" or magic == b"PAR1":
        batches = parquet_batches(path, columns)
    elif kind in (".arrow", ".feather") or magic == b"ARRO":
        batches = arrow_batches(path, columns)
    else:
        raise BadInput(f"{path} is not called .parquet, .arrow, .feather, .csv or .tsv")
    for batch in batches:
        for begin in range(0, batch.num_rows, ROWS_AT_A_TIME):
            yield from batch.slice(begin, ROWS_AT_A_TIME).to_pylist()


def without_nan(value):
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    return [without_nan(each) for each in value] if isinstance(value, (list, tuple)) else value


def as_text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)  # dates, decimals


def as_line(row):
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=as_text)
    except ValueError:
        text = json.dumps(without_nan(row), ensure_ascii=False, default=as_text)
    return text.encode("utf-8", "replace") + b"\n"


def write(tables, columns, file):
    """Returns how many rows were written, how many passed over, and in how many of the former each column is a string."""
    count, passed, strings = 0, 0, Counter()
    for table in tables:
        for row in rows_of(table, columns):
            if len(columns) == 1 and row[columns[0]] is None:
                passed += 1
                continue
            for name, value in row.items():
                strings[name] += isinstance(value, str)
            file.write(as_line(row))
            count += 1
    return count, passed, strings


def write_beside(tables, columns, out):
    """Writes OUT.part and names it OUT when it is whole; overwrites neither. Returns what write() returns."""
    compression = {".zst": "zstd", ".gz": "gzip"}.get(out.suffix.lower())
    part = out.with_name(out.name + ".part")
    try:
        raw = open(part, "xb")
    except FileExistsError:
        raise BadInput(f"{part} is there already; remove it unless another from-parquet is writing it")
    try:
        with raw, pyarrow.output_stream(raw, compression=compression) as file:
            counts = write(tables, columns, file)
    except BaseException:
        part.unlink()
        raise
    try:
        os.link(part, out)  # unlike a rename it never overwrites
    except OSError:  # exFAT, SMB and some FUSE file systems have no hard links
        if os.path.lexists(out):
            raise BadInput(f"{out} was made by something else meanwhile; all rows are in {part}")
        part.rename(out)
    else:
        part.unlink()
    return counts


def closing_message(out, count, passed, strings):
    said = [f"wrote {count:,} rows to {out}"]
    if passed:
        said.append(f"passed over {passed:,} rows that are null")
    texts = [name for name in strings if strings[name]]
    gaps = [f"{name} is null in {count - strings[name]:,} rows" for name in texts if strings[name] < count]
    if gaps:
        said.append(f"{', '.join(gaps)}, which a single --column passes over")
    if not texts:
        said.append("none of its columns holds text")
    elif "text" not in texts:
        others = f" (or {', '.join(texts[1:])})" if texts[1:] else ""
        said.append(f"train on it with data.jsonl_field: {texts[0]}{others}")
    return "; ".join(said)


def main(arguments):
    columns, paths = [], []
    words = iter(arguments)
    for word in words:
        if word == "--column":
            columns.append(next(words, ""))
        elif word.startswith("--"):
            raise BadInput(f"there is no {word}; {__doc__}")
        else:
            paths.append(Path(word))
    if len(paths) < 2:
        raise BadInput(__doc__)
    *tables, out = paths
    if not out.name.lower().endswith((".jsonl", ".jsonl.zst", ".jsonl.gz")):
        raise BadInput(f"{out}: name the file to write last, as {out.name}.jsonl or {out.name}.jsonl.zst")
    if os.path.lexists(out):
        raise BadInput(f"{out} is there already; remove it or write another")
    print(closing_message(out, *write_beside(tables, columns, out)), file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BadInput, OSError, UnicodeError, csv.Error, pyarrow.ArrowException) as error:
        print(f"from-parquet: {error}", file=sys.stderr)
        sys.exit(2)
