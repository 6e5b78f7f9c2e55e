"""Programs that fork, one a function: `python fork_programs.py NAME RUNTIME_DIR` runs one.

Each has a process of its own, since what they are about is all of a process: its threads, its
descriptors and how it ends. A program that ends well has found what it looked for.
"""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import numpy
import pyarrow

import atolldb

ROWS = 20_000
RUNTIME_DIR = sys.argv[2] if len(sys.argv) > 2 else None
#: A child that hangs is ended after so many seconds, which fails its program.
HANGS_AFTER_S = 60


def fork(body):
    """Runs `body` in a forked child; returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(HANGS_AFTER_S)
    try:
        body()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def succeeds(pid):
    """Waits for a child that must end well."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the child ended with {status}"


def refused(call, *arguments, **options):
    """That a call is refused because this is a forked child."""
    try:
        call(*arguments, **options)
    except atolldb.ForkedChild as error:
        assert "forked" in str(error), error
        return
    raise AssertionError(f"{call} was not refused")


def eventually(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


def board():
    """A database with a table of `ROWS` rows."""
    db = atolldb.create(memory_limit=256 << 20)
    ids = numpy.arange(ROWS)
    notes = [None if i % 7 == 0 else f"the note of row number {i}" for i in range(ROWS)]
    columns = {"id": ids, "x": ids * 0.5, "note": notes}
    db.create_table("points", pyarrow.table(columns), primary_key="id")
    return db


def check(snapshot, factor=0.5):
    """That a snapshot shows all rows of `board`, in every way to read it."""
    column = snapshot["points"]["x"]
    assert (column.to_numpy(copy=True) == numpy.arange(ROWS) * factor).all()
    table = snapshot["points"].to_arrow()
    assert table["note"].null_count == len(range(0, ROWS, 7))
    assert table["note"][ROWS - 1].as_py() in (None, f"the note of row number {ROWS - 1}")
    query = "SELECT count(*), sum(x), count(note) FROM points"
    expected = (ROWS, sum(range(ROWS)) * factor, ROWS - table["note"].null_count)
    assert snapshot.sql(query).fetchall() == [expected]


def double(db):
    """Changes every row, so that what snapshots show is copied, and freed when it may be."""
    db.sql("BEGIN")
    for at in range(ROWS):
        db.sql(f"UPDATE points SET x = {at}.0 WHERE id = {at}")
    db.sql("COMMIT")


def every_entry_is_refused():
    db = board()
    db.publish("board", RUNTIME_DIR)
    session = db.session()
    session.sql("BEGIN")
    session.insert("points", {"id": [-1], "x": [0.0]})
    connection = atolldb.attach("board", RUNTIME_DIR)
    db.sql("SELECT count(*) FROM points")
    snapshots = [db.snapshot(), connection.snapshot()]

    def child():
        row = {"id": [ROWS], "x": [1.0]}
        refused(db.sql, "SELECT 1")
        refused(db.sql, f"INSERT INTO points VALUES ({ROWS}, 1, 'x')")
        refused(db.insert, "points", row)
        refused(db.create_table, "other", row, primary_key="id")
        for call in (db.snapshot, db.snapshots, db.session):
            refused(call)
        refused(db.table, "points")
        refused(db.__getitem__, "points")
        refused(db.publish, "other", RUNTIME_DIR)
        for name in ("name", "tables", "bases", "counters"):
            refused(getattr, db, name)
        refused(session.sql, "COMMIT")
        refused(session.insert, "points", row)
        refused(getattr, session, "in_transaction")
        refused(connection.snapshot)
        refused(connection.snapshots)
        for snapshot in snapshots:
            refused(snapshot.refresh)
            check(snapshot)
        assert "parent" in repr(db)
        for thing in (session, connection, db):
            thing.close()

    succeeds(fork(child))
    session.insert("points", {"id": [-2], "x": [0.0]})
    session.sql("COMMIT")
    assert connection.snapshot().sql("SELECT count(*) FROM points").fetchall() == [(ROWS + 2,)]


def a_child_of_a_child_is_refused_what_both_have_made():
    db = board()

    def child():
        own = board()
        own.sql("SELECT count(*) FROM points")

        def grandchild():
            refused(db.sql, "SELECT 1")
            refused(own.sql, "SELECT 1")
            check(board().snapshot())

        succeeds(fork(grandchild))
        own.insert("points", {"id": [ROWS], "x": [1.0]})
        assert own.sql("SELECT count(*) FROM points").fetchall() == [(ROWS + 1,)]

    succeeds(fork(child))
    check(db.snapshot())


def a_child_attaches_derives_and_publishes():
    db = board()
    db.publish("board", RUNTIME_DIR)

    def child():
        with atolldb.attach("board", RUNTIME_DIR) as connection:
            snapshot = connection.snapshot()
            check(snapshot)
            derived = snapshot.derive()
            derived.create_table("more", {"id": [1]}, primary_key="id")
            derived.publish("more", RUNTIME_DIR)
            assert atolldb.attach("more", RUNTIME_DIR).snapshot().tables == ["more", "points"]

    succeeds(fork(child))
    eventually(lambda: db.snapshots() == [])


def forks_while_another_thread_commits():
    db = board()
    db.publish("board", RUNTIME_DIR)
    snapshot = db.snapshot()
    attached = atolldb.attach("board", RUNTIME_DIR).snapshot()
    over = threading.Event()
    done = []

    def commit():
        while not over.is_set():
            at = ROWS + len(done)
            if len(done) < ROWS:
                db.insert("points", {"id": [at], "x": [float(at)], "note": [f"new {at}"]})
                done.append(at)
            else:
                db.sql(f"UPDATE points SET note = 'changed' WHERE id = {ROWS}")

    def look():
        while not over.is_set():
            check(snapshot)

    def child():
        refused(db.sql, f"INSERT INTO points VALUES ({10 * ROWS}, 1, 'x')")
        refused(db.insert, "points", {"id": [10 * ROWS], "x": [1.0]})
        check(snapshot)
        check(attached)
        db.close()

    threads = [threading.Thread(target=run) for run in (commit, look)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        succeeds(fork(child))
    over.set()
    for thread in threads:
        thread.join()
    count = db.sql("SELECT count(*), sum(x), count(note) FROM points").fetchall()
    notes = ROWS - len(range(0, ROWS, 7)) + len(done)
    assert count == [(ROWS + len(done), sum(range(ROWS)) * 0.5 + sum(done), notes)]
    assert db.snapshot()["points"].to_arrow().num_rows == ROWS + len(done)


def a_query_runs_in_a_child_of_a_process_that_has_run_one():
    db = board()
    db.publish("board", RUNTIME_DIR)
    local, attached = db.snapshot(), atolldb.attach("board", RUNTIME_DIR).snapshot()
    query = "SELECT count(*) FROM points WHERE x > 10"
    before = [snapshot.sql(query) for snapshot in (local, attached)]
    column = attached["points"]["x"].to_numpy()

    def child():
        assert [result.fetchall() for result in before] == [[(ROWS - 21,)]] * 2
        for snapshot in (local, attached):
            assert snapshot.sql(query).fetchall() == [(ROWS - 21,)]
        assert column[-1] == (ROWS - 1) * 0.5
        threads = [threading.Thread(target=check, args=[attached]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        succeeds(fork(lambda: check(local)))

    for _ in range(3):
        succeeds(fork(child))
    assert local.sql(query).fetchall() == [(ROWS - 21,)]


def what_a_child_reads_stays(attached=False):
    db = board()
    db.publish("board", RUNTIME_DIR)
    snapshot = atolldb.attach("board", RUNTIME_DIR).snapshot() if attached else db.snapshot()
    column, table = snapshot["points"]["x"].to_numpy(), snapshot["points"].to_arrow()
    (ready, tell_ready), (go, tell_go) = os.pipe(), os.pipe()

    def child():
        os.write(tell_ready, b"!")
        os.read(go, 1)
        assert (column == numpy.arange(ROWS) * 0.5).all()
        assert table["x"].to_numpy()[1] == 0.5
        check(snapshot)

    pid = fork(child)
    os.read(ready, 1)
    snapshot.release()
    del column, table
    double(db)
    double(db)
    assert len(db.snapshots()) == 1
    os.write(tell_go, b"!")
    succeeds(pid)
    eventually(lambda: db.snapshots() == [])
    check(db.snapshot(), factor=1)


def what_a_child_reads_of_another_process_stays():
    what_a_child_reads_stays(attached=True)


def a_child_that_calls_exec_keeps_nothing():
    db = board()
    db.publish("board", RUNTIME_DIR)
    snapshot, attached = db.snapshot(), atolldb.attach("board", RUNTIME_DIR).snapshot()
    kept = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")}
    assert any("memfd" in path for path in kept), kept
    names = "import os; print([os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir" \
        "('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{fd}')])"
    listed = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True)
    assert "memfd" not in listed.stdout and "board.lock" not in listed.stdout, listed.stdout
    pid = os.fork()
    if pid == 0:
        os.execl("/bin/sleep", "sleep", "60")
    # With a function to be called first, Python forks without any handler of its own.
    other = subprocess.Popen(["/bin/sleep", "60"], preexec_fn=lambda: None)
    del snapshot, attached
    eventually(lambda: db.snapshots() == [])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    other.kill()
    other.wait()


def insert_row(at):
    """What workers do; `shared` came over by the fork."""
    refused(shared.insert, "points", {"id": [at], "x": [1.0]})
    refused(shared.sql, f"INSERT INTO points VALUES ({at}, 1, 'x')")
    check(shared_snapshot)
    return os.getpid()


def workers_are_refused_and_read():
    global shared, shared_snapshot
    shared = board()
    shared_snapshot = shared.snapshot()
    shared.sql("SELECT 1")
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert os.getpid() not in pool.map(insert_row, range(ROWS, ROWS + 8))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert os.getpid() not in list(pool.map(insert_row, range(ROWS, ROWS + 8)))
    process = context.Process(target=insert_row, args=[ROWS])
    process.start()
    process.join()
    assert process.exitcode == 0
    check(shared.snapshot())


def spawned(name, runtime_dir, count):
    with atolldb.attach(name, runtime_dir).snapshot() as snapshot:
        count.value = snapshot.sql("SELECT count(*) FROM points").fetchall()[0][0]


def processes_that_are_not_forked_from_here_attach():
    db = board()
    db.publish("board", RUNTIME_DIR)
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        count = context.Value("i", 0)
        process = context.Process(target=spawned, args=["board", RUNTIME_DIR, count])
        process.start()
        process.join()
        assert (process.exitcode, count.value) == (0, ROWS), method


def a_child_ends_with_all_destructors():
    db = board()
    db.publish("board", RUNTIME_DIR)
    session = db.session()
    session.sql("BEGIN")
    session.insert("points", {"id": [ROWS], "x": [1.0]})
    db.sql("SELECT count(*) FROM points")
    kept = [db.snapshot(), atolldb.attach("board", RUNTIME_DIR)]
    kept += [kept[1].snapshot(), kept[0].sql("SELECT * FROM points"), kept[0].derive()]
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            signal.alarm(HANGS_AFTER_S)
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    # The name, the sessions and what is open in them are as they were.
    assert atolldb.attach("board", RUNTIME_DIR).owner_pid == os.getpid()
    session.sql("COMMIT")
    assert db.sql("SELECT count(*) FROM points").fetchall() == [(ROWS + 1,)]


def owner_with_a_child_that_lives_on():
    """Says the child's process id, and waits to be killed."""
    db = board()
    db.publish("board", RUNTIME_DIR)
    db.sql("SELECT 1")
    connection = atolldb.attach("board", RUNTIME_DIR)
    pid = os.fork()
    if pid == 0:
        signal.alarm(HANGS_AFTER_S)
        signal.pause()
    print(pid, connection.owner_pid, flush=True)
    signal.pause()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
