"""Sessions that take turns by a schedule: which of their steps wait, and what each returns.

A schedule is a list of (session, statement), or (session, statement, name). Each session has a
thread. A step that has not returned within `patience` seconds counts as waiting, and the next step
is sent; further steps of the waiting session are kept back until it has returned. So the same
schedule gives the same record again, as long as the database decides in the same way.

With `prompt`, a session whose transaction has failed rolls back at once, as programs do, in place of
what the schedule has for it up to the end of the transaction.
"""

import queue
import threading
import time
from dataclasses import dataclass

from .answers import Answer

#: Seconds after which a schedule in which nothing returns any more is given up.
STUCK_S = 10


@dataclass
class Event:
    """A step that was sent: when, as the number of the last step sent until then; when it
    returned, in the same way; and what. `done` is None for a step that never returned."""

    session: int
    sql: str
    sent: int
    done: int | None = None
    answer: Answer | None = None
    name: str = ""

    def has_waited(self):
        return self.done != self.sent


class Actor:
    """A session in a thread of its own."""

    def __init__(self, session):
        self.session = session
        self.inbox, self.is_idle = queue.SimpleQueue(), threading.Event()
        self.answer, self.event, self.kept_back = None, None, []
        self.is_open = self.skips = False
        self.is_idle.set()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while (sql := self.inbox.get()) is not None:
            self.answer = self.session.answer(sql)
            self.is_idle.set()

    def send(self, event):
        self.event = event
        self.is_idle.clear()
        self.inbox.put(event.sql)

    def close(self):
        """Ends the thread, unless its statement never returns."""
        self.inbox.put(None)
        self.thread.join(timeout=STUCK_S)
        return not self.thread.is_alive()


class Director:
    """Performs a schedule with a session for each number in it."""

    def __init__(self, sessions, patience, *, prompt=True):
        self.actors = [Actor(session) for session in sessions]
        self.patience, self.prompt, self.events = patience, prompt, []

    def perform(self, schedule):
        """The events in the order in which they were sent."""
        for number, sql, *name in schedule:
            self.actors[number].kept_back.append((sql, *name))
            while self._send_one():
                pass
        until = time.monotonic() + STUCK_S
        while any(not actor.is_idle.is_set() or actor.kept_back for actor in self.actors):
            self._settle(True)
            if self._send_one():
                until = time.monotonic() + STUCK_S
            elif time.monotonic() > until:
                break
        self._settle(True)
        return self.events

    def close(self):
        """Ends the threads; False if one of them never returns."""
        return all([actor.close() for actor in self.actors])

    def _send_one(self):
        """Sends a step that was kept back of a session that is free."""
        for number, actor in enumerate(self.actors):
            while actor.skips and actor.kept_back:
                # Up to the end of the transaction, which is over.
                actor.skips = not _ends(actor.kept_back.pop(0)[0])
            if actor.kept_back and actor.event is None:
                sql, *name = actor.kept_back.pop(0)
                event = Event(number, sql, len(self.events), name="".join(name))
                self.events.append(event)
                actor.send(event)
                if actor.is_idle.wait(self.patience):
                    self._returned([actor])
                releases = (
                    _ends(sql) or not actor.is_open or actor.event or event.answer.failure
                )  # fmt: skip
                self._settle(releases)
                return True
        return False

    def _settle(self, releases):
        """Notes what has returned; after a step that may release others, waits for those."""
        progress = True
        while progress:
            patience = self.patience if releases else 0
            returned = [a for a in self.actors if a.event and a.is_idle.wait(patience)]
            self._returned(returned)
            # One that has waited may have let others go on.
            progress = releases = bool(returned)

    def _returned(self, actors):
        """Notes what these have returned; then those that failed roll back."""
        failed = []
        for actor in actors:
            event, actor.event = actor.event, None
            event.done, event.answer = len(self.events) - 1, actor.answer
            if event.sql.startswith("BEGIN"):
                actor.is_open = True
            elif _ends(event.sql):
                actor.is_open = False
            elif self.prompt and actor.is_open and event.answer.failure:
                failed.append(actor)
        for actor in failed:
            at = next((at for at, (sql, *_) in enumerate(actor.kept_back) if _ends(sql)), None)
            actor.skips = at is None
            actor.kept_back[: None if at is None else at + 1] = []
            event = Event(self.actors.index(actor), "ROLLBACK", len(self.events))
            self.events.append(event)
            actor.send(event)
            actor.is_idle.wait()
            self._returned([actor])


def _ends(sql):
    """Whether a statement ends a transaction."""
    return sql in ("COMMIT", "ROLLBACK")


def shown(events):
    """The record as lines of text."""
    lines = []
    for event in events:
        answer = event.answer
        if event.done is None:
            what = "never returns"
        elif answer.failure:
            what = f"{answer.failure.code}: {answer.failure.message}"
        else:
            what = answer.tag + (f" {answer.rows}" if answer.types else "")
        waits = f" (waits until {event.done})" if event.has_waited() else ""
        lines.append(f"{event.sent:2} session {event.session + 1}: {event.sql}   -- {what}{waits}")
    return lines
