"""Makes window functions.

A function whose value depends on the order of equal rows is ordered by the ids too (`total`).
"""

from . import expressions
from .sqltypes import ALL, FLOATS, NUMBERS
from .tree import FLOAT_SUM, WINDOW, Expr

RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")
DIRECTIONS = ("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")


def make(scope, ids, aggregate):
    """A window function over the columns of the scope."""
    rng = scope.rng
    what = rng.choice(("rank", "rank", "ntile", "lag", "lag", "value", "aggregate", "aggregate"))
    frame = None
    if what == "rank":
        name = rng.choice(RANKS)
        type_ = "int8" if name in RANKS[:3] else "float8"
        call, total = Expr(type_, f"{name}()"), name == "row_number"
        if type_ == "float8":
            call.own |= FLOAT_SUM
    elif what == "ntile":
        call, total = Expr("int4", f"ntile({rng.randrange(1, 5)})"), True
    elif what == "lag":
        call, total = lag(scope), True
    else:
        if what == "value":
            argument = expressions.generate(scope, rng.choice(ALL), 1)
            name = rng.choice(("first_value({})", "last_value({})", "nth_value({}, 2)"))
            call = Expr(argument.type, name, [argument], scale=argument.scale)
        else:
            call = None
            while call is None:
                call = aggregate(rng, scope, rng.choice(ALL + NUMBERS), over="over")
        frame = rng.choice((None, "ROWS", "RANGE", "GROUPS", "ROWS", "RANGE"))
        total = what == "value" or frame == "ROWS"
    return over(scope, call, ids, total, frame)


def lag(scope):
    rng = scope.rng
    name = rng.choice(("lag", "lead"))
    argument = expressions.generate(scope, rng.choice(ALL), 1)
    if argument.is_null():
        argument = rng.choice(scope.columns)
    form, args = f"{name}({{}}", [argument]
    if rng.random() < 0.5:
        form += f", {rng.choice((0, 1, 2, 5))}"
        if rng.random() < 0.6:
            form += ", {}"
            args.append(expressions.literal(rng, argument.type))
    return Expr(argument.type, form + ")", args, scale=max(a.scale for a in args))


def over(scope, call, ids, total, frame):
    """The call with its OVER."""
    rng = scope.rng
    args, clauses = list(call.args), []
    partition = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        known = [c for c in scope.columns if c.form[2:] in ("k", "b", "i2", "f8", "n2", "t")]
        made = rng.choice(known)
        if rng.random() < 0.2:
            made = expressions.generate(scope, rng.choice(ALL), 1)
        partition.append(made)
    if partition:
        clauses.append("PARTITION BY " + ", ".join("{}" for _ in partition))
        args += partition
    limits = frame and frame_limits(rng, frame)
    moved = frame == "RANGE" and any("offset" in limit for limit in limits)
    keys = []
    if moved:
        keys = [rng.choice([c for c in scope.columns if c.type not in ("text", "bytea", "bool")])]
        directions = [rng.choice(DIRECTIONS)]
    else:
        for _ in range(rng.choice((0, 1, 1, 2))):
            keys.append(rng.choice(scope.columns))
        if frame == "GROUPS" and not keys:
            keys = [rng.choice(scope.columns)]
        if total:
            keys += ids
        directions = [rng.choice(DIRECTIONS) for _ in keys]
    if keys:
        clauses.append("ORDER BY " + ", ".join("{}" + d for d in directions))
        args += keys
    if frame:
        low, high = (limit.replace("offset", offset(rng, frame, keys)) for limit in limits)
        clauses.append(f"{frame} BETWEEN {low} AND {high}")
    form = f"{call.form} OVER ({' '.join(clauses)})"
    own = WINDOW | call.own
    # The peers of a moved range are in no order.
    if moved and call.form.startswith(("first_value", "last_value", "nth_value")):
        return Expr("int8", f"count(*) OVER ({' '.join(clauses)})", args[len(call.args) :],
                    own=WINDOW, shape="window")  # fmt: skip
    shape = "ordered" if total else "window"
    return Expr(call.type, form, args, own=own, scale=call.scale, shape=shape)


def frame_limits(rng, frame):
    starts = ["UNBOUNDED PRECEDING", "offset PRECEDING", "CURRENT ROW", "offset FOLLOWING"]
    ends = ["offset PRECEDING", "CURRENT ROW", "offset FOLLOWING", "UNBOUNDED FOLLOWING"]
    start = rng.choice(starts[:3] + starts)
    at = {"UNBOUNDED PRECEDING": 0, "offset PRECEDING": 0, "CURRENT ROW": 1}.get(start, 2)
    return start, rng.choice(ends[at:])


def offset(rng, frame, keys):
    if frame != "RANGE" or not keys:
        return rng.choice(("0", "1", "1", "2", "3"))
    type_ = keys[0].type
    if type_ in ("date", "timestamp"):
        return rng.choice(("INTERVAL '1 day'", "INTERVAL '1 month'", "INTERVAL '400 days'"))
    if type_ in (*FLOATS, "numeric"):
        return rng.choice(("0", "1", "2.5", "1000"))
    return rng.choice(("0", "1", "2", "1000"))
