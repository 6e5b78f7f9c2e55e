"""Forked children: the objects of their parent are refused, what they read stays, nothing hangs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import atolldb

PROGRAMS = Path(__file__).with_name("fork_programs.py")


def command(name, runtime_dir):
    # Python warns of forks of processes with threads, which these programs are about.
    return [sys.executable, "-W", "ignore::DeprecationWarning", str(PROGRAMS), name, str(runtime_dir)]


@pytest.mark.parametrize(
    "name",
    [
        "every_entry_is_refused",
        "a_child_of_a_child_is_refused_what_both_have_made",
        "a_child_attaches_derives_and_publishes",
        "forks_while_another_thread_commits",
        "a_query_runs_in_a_child_of_a_process_that_has_run_one",
        "what_a_child_reads_stays",
        "what_a_child_reads_of_another_process_stays",
        "a_child_that_calls_exec_keeps_nothing",
        "workers_are_refused_and_read",
        "processes_that_are_not_forked_from_here_attach",
        "a_child_ends_with_all_destructors",
    ],
)
def test_program(name, runtime_dir):
    ended = subprocess.run(
        command(name, runtime_dir), capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr


def test_a_name_is_free_when_its_owner_is_gone_though_a_child_lives_on(runtime_dir):
    owner = subprocess.Popen(
        command("owner_with_a_child_that_lives_on", runtime_dir),
        stdout=subprocess.PIPE,
        text=True,
    )
    child, pid = map(int, owner.stdout.readline().split())
    assert pid == owner.pid
    connection = atolldb.attach("board", runtime_dir)
    snapshot = connection.snapshot()
    owner.kill()
    owner.wait()
    try:
        os.kill(child, 0)
        with pytest.raises(atolldb.OwnerGone, match="gone"):
            atolldb.attach("board", runtime_dir)
        with pytest.raises(atolldb.OwnerGone, match="closed"):
            connection.snapshot()
        assert snapshot.sql("SELECT count(*) FROM points").fetchall() == [(20_000,)]
        with atolldb.create(memory_limit=64 << 20) as other:
            other.publish("board", runtime_dir)
            assert atolldb.attach("board", runtime_dir).owner_pid == os.getpid()
    finally:
        os.kill(child, signal.SIGKILL)
        owner.stdout.close()
