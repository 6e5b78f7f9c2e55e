"""Anomalies of isolation: schedules that would show each, and which levels allow it.

The names are those of Adya's thesis and of the literature since: G0 to G2, and OTV (a transaction
that was observed vanishes), PMP (rows come to a predicate), P4 (a lost update). Each scenario says
at which levels PostgreSQL lets it happen; what is stricter is right as well.

A scenario decides by what committed transactions have read and by the rows at the end, whatever
the order in which the steps have run: a step that waits, or fails, makes an anomaly less likely,
never one where there is none.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .sessions import Director

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
SETUP = (
    "CREATE TABLE stock (id int PRIMARY KEY, n int)",
    "INSERT INTO stock VALUES (1, 10), (2, 20)",
)
READ_COMMITTED = frozenset(LEVELS[:1])
SNAPSHOT = frozenset(LEVELS[:2])


@dataclass(frozen=True)
class Scenario:
    """`steps` are lines `session: statement`, or `session name: statement` for a read that
    `happened` asks for. Each session begins before all of them."""

    name: str
    steps: str
    happened: Callable
    allowed: frozenset = frozenset()

    def schedule(self, level):
        parsed = [line.strip().partition(": ") for line in self.steps.strip().splitlines()]
        steps = [(head.split(), sql) for head, _, sql in parsed]
        numbers = sorted({int(head[0]) - 1 for head, _ in steps})
        begins = [(number, f"BEGIN ISOLATION LEVEL {level}") for number in numbers]
        return begins + [(int(head[0]) - 1, sql, *head[1:]) for head, sql in steps]


@dataclass
class Played:
    """What came of a scenario: what each named read found, None if it failed; the rows at the end;
    which transactions have committed, by their numbers from 1."""

    read: dict
    end: dict
    commits: set
    events: list

    def committed(self, *numbers):
        return self.commits.issuperset(numbers)

    def has_ended(self):
        return all(event.done is not None for event in self.events)


def perform(scenario, level, sessions, patience, rows):
    """Plays a scenario with these sessions; `rows` gives the rows of the table at the end."""
    director = Director(sessions, patience)
    events = director.perform(scenario.schedule(level))
    director.close()
    names = [step[2] for step in scenario.schedule(level) if len(step) > 2]
    read = dict.fromkeys(names)
    read |= {e.name: dict(e.answer.rows) for e in events if e.name and _is_fine(e)}
    commits = {
        e.session + 1 for e in events if e.sql == "COMMIT" and _is_fine(e)
        and e.answer.tag == "COMMIT"
    }  # fmt: skip
    return Played(read, dict(rows()), commits, events)


def _is_fine(event):
    return event.answer is not None and not event.answer.failure


def on_atoll(scenario, level, scheme, patience=0.05):
    """Plays a scenario on Atoll under a scheme of concurrency control."""
    from .databases import AtollSession

    owner = AtollSession()
    owner.create(scheme)
    for sql in SETUP:
        owner.must(sql)
    sessions = [AtollSession(owner.database) for _ in range(3)]
    played = perform(
        scenario, level, sessions, patience,
        lambda: owner.on_snapshot("SELECT id, n FROM stock").rows,
    )  # fmt: skip
    if played.has_ended():
        owner.close()
    return played


def on_postgres(scenario, level, sessions, patience=0.1):
    """Plays a scenario on PostgreSQL with three sessions of one schema."""
    sessions[0].empty()
    for session in sessions:
        session.use()
    for sql in SETUP:
        sessions[0].must(sql)
    return perform(
        scenario, level, sessions, patience,
        lambda: sessions[0].answer("SELECT id, n FROM stock").rows,
    )  # fmt: skip


def _mixed(played):
    """Rows of two writers of both rows: all must be of one."""
    whole = {1: [{1: 11, 2: 21}], 2: [{1: 12, 2: 22}]}
    possible = [rows for number in (1, 2) if played.committed(number) for rows in whole[number]]
    return played.end not in (possible or [{1: 10, 2: 20}])


def _seen(played, value):
    return any(rows and value in rows.values() for rows in played.read.values())


def _vanishes(played):
    """Whether a value of the first transaction is read after one of the second."""
    values = [v for rows in played.read.values() if rows for v in rows.values()]
    second = next((at for at, v in enumerate(values) if v in (12, 18)), len(values))
    return any(v in (11, 19) for v in values[second:])


SCENARIOS = (
    Scenario(
        "G0 dirty write",
        """1: UPDATE stock SET n = 11 WHERE id = 1
           2: UPDATE stock SET n = 12 WHERE id = 1
           1: UPDATE stock SET n = 21 WHERE id = 2
           1: COMMIT
           2: UPDATE stock SET n = 22 WHERE id = 2
           2: COMMIT""",
        _mixed,
    ),
    Scenario(
        "G1a aborted read",
        """1: UPDATE stock SET n = 99 WHERE id = 1
           2 before: SELECT id, n FROM stock
           1: ROLLBACK
           2 after: SELECT id, n FROM stock
           2: COMMIT""",
        lambda played: _seen(played, 99),
    ),
    Scenario(
        "G1b intermediate read",
        """1: UPDATE stock SET n = 99 WHERE id = 1
           2 before: SELECT id, n FROM stock
           1: UPDATE stock SET n = 11 WHERE id = 1
           1: COMMIT
           2 after: SELECT id, n FROM stock
           2: COMMIT""",
        lambda played: _seen(played, 99),
    ),
    Scenario(
        "G1c circular information flow",
        """1: UPDATE stock SET n = 11 WHERE id = 1
           2: UPDATE stock SET n = 22 WHERE id = 2
           1 one: SELECT id, n FROM stock WHERE id = 2
           2 other: SELECT id, n FROM stock WHERE id = 1
           1: COMMIT
           2: COMMIT""",
        lambda played: played.read["one"] == {2: 22} and played.read["other"] == {1: 11}
        and played.committed(1, 2),
    ),
    Scenario(
        "OTV observed transaction vanishes",
        """1: UPDATE stock SET n = 11 WHERE id = 1
           1: UPDATE stock SET n = 19 WHERE id = 2
           2: UPDATE stock SET n = 12 WHERE id = 1
           1: COMMIT
           3 a: SELECT id, n FROM stock WHERE id = 1
           2: UPDATE stock SET n = 18 WHERE id = 2
           3 b: SELECT id, n FROM stock WHERE id = 2
           2: COMMIT
           3 c: SELECT id, n FROM stock WHERE id = 2
           3 d: SELECT id, n FROM stock WHERE id = 1
           3: COMMIT""",
        lambda played: played.committed(3) and _vanishes(played),
    ),
    Scenario(
        "PMP rows come to a predicate that is read",
        """1 before: SELECT id, n FROM stock WHERE n = 30
           2: INSERT INTO stock VALUES (3, 30)
           2: COMMIT
           1 after: SELECT id, n FROM stock WHERE n % 3 = 0
           1: COMMIT""",
        lambda played: played.read["before"] == {} and played.read["after"] == {3: 30}
        and played.committed(1, 2),
        READ_COMMITTED,
    ),
    Scenario(
        "PMP rows come to a predicate that is written",
        """1: UPDATE stock SET n = n + 10 WHERE id < 10
           2: DELETE FROM stock WHERE n = 20
           1: COMMIT
           2: COMMIT""",
        lambda played: played.committed(1, 2) and played.end == {1: 20, 2: 30},
        READ_COMMITTED,
    ),
    Scenario(
        "P4 lost update",
        """1 one: SELECT id, n FROM stock WHERE id = 1
           2 other: SELECT id, n FROM stock WHERE id = 1
           1: UPDATE stock SET n = 11 WHERE id = 1
           2: UPDATE stock SET n = 11 WHERE id = 1
           1: COMMIT
           2: COMMIT""",
        lambda played: played.read["one"] == played.read["other"] == {1: 10}
        and played.committed(1, 2),
        READ_COMMITTED,
    ),
    Scenario(
        "G-single read skew",
        """1 one: SELECT id, n FROM stock WHERE id = 1
           2: UPDATE stock SET n = 12 WHERE id = 1
           2: UPDATE stock SET n = 18 WHERE id = 2
           2: COMMIT
           1 other: SELECT id, n FROM stock WHERE id = 2
           1: COMMIT""",
        lambda played: played.read["one"] == {1: 10} and played.read["other"] == {2: 18}
        and played.committed(1, 2),
        READ_COMMITTED,
    ),
    Scenario(
        "G-single read skew of predicates",
        """1 fives: SELECT id, n FROM stock WHERE n % 5 = 0
           2: UPDATE stock SET n = 12 WHERE n = 10
           2: COMMIT
           1 threes: SELECT id, n FROM stock WHERE n % 3 = 0
           1: COMMIT""",
        lambda played: played.read["fives"] == {1: 10, 2: 20}
        and played.read["threes"] == {1: 12} and played.committed(1, 2),
        READ_COMMITTED,
    ),
    Scenario(
        "G-single read skew before a write by a predicate",
        """1 one: SELECT id, n FROM stock WHERE id = 1
           2: UPDATE stock SET n = 12 WHERE id = 1
           2: UPDATE stock SET n = 18 WHERE id = 2
           2: COMMIT
           1: DELETE FROM stock WHERE n = 20
           1: COMMIT""",
        lambda played: played.read["one"] == {1: 10} and played.end == {1: 12, 2: 18}
        and played.committed(1, 2),
        READ_COMMITTED,
    ),
    Scenario(
        "G2-item write skew",
        """1 one: SELECT id, n FROM stock WHERE id IN (1, 2)
           2 other: SELECT id, n FROM stock WHERE id IN (1, 2)
           1: UPDATE stock SET n = 11 WHERE id = 1
           2: UPDATE stock SET n = 21 WHERE id = 2
           1: COMMIT
           2: COMMIT""",
        lambda played: played.read["one"] == played.read["other"] == {1: 10, 2: 20}
        and played.committed(1, 2),
        SNAPSHOT,
    ),
    Scenario(
        "G2 write skew of predicates",
        """1 one: SELECT id, n FROM stock WHERE n % 3 = 0
           2 other: SELECT id, n FROM stock WHERE n % 3 = 0
           1: INSERT INTO stock VALUES (3, 30)
           2: INSERT INTO stock VALUES (4, 42)
           1: COMMIT
           2: COMMIT""",
        lambda played: played.read["one"] == played.read["other"] == {}
        and played.committed(1, 2),
        SNAPSHOT,
    ),
    Scenario(
        "G2 write skew of ranges",
        """1 one: SELECT id, n FROM stock WHERE id BETWEEN 3 AND 6
           2 other: SELECT id, n FROM stock WHERE id > 4 AND id < 9
           2: INSERT INTO stock VALUES (5, 1)
           1: INSERT INTO stock VALUES (6, 1)
           1: COMMIT
           2: COMMIT""",
        lambda played: played.read["one"] == played.read["other"] == {}
        and played.committed(1, 2),
        SNAPSHOT,
    ),
    Scenario(
        "G2 a cycle that only a reader closes",
        """1 early: SELECT id, n FROM stock WHERE id < 10
           2: UPDATE stock SET n = n + 5 WHERE id = 2
           2: COMMIT
           3 late: SELECT id, n FROM stock WHERE id < 10
           3: COMMIT
           1: UPDATE stock SET n = 0 WHERE id = 1
           1: COMMIT""",
        lambda played: played.read["early"] == {1: 10, 2: 20}
        and played.read["late"] == {1: 10, 2: 25} and played.committed(1, 2, 3),
        SNAPSHOT,
    ),
)
