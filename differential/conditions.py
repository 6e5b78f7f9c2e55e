"""Makes conditions: comparisons, IN, BETWEEN, LIKE, and what is said of NULL."""

from . import expressions, values
from .sqltypes import ALL, NUMBERS, comparable
from .tree import Expr

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "!=")


def pair(scope, depth):
    """Two operands that can be compared, often of one type; one may be a literal in quotes."""
    rng = scope.rng
    left = rng.choice(ALL + NUMBERS)
    right = left
    if rng.random() < 0.45:
        right = rng.choice([t for t in ALL if comparable(left, t)])
    operands = [expressions.generate(scope, t, depth) for t in (left, right)]
    if rng.random() < 0.15:
        # A numeric in quotes may have any digits; of 2 are all numerics.
        operands[1] = expressions.quoted(rng, left)
        rng.shuffle(operands)
    return expressions.operands(rng, *operands)


def comparison(scope, _type, depth, _loose):
    operator = scope.rng.choice(COMPARISONS)
    return Expr("bool", f"({{}} {operator} {{}})", pair(scope, depth))


def distinct(scope, _type, depth, _loose):
    operator = scope.rng.choice(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
    return Expr("bool", f"({{}} {operator} {{}})", pair(scope, depth))


def connective(scope, _type, depth, _loose):
    rng = scope.rng
    parts = [expressions.generate(scope, "bool", depth) for _ in range(rng.choice((2, 2, 2, 3)))]
    operator = rng.choice((" AND ", " OR "))
    return Expr("bool", f"({operator.join('{}' for _ in parts)})", parts)


def negation(scope, _type, depth, _loose):
    return Expr("bool", "(NOT {})", [expressions.generate(scope, "bool", depth)])


def null_test(scope, _type, depth, _loose):
    rng = scope.rng
    if rng.random() < 0.4:
        test = rng.choice(("TRUE", "FALSE", "UNKNOWN", "NOT TRUE", "NOT FALSE", "NOT UNKNOWN"))
        return Expr("bool", f"({{}} IS {test})", [expressions.generate(scope, "bool", depth)])
    operand = expressions.generate(scope, rng.choice(ALL), depth)
    return Expr("bool", f"({{}} IS {rng.choice(('', 'NOT '))}NULL)", [operand])


def between(scope, _type, depth, _loose):
    rng = scope.rng
    first, second = pair(scope, depth)
    third = expressions.generate(scope, rng.choice((first.type, second.type)), min(depth, 1))
    if not comparable(first.type, third.type):
        return None
    word = rng.choice(("BETWEEN", "BETWEEN", "NOT BETWEEN"))
    return Expr("bool", f"({{}} {word} {{}} AND {{}})", [first, second, third])


def within(scope, _type, depth, _loose):
    """IN and NOT IN."""
    rng = scope.rng
    type_ = rng.choice(ALL)
    operand = expressions.generate(scope, type_, depth)
    members = []
    for _ in range(rng.choice((1, 2, 2, 3, 4))):
        chance = rng.random()
        if chance < 0.06:
            members.append(expressions.null(type_))
        elif chance < 0.25:
            members.append(expressions.quoted(rng, type_))
        elif chance < 0.4 and type_ in NUMBERS:
            members.append(expressions.literal(rng, rng.choice(NUMBERS)))
        elif chance < 0.7:
            members.append(expressions.literal(rng, type_))
        else:
            members.append(expressions.generate(scope, type_, min(depth, 1)))
    word = rng.choice(("IN", "IN", "NOT IN"))
    form = f"({{}} {word} ({', '.join('{}' for _ in members)}))"
    return Expr("bool", form, [operand, *members], shape="in")


def like(scope, _type, depth, _loose):
    rng = scope.rng
    pattern = Expr("text", values.quote(rng.choice(values.LIKES)), shape="literal")
    word = rng.choice(("LIKE", "LIKE", "NOT LIKE"))
    operand = expressions.generate(scope, "text", depth)
    return Expr("bool", f"({{}} {word} {{}})", [operand, pattern])


MAKERS = [
    (comparison, 8), (distinct, 2), (connective, 5), (negation, 2), (null_test, 3), (between, 3),
    (within, 4), (like, 1),
]  # fmt: skip
