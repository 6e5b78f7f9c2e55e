"""How the programs of the demo talk to `atoll demo`, and what they check of every snapshot.

What a program has to tell it writes to its standard output, one JSON object per line; what it is
told comes as words on its standard input. The database itself is never sent through these pipes.
"""

import argparse
import hashlib
import io
import json
import select
import sys

# Columns whose values no transaction of the demo changes: whatever of them does not lie in the
# owner's memory was copied by attaching.
UNCHANGED = {
    "airports": ["lat", "lon", "alt", "tz"],
    "planes": ["engines", "seats"],
    "weather": ["hour", "precip", "visib", "time_hour"],
    "flights": ["id", "distance", "hour", "time_hour"],
}


def tell(event, **facts):
    """Tells `atoll demo` something."""
    print(json.dumps({"event": event, **facts}), flush=True)


def heard(timeout=None):
    """The next word from `atoll demo`; None after `timeout` seconds; "end" if it is gone."""
    # Words come one at a time, each after an answer, so no second one waits in Python's buffer.
    ready, _, _ = select.select([sys.stdin], [], [], timeout)
    if not ready:
        return None
    return sys.stdin.readline().strip() or "end"


def arguments(description, *names):
    """The command line: the database, and options of the program's own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--database", required=True, help="name to attach to")
    parser.add_argument("--runtime-dir", help="where names are looked up")
    for name in names:
        parser.add_argument(name, required=True)
    return parser.parse_args()


def check(name, passed, detail=""):
    """Tells the outcome of a check."""
    tell("check", name=name, passed=bool(passed), detail=str(detail))


def owners_memory():
    """Address ranges of this process that are the memory of a database of another process."""
    ranges = []
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            if "/memfd:atoll" in line:
                first, _, last = line.split(maxsplit=1)[0].partition("-")
                first, last = int(first, 16), int(last, 16)
                if ranges and ranges[-1][1] == first:
                    # A column's segments are mapped side by side.
                    first = ranges.pop()[0]
                ranges.append((first, last))
    return ranges


def buffers(snapshot):
    """Address and length of every buffer with values of unchanged columns, and its keeper."""
    for table, columns in UNCHANGED.items():
        for name in columns:
            column = snapshot[table][name]
            if table == "flights":
                # Several workers fill several segments at once, so a column is several arrays.
                for chunk in column.to_arrow().chunks:
                    width = chunk.type.bit_width // 8
                    address = chunk.buffers()[1].address + chunk.offset * width
                    yield address, len(chunk) * width, chunk
            else:
                array = column.to_numpy()
                yield array.ctypes.data, array.nbytes, array


def shared_and_copied(snapshot):
    """Bytes of unchanged columns that are the owner's own, and that are not."""
    # The mappings are read while all arrays live.
    found = list(buffers(snapshot))
    ranges = owners_memory()
    shared = copied = 0
    for address, length, _ in found:
        if any(first <= address and address + length <= last for first, last in ranges):
            shared += length
        else:
            copied += length
    return shared, copied


class _Digest(io.RawIOBase):
    def __init__(self):
        super().__init__()
        self.hash = hashlib.blake2b(digest_size=16)

    def writable(self):
        return True

    def write(self, data):
        self.hash.update(data)
        return memoryview(data).nbytes


def fingerprint(snapshot, tables):
    """A hash over every value of every column of these tables."""
    import pyarrow as pa

    digest = _Digest()
    for name in tables:
        table = snapshot[name].to_arrow()
        with pa.ipc.new_stream(pa.PythonFile(digest, "w"), table.schema) as stream:
            stream.write_table(table)
    return digest.hash.hexdigest()


def take(connection, of, first):
    """Takes a snapshot, tells what that cost, and checks what holds in every snapshot."""
    snapshot = connection.snapshot()  # nothing is copied here
    shared, copied = shared_and_copied(snapshot)
    check("attaching copied nothing: arrays lie in the owner's memory",
          shared > 0 and copied == 0 and snapshot.bytes_copied_attach == 0,
          f"{shared} bytes shared, {copied} bytes copied")
    check_totals(snapshot)
    tell("snapshot", of=of, epoch=snapshot.epoch, first=first,
         take_us=snapshot.take_ns / 1e3, attach_us=snapshot.attach_ns / 1e3,
         bytes_copied=copied, bytes_patched=snapshot.bytes_patched)
    return snapshot


def check_totals(snapshot):
    """In every snapshot the running totals are the sums over its flights, to the minute."""
    arrived = "FROM flights WHERE status = 'arrived'"
    cases = {
        "airports' totals as origin": (
            f"SELECT origin, count(*), sum(dep_delay) {arrived} GROUP BY origin",
            "SELECT faa, departures, dep_delay_total FROM airports WHERE departures > 0"),
        "airports' totals as destination": (
            f"SELECT dest, count(*), sum(arr_delay) {arrived} GROUP BY dest",
            "SELECT faa, arrivals, arr_delay_total FROM airports WHERE arrivals > 0"),
        "airlines' totals": (
            f"SELECT carrier, count(*), sum(arr_delay), sum(distance) {arrived} GROUP BY carrier",
            "SELECT carrier, flights_arrived, arr_delay_total, distance_total FROM airlines "
            "WHERE flights_arrived > 0"),
    }
    for name, (sums, totals) in cases.items():
        sums, totals = set(snapshot.sql(sums).fetchall()), set(snapshot.sql(totals).fetchall())
        check(f"in every snapshot: {name} = sums over their flights",
              sums and sums == totals,
              f"epoch {snapshot.epoch}, sums and totals that differ: {sorted(sums ^ totals)[:6]}")
