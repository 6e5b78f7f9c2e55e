"""Anomalies of isolation, under every scheme of concurrency control and at every level.

`differential/scenarios.py` has the scenarios, and says which levels allow which anomaly in
PostgreSQL; `make differential` checks that it does. Atoll must be as strict, or stricter.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import atolldb

sys.path.insert(0, str(Path(__file__).parents[2]))

from differential import scenarios  # noqa: E402
from differential.answers import Answer, Failure  # noqa: E402
from differential.scenarios import LEVELS, SCENARIOS, Played  # noqa: E402
from differential.sessions import Director, shown  # noqa: E402
from differential.stories import SCHEMES  # noqa: E402

#: The scheme that gives READ COMMITTED; under the others every transaction is serializable.
RELEASING = "DL_DETECT"
#: What READ COMMITTED allows and this scheme does not do: a change waits while it looks for rows.
STRICTER = "PMP rows come to a predicate that is written"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_anomaly_happens_that_the_level_forbids(scheme):
    def play(of):
        scenario, level = of
        return scenario, level, scenarios.on_atoll(scenario, level, scheme)

    with ThreadPoolExecutor(8) as pool:
        played = list(pool.map(play, [(s, level) for s in SCENARIOS for level in LEVELS]))
    for scenario, level, result in played:
        record = "\n".join([scenario.name, level, *shown(result.events)])
        assert result.has_ended(), record
        really = level if scheme == RELEASING else "SERIALIZABLE"
        if level not in scenario.allowed or really not in scenario.allowed:
            assert not scenario.happened(result), record
    # It is not by refusing everything.
    assert sum(bool(result.commits) for _, _, result in played) > len(played) * 3 // 4


def test_no_anomaly_happens_at_repeatable_read():
    for scenario in SCENARIOS:
        result = scenarios.on_atoll(scenario, "REPEATABLE READ", RELEASING)
        assert not scenario.happened(result), "\n".join([scenario.name, *shown(result.events)])


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.allowed], ids=lambda s: s.name)
def test_what_read_committed_allows_happens(scenario):
    def happens(patience):
        return scenario.happened(
            scenarios.on_atoll(scenario, "READ COMMITTED", RELEASING, patience)
        )

    expected = scenario.name != STRICTER
    # On a busy machine a step may seem to wait.
    assert any(happens(patience) for patience in (0.05, 0.5, 2)) == expected


#: For the scenarios that nothing shows here: what would have been read, and the rows at the end.
SHOWN = {
    "G0 dirty write": ({}, {1: 11, 2: 22}),
    "G1a aborted read": ({"before": {1: 99, 2: 20}, "after": {1: 10, 2: 20}}, {1: 10, 2: 20}),
    "G1b intermediate read": ({"before": {1: 99, 2: 20}, "after": None}, {1: 11, 2: 20}),
    "G1c circular information flow": ({"one": {2: 22}, "other": {1: 11}}, {1: 11, 2: 22}),
    "OTV observed transaction vanishes": (
        {"a": {1: 12}, "b": {2: 19}, "c": {2: 18}, "d": {1: 12}}, {1: 12, 2: 18},
    ),
    STRICTER: ({}, {1: 20, 2: 30}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_scenario_sees_its_anomaly(name):
    scenario = next(s for s in SCENARIOS if s.name == name)
    read, end = SHOWN[name]
    assert scenario.happened(Played(read, end, {1, 2, 3}, []))
    if name not in ("G1a aborted read", "G1b intermediate read"):
        assert not scenario.happened(Played(read, {1: 10, 2: 20}, set(), []))


def test_every_scheme_is_there():
    for scheme in SCHEMES:
        atolldb.create(memory_limit=64 << 20, scheme=scheme).close()
    with pytest.raises(atolldb.Error) as error:
        atolldb.create(scheme="NO_SUCH")
    assert all(scheme in str(error.value) for scheme in SCHEMES)


class Turns:
    """Sessions of no database: `take` waits until another has `give`n."""

    def __init__(self, given):
        self.given = given

    def answer(self, sql):
        if sql == "take":
            self.given.acquire()
        if sql in ("give", "COMMIT"):
            self.given.release()
        if sql == "fail":
            return Answer(failure=Failure("other", "query", "it fails"))
        return Answer(tag=sql)


def record(schedule, **options):
    import threading

    given = threading.Semaphore(0)
    director = Director([Turns(given), Turns(given)], 0.2, **options)
    events = director.perform(schedule)
    assert director.close()
    return [(event.session, event.sql, event.done - event.sent) for event in events]


def test_a_step_that_waits_is_told_from_one_that_does_not():
    schedule = [(0, "BEGIN"), (0, "take"), (0, "next"), (1, "other"), (1, "COMMIT")]
    assert record(schedule) == [
        (0, "BEGIN", 0), (0, "take", 2), (1, "other", 0), (1, "COMMIT", 0), (0, "next", 0),
    ]  # fmt: skip


def test_a_session_that_fails_rolls_back_at_once():
    schedule = [(0, "BEGIN"), (0, "fail"), (0, "next"), (0, "COMMIT"), (0, "last")]
    assert record(schedule) == [
        (0, "BEGIN", 0), (0, "fail", 0), (0, "ROLLBACK", 0), (0, "last", 0)
    ]  # fmt: skip
    assert [sql for _, sql, _ in record(schedule, prompt=False)] == [sql for _, sql in schedule]
