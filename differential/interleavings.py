"""Schedules of two or three sessions over few rows at READ COMMITTED, by seed.

Under Atoll's usual scheme the same steps must wait as in PostgreSQL, and the same must come out.
Which transaction a deadlock ends is left to each database: then both must have ended one.
"""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from . import errors, scenarios
from .databases import AtollSession, Postgres
from .sessions import Director, shown
from .worker import BatchResult, Finding

#: Seconds after which a step counts as waiting: at first, and to confirm a difference.
PATIENCE, SURE_PATIENCE = 0.08, 0.4
#: Of PostgreSQL, shorter than PATIENCE, so that a deadlock has ended when a step counts.
DEADLOCK_TIMEOUT = "20ms"
SESSIONS_MAX = 3
#: Schedules of a batch, and how many run at the same time: they wait most of the time.
BATCH = 40
BESIDE = 8


@dataclass(frozen=True)
class Play:
    """The rows of the table `r`, a schedule, whether the key is hashed in Atoll, and whether what
    Atoll waits for beyond PostgreSQL is no difference."""

    rows: tuple
    schedule: tuple
    is_hashed: bool = False
    is_wild: bool = False

    def for_atoll(self):
        using = " USING HASH" if self.is_hashed else ""
        yield (f"CREATE TABLE r (k int NOT NULL, v int, u int, PRIMARY KEY (k){using}, "
               "UNIQUE (u), INDEX by_v (v))")  # fmt: skip
        yield from self._rows()

    def for_postgres(self):
        yield "CREATE TABLE r (k int PRIMARY KEY, v int, u int UNIQUE)"
        yield "CREATE INDEX by_v ON r (v)"
        yield from self._rows()

    def _rows(self):
        if self.rows:
            yield "INSERT INTO r VALUES " + ", ".join(f"({k}, {v}, {u})" for k, v, u in self.rows)

    def smaller(self):
        size = len(self.schedule) // 2
        while size:
            for at in range(0, len(self.schedule), size):
                yield replace(self, schedule=self.schedule[:at] + self.schedule[at + size :])
            size //= 2
        if self.is_hashed:
            yield replace(self, is_hashed=False)
        for at in range(len(self.rows)):
            yield replace(self, rows=self.rows[:at] + self.rows[at + 1 :])
        for at, (number, sql) in enumerate(self.schedule):
            if " RETURNING" in sql:
                bare = sql.partition(" RETURNING")[0]
                yield replace(self, schedule=(*self.schedule[:at], (number, bare),
                                              *self.schedule[at + 1 :]))  # fmt: skip


class Maker:
    """Makes plays of a flavour: `keys` locks and changes rows by their keys, `inserts` inserts,
    deletes and moves them, `wild` does anything."""

    def __init__(self, rng):
        self.rng = rng
        self.flavour = rng.choice(("keys", "inserts", "inserts", "wild"))

    def make(self):
        rng = self.rng
        rows = tuple((k, rng.randrange(1, 4), k * 10) for k in range(1, 4))
        lists = [list(self._session()) for _ in range(rng.choice((2, 2, 3)))]
        schedule = []
        while any(lists):
            number = rng.choice([at for at, steps in enumerate(lists) if steps])
            schedule.append((number, lists[number].pop(0)))
        return Play(rows, tuple(schedule), rng.random() < 0.2, self.flavour == "wild")

    def _session(self):
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2))):
            if rng.random() < 0.15:
                yield self.read() if rng.random() < 0.5 else self.write()
                continue
            yield "BEGIN"
            has_written = False
            for _ in range(rng.randrange(1, 4)):
                if rng.random() < 0.2 and (self.flavour == "wild" or not has_written):
                    yield self.read()
                else:
                    yield self.write()
                    has_written = True
            yield rng.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK"))

    def read(self):
        key = self.rng.randrange(1, 5)
        return self.rng.choice((
            f"SELECT v, u FROM r WHERE k = {key}", "SELECT k, v, u FROM r ORDER BY k",
            f"SELECT k FROM r WHERE v = {key} ORDER BY k",
            "SELECT count(*) AS n, sum(v) AS s FROM r",
            f"SELECT k, v FROM r WHERE k > {key} ORDER BY k DESC LIMIT 1",
        ))  # fmt: skip

    def write(self):
        made = getattr(self, f"_{self.flavour}")()
        if made.endswith("UPDATE"):
            return made
        return made + self.rng.choice(("", "", " RETURNING k, v", " RETURNING *"))

    def _keys(self):
        rng, key = self.rng, self.rng.choice((1, 1, 2, 2, 3))
        return rng.choice((
            f"UPDATE r SET v = v + {rng.choice((1, 10))} WHERE k = {key}",
            f"UPDATE r SET v = v + {rng.choice((1, 10))} WHERE k = {key}",
            f"UPDATE r SET v = v * 2, u = u + 1000 WHERE k = {key}",
            f"DELETE FROM r WHERE k = {key}",
            f"SELECT v FROM r WHERE k = {key} FOR UPDATE",
        ))  # fmt: skip

    def _inserts(self):
        rng, key = self.rng, self.rng.choice((1, 1, 2))
        v, u = rng.randrange(1, 6), rng.choice((10, 20, 30, 40, 50))
        return rng.choice((
            f"UPDATE r SET v = v + {v} WHERE k = {key}", f"UPDATE r SET u = {u} WHERE k = {key}",
            f"UPDATE r SET k = {rng.randrange(3, 6)} WHERE k = {key}",
            f"DELETE FROM r WHERE k = {rng.choice((1, 2))}", self._insert(), self._insert(),
        ))  # fmt: skip

    def _insert(self):
        rng = self.rng
        v, u = rng.randrange(1, 6), rng.choice((10, 20, 30, 40, 50))
        conflict = rng.choice((
            "", "", " ON CONFLICT DO NOTHING", " ON CONFLICT (k) DO NOTHING",
            " ON CONFLICT (k) DO UPDATE SET v = r.v + excluded.v",
            " ON CONFLICT (u) DO UPDATE SET v = r.v + 100",
        ))  # fmt: skip
        return f"INSERT INTO r VALUES ({rng.randrange(3, 6)}, {v}, {u}){conflict}"

    def _wild(self):
        rng = self.rng
        one, other, v = (rng.randrange(1, 5) for _ in range(3))
        return rng.choice((
            self._keys, self._inserts,
            lambda: f"UPDATE r SET v = {v} WHERE k = {one} AND v = {other}",
            lambda: f"UPDATE r SET v = v + 1 WHERE k IN ({one}, {other})",
            lambda: f"UPDATE r SET v = v + 10 WHERE v {rng.choice('=<>')} {v}",
            lambda: f"DELETE FROM r WHERE v = {v}",
            lambda: f"SELECT k, v FROM r WHERE v >= {v} ORDER BY k FOR UPDATE",
        ))()  # fmt: skip


class Arena:
    """Both databases with some sessions each."""

    def __init__(self, address, name):
        self.postgres = [Postgres(address, name) for _ in range(SESSIONS_MAX)]
        self.postgres[0].must(f"ALTER SYSTEM SET deadlock_timeout = '{DEADLOCK_TIMEOUT}'")
        self.postgres[0].must("SELECT pg_reload_conf()")

    def on_postgres(self, play, patience):
        """What happens, and the rows at the end."""
        self.postgres[0].empty()
        for session in self.postgres:
            session.use()
        for sql in play.for_postgres():
            self.postgres[0].must(sql)
        director = Director(self.postgres, patience)
        events = director.perform(play.schedule)
        director.close()
        for session in self.postgres:
            session.answer("ROLLBACK")
        return events, self.postgres[0].answer("SELECT * FROM r")


def on_atoll(play, patience, scheme=None):
    """What happens on Atoll, and the rows at the end."""
    owner = AtollSession()
    owner.create(scheme)
    for sql in play.for_atoll():
        owner.must(sql)
    sessions = [AtollSession(owner.database) for _ in range(SESSIONS_MAX)]
    director = Director(sessions, patience)
    events = director.perform(play.schedule)
    if director.close():
        for session in sessions:
            session.close()
    rows = owner.on_snapshot("SELECT * FROM r")
    if all(event.done is not None for event in events):
        owner.close()
    return events, rows


@dataclass
class Difference:
    what: str
    verbs: str
    postgres: list
    atoll: list
    postgres_rows: list
    atoll_rows: list

    def signature(self):
        return f"{self.what}: {self.verbs}" if self.verbs else self.what

    def sides(self):
        """The records of both as texts."""
        for events, rows in (self.postgres, self.postgres_rows), (self.atoll, self.atoll_rows):
            yield "\n".join(["", *shown(events), f"rows {sorted(rows, key=str)}"])


def compare(arena, play, patience=PATIENCE):
    """The first difference, or None; and the record of PostgreSQL."""
    theirs, their_rows = arena.on_postgres(play, patience)
    ours, our_rows = on_atoll(play, patience)
    what = difference_of(theirs, ours)
    if not what and not _deadlocks(theirs) and Counter(their_rows.rows) != Counter(our_rows.rows):
        what = ("rows at the end", "")
    if not what:
        return None, theirs
    return Difference(*what, theirs, ours, their_rows.rows, our_rows.rows), theirs


def difference_of(theirs, ours):
    """What differs first in two records, and at what statement; None if nothing does."""
    if _deadlocks(theirs):
        return None if _deadlocks(ours) else ("deadlock in PostgreSQL only", "")
    for their, our in zip(theirs, ours, strict=False):
        verbs = _verb(our.sql)
        if our.done is None:
            return "Atoll never returns", verbs
        if our.answer.failure and our.answer.failure.sort == "crash":
            return "crash", verbs
        if _is_deadlock(our):
            return "deadlock in Atoll only", verbs
        if (their.session, their.sql, their.sent) != (our.session, our.sql, our.sent):
            return "order", verbs
        done = _end(theirs, their.done), _end(ours, our.done)
        one, other = their.answer, our.answer
        names = (one.failure and errors.name(one.failure),
                 other.failure and errors.name(other.failure))  # fmt: skip
        same = names[0] == names[1] and (
            names[0] or (one.tag, Counter(one.rows)) == (other.tag, Counter(other.rows))
        )
        if same and done[0] == done[1]:
            continue
        if max(_waiting(theirs, min(done)), _waiting(ours, min(done))) > 1:
            return "order of waiters", ""
        if done[0] != done[1]:
            return _of_waits(theirs, ours, their, our), verbs
        if names[0] != names[1]:
            return f"{names[0] or 'fine'}, Atoll {names[1] or 'fine'}", verbs
        return "answer", verbs
    return None if len(theirs) == len(ours) else ("number of steps", "")


def _end(events, at):
    """The number of a step, or of the ROLLBACK behind it if it failed: PostgreSQL lets others go on
    when a statement fails, Atoll when the transaction is rolled back."""
    if at is not None and events[at].answer and events[at].answer.failure:
        behind = events[at + 1 : at + 2]
        if behind and behind[0].sql == "ROLLBACK" and behind[0].session == events[at].session:
            return at + 1
    return at


def _waiting(events, at):
    """How many steps wait just before a step is sent."""
    return sum(e.sent < at and (e.done is None or e.done >= at) for e in events)


def _of_waits(theirs, ours, their, our):
    if our.has_waited() and not their.has_waited():
        return "Atoll waits"
    if their.has_waited() and not our.has_waited():
        return "PostgreSQL waits"
    longer = "Atoll" if our.done > their.done else "PostgreSQL"
    until = (ours if longer == "Atoll" else theirs)[max(our.done, their.done)].sql
    earlier = (ours if longer == "Atoll" else theirs)[min(our.done, their.done)].sql
    return f"{longer} waits longer: until {_verb(until)}, not {_verb(earlier)}"


def _verb(sql):
    words = sql.split()
    if words[0] == "SELECT":
        return "SELECT FOR UPDATE" if sql.endswith("UPDATE") else "SELECT"
    if words[0] == "INSERT":
        return "INSERT ON CONFLICT" if "CONFLICT" in sql else "INSERT"
    if words[0] == "UPDATE":
        what = words[3]
        where = sql.partition("WHERE ")[2].split(" RETURNING")[0]
        for digit in "0123456789":
            where = where.replace(digit, "")
        return f"UPDATE {what} by {' '.join(where.split())}"
    if words[0] == "DELETE":
        return f"DELETE by {words[4]}"
    return words[0]


def _is_deadlock(event):
    failure = event.answer and event.answer.failure
    return bool(failure) and "deadlock" in (errors.name(failure), errors.name(failure))


def _deadlocks(events):
    return sum(_is_deadlock(event) for event in events)


def deliberate(play, difference):
    """The name of a difference on purpose, or None."""
    if difference.what in ("order of waiters", "deadlock in PostgreSQL only"):
        return difference.what.replace(" ", "-")
    if not play.is_wild or difference.what in ("crash", "Atoll never returns"):
        return None
    if "waits" in difference.what or _deadlocks(difference.atoll):
        return "waits-while-it-looks"
    if difference.what in ("answer", "rows at the end"):
        has_waited = any(event.has_waited() for event in difference.atoll)
        return "sees-what-came-meanwhile" if has_waited else None
    return None


def minimise(arena, play, signature, tries=60):
    found, progress = None, True
    while progress and tries > 0:
        progress = False
        for smaller in play.smaller():
            tries -= 1
            difference, _ = compare(arena, smaller)
            if difference and difference.signature() == signature:
                play, found, progress = smaller, difference, True
                break
            if tries <= 0:
                break
    return play, found


class Worker:
    """Performs batches of schedules, some at the same time, and first of all the scenarios."""

    def __init__(self, address, number, options, beat):
        self.options, self.beat = options, beat
        self.arenas = [Arena(address, f"arena{number}_{at}") for at in range(BESIDE)]
        self.seen = Counter()

    def run(self, batch, count):
        self.beat(batch, f"schedules of batch {batch}")
        result = BatchResult(batch, Counter(), [])
        if batch == 0:
            self._scenarios(result)
        with ThreadPoolExecutor(BESIDE) as pool:
            performed = list(pool.map(
                lambda at: [self._one(self.arenas[at], batch, number)
                            for number in range(at, count, BESIDE)],
                range(BESIDE),
            ))  # fmt: skip
        for play, difference, theirs in (one for some in performed for one in some):
            result.counts.update(_counted(play, theirs))
            if difference:
                self._differs(play, difference, result)
        return result

    def _one(self, arena, batch, number):
        rng = random.Random(f"interleaving {self.options.seed} {batch} {number}")
        play = Maker(rng).make()
        difference, theirs = compare(arena, play)
        if difference:
            difference, theirs = compare(arena, play, SURE_PATIENCE)
        return play, difference, theirs

    def _differs(self, play, difference, result):
        if not result.wants(deliberate(play, difference), difference, self.seen, self.options.each):
            return
        signature = difference.signature()
        if self.options.minimise:
            play, found = minimise(self.arenas[0], play, signature)
            difference = found or difference
        theirs, ours = difference.sides()
        result.findings.append(Finding(
            "", "", signature, theirs, ours, "", "", result.batch, list(play.for_atoll())
        ))  # fmt: skip

    def _scenarios(self, result):
        """Each scenario on PostgreSQL, where what a level allows must happen and nothing else."""
        for scenario in scenarios.SCENARIOS:
            for level in scenarios.LEVELS:
                played = scenarios.on_postgres(scenario, level, self.arenas[0].postgres)
                result.counts["scenarios of anomalies"] += 1
                if scenario.happened(played) != (level in scenario.allowed):
                    what = f"{scenario.name} at {level}"
                    result.counts[f"DIFFERENT: {what}"] += 1
                    record = "\n".join(["", *shown(played.events)])
                    result.findings.append(Finding("", "", what, record, "", "", "", 0))


def _counted(play, events):
    waits = sum(event.has_waited() for event in events)
    kind = "wild schedules" if play.is_wild else "schedules"
    yield f"{kind} with a deadlock" if _deadlocks(events) else (
        f"{kind} with waits" if waits else f"{kind} without waits"
    )
