"""Makes a statement wrong: one part of an expression gets a type that does not fit there."""

from . import expressions
from .sqltypes import ALL


def make_wrong(rng, statement):
    """The statement with one operand replaced by a literal of another type."""
    places = [e for expr in statement.items for e in expr.walk() if e.args]
    if not places:
        return statement
    place = rng.choice(places)
    at = rng.randrange(len(place.args))
    if place.shape == "ordered" and place.args[at].form.endswith(".id"):
        return statement  # Without it any order would do.
    other = rng.choice([t for t in ALL if t != place.args[at].type])
    args = list(place.args)
    args[at] = expressions.literal(rng, other)
    changed = place.with_args(args)
    return statement.copy(items=[_replaced(e, place, changed) for e in statement.items])


def _replaced(expr, old, new):
    if expr is old:
        return new
    args = [_replaced(arg, old, new) for arg in expr.args]
    if all(a is b for a, b in zip(args, expr.args, strict=True)):
        return expr
    return expr.with_args(args)
