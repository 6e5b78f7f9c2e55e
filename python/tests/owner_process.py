"""A process that owns databases: it runs the Python code that comes in, one JSON text a line."""

import json
import sys
import traceback

import atolldb

names = {"atolldb": atolldb}
for line in sys.stdin:
    try:
        exec(json.loads(line), names)  # noqa: S102 - the tests are the only ones who write here
        answer = {"value": names.pop("answer", None)}
    except Exception:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
