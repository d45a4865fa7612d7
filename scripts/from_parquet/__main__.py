"""usage: from-parquet [--column NAME]... TABLE... OUT.jsonl[.gz|.zst]"""
import csv
import json
import math
import os
import sys
from pathlib import Path

import pyarrow
from pyarrow import feather, ipc, parquet

ROWS_AT_A_TIME = 256  # of long texts these are some MiB


class BadInput(Exception):
    pass


def csv_rows(path, columns):
    csv.field_size_limit(2**31 - 1)
    with open(path, newline="", encoding="utf-8-sig") as file:
        header = file.readline()
        file.seek(0)
        semicolons = "," not in header and ";" in header  # as spreadsheets write it where "," is the decimal point
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ";" if semicolons else ","
        reader = csv.DictReader(file, delimiter=delimiter, strict=True)
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


def write(tables, columns, out):
    """Returns the number of rows and the names of the columns that hold strings in the first one."""
    compression = {".zst": "zstd", ".gz": "gzip"}.get(out.suffix.lower())
    count, texts = 0, []
    part = out.with_name(out.name + ".part")
    try:
        with pyarrow.output_stream(str(part), compression=compression) as file:
            for table in tables:
                for row in rows_of(table, columns):
                    if count == 0:
                        texts = [name for name, value in row.items() if isinstance(value, str)]
                    file.write(as_line(row))
                    count += 1
        os.link(part, out)  # unlike a rename it never overwrites
    finally:
        part.unlink(missing_ok=True)
    return count, texts


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
    if out.exists():
        raise BadInput(f"{out} is there already; remove it or write another")
    count, texts = write(tables, columns, out)
    if "text" in texts or not texts:
        hint = "" if texts else "; none of its columns holds text"
    else:
        hint = f"; train on it with data.jsonl_field: {texts[0]}" + (f" (or {', '.join(texts[1:])})" if texts[1:] else "")
    print(f"wrote {count:,} rows to {out}{hint}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BadInput, OSError, UnicodeError, csv.Error, pyarrow.ArrowException) as error:
        print(f"from-parquet: {error}", file=sys.stderr)
        sys.exit(2)
