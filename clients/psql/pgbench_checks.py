"""Checks of pgbench: the tables that it makes, its scripts in all protocols, scripts of users."""

import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from programs import check, equal, has, print_version, run

CLIENTS, TRANSACTIONS = 16, 40


def ask(sql):
    return run("psql", "-XAtc", sql)[0].strip()


def initialise(*options):
    run("pgbench", "-i", "-q", *options)


def bench(*options, clients=CLIENTS, transactions=TRANSACTIONS):
    """Runs pgbench; all its transactions must be done, and none fail."""
    output, errors = run(
        *("pgbench", "-n", "-c", str(clients), "-j", "4", "-t", str(transactions), *options),
        seconds=120,
    )
    has("number of failed transactions: 0 (0.000%)", output)
    done = re.search(r"actually processed: (\d+)/(\d+)", output)
    assert done[1] == done[2], f"{done[0]}: {errors}"
    return output


def balance():
    """Every transaction of TPC-B has changed three balances by what the history says."""
    deltas = ask("SELECT coalesce(sum(delta), 0) FROM pgbench_history")
    for table, column in (("accounts", "a"), ("tellers", "t"), ("branches", "b")):
        equal(deltas, ask(f"SELECT sum({column}balance) FROM pgbench_{table}"))


def scripts_of_users():
    with TemporaryDirectory() as folder:
        path = Path(folder, "script")

        def user(name, text, *options):
            def body():
                path.write_text(text)
                bench("-f", str(path), *options)

            check(name, body)

        user(
            "script with gset and if",
            r"""
            \set id random_zipfian(1, 100000, 1.1)
            SELECT abalance FROM pgbench_accounts WHERE aid = :id \gset
            \if :abalance > 0
            UPDATE pgbench_accounts SET abalance = abalance - 1 WHERE aid = :id;
            \else
            UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :id;
            \endif
            """,
        )
        for mode in ("extended", "prepared"):
            user(
                f"script with a pipeline, {mode}",
                r"""
                \set id random(1, 100000)
                \startpipeline
                BEGIN;
                UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :id;
                SELECT abalance FROM pgbench_accounts WHERE aid = :id;
                END;
                \endpipeline
                """,
                "-M",
                mode,
            )
        user(
            "script with joins",
            r"""
            \set id random(1, 100000)
            SELECT b.bid, count(*) FROM pgbench_branches b JOIN pgbench_tellers t USING (bid)
            GROUP BY b.bid ORDER BY 1;
            SELECT a.aid, b.bbalance FROM pgbench_accounts a JOIN pgbench_branches b USING (bid)
            WHERE a.aid = :id FOR UPDATE OF a;
            """,
        )
        user(
            "serializable script that is tried again",
            r"""
            \set id random(1, 10)
            BEGIN ISOLATION LEVEL SERIALIZABLE;
            SELECT abalance FROM pgbench_accounts WHERE aid = :id;
            UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :id;
            END;
            """,
            "--max-tries=1000",
        )


if __name__ == "__main__":
    print_version("pgbench")
    check("tables with rows of the client", lambda: initialise("-s", "1"))
    check(
        "number of accounts", lambda: equal("100000", ask("SELECT count(*) FROM pgbench_accounts"))
    )
    check("tables with foreign keys", lambda: initialise("-s", "1", "--foreign-keys"))
    check("tables with rows of the server", lambda: initialise("-s", "1", "-I", "dtGvp"))
    check("unlogged tables", lambda: initialise("-s", "1", "--unlogged-tables"))
    check(
        "tables with a fillfactor, in partitions",
        lambda: initialise(*("-s", "1", "-F", "90", "--partitions=2")),
    )
    check("tables of the scripts", lambda: initialise("-s", "2"))
    for name in ("tpcb-like", "simple-update", "select-only"):
        for protocol in ("simple", "extended", "prepared"):
            check(f"{name}, {protocol}", partial(bench, "-b", name, "-M", protocol))
        if name == "tpcb-like":
            check("balances", balance)
    check("connection for each transaction", lambda: bench("-C", "-S", transactions=5))
    check("report of each statement", lambda: has("END;", bench("-r")))
    check("mix of scripts", lambda: bench("-b", "se@8", "-b", "si@2"))
    check(
        "vacuum before the run", lambda: run(*("pgbench", "-c", "2", "-t", "2", "-v"), seconds=60)
    )
    scripts_of_users()
