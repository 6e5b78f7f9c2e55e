//! What a server and its database do now, and what they have done since they began.
//!
//! Of what is not counted there is no number: the column is NULL, or missing. A session that is
//! none of a server, or is on a snapshot, finds the tables of what it does not have empty.

use atoll::Database;

use super::super::serving::{ClientState, SystemClient};
use super::super::{Around, oids};
use super::{Row, flag, number, oid, optional, owner, text};
use crate::coordination::advisory::{Key, Mode};
use crate::literal::Literal;

/// What is shown of the statements of others.
const HIDDEN: &str = "<insufficient privilege>";

fn instant(micros: Option<i64>) -> Literal {
    micros.map_or(Literal::Null, Literal::Instant)
}

fn count(value: u64) -> Literal {
    // A column of 64 bits with a sign.
    Literal::Integer(value.min(i64::MAX as u64).into())
}

fn clients(around: &Around) -> Vec<SystemClient> {
    around.serving.as_ref().map(|server| server.clients()).unwrap_or_default()
}

/// A database that counts; `None` on a snapshot.
fn of_database(around: &Around, rows: impl FnOnce(&Database) -> Vec<Row>) -> Vec<Row> {
    around.db.as_ref().map(rows).unwrap_or_default()
}

pub(super) fn activity(around: &Around) -> Vec<Row> {
    let locks = around.together.as_ref().map(|all| all.locks()).unwrap_or_default();
    let row = |client: SystemClient| {
        let waits = locks.iter().any(|(one, lock)| *one == client.number && !lock.is_held);
        let waits = waits && client.state == ClientState::Active;
        let mut row = vec![
            ("datid", oid(oids::DATABASE)),
            ("datname", text(&around.database)),
            ("pid", number(client.number)),
            ("leader_pid", Literal::Null),
            ("usesysid", owner(around, Some(&client.role))),
            ("usename", text(&client.role)),
            ("application_name", text(&client.application)),
            ("client_port", Literal::Null),
            ("backend_xid", Literal::Null),
            ("backend_xmin", Literal::Null),
            ("query_id", Literal::Null),
            ("backend_type", text("client backend")),
        ];
        if !around.is_also(&client.role) {
            row.push(("query", text(HIDDEN)));
            return row;
        }
        let (address, port) = match &client.address {
            Some((address, port)) => (text(address), number(*port)),
            None => (Literal::Null, number(-1)),
        };
        row.extend([
            ("client_addr", address),
            ("client_port", port),
            ("backend_start", instant(Some(client.began))),
            ("xact_start", instant(client.transaction_began)),
            ("query_start", instant(client.statement_began)),
            ("state_change", instant(Some(client.changed))),
            ("wait_event_type", optional(waits.then_some("Lock"))),
            ("wait_event", optional(waits.then_some("advisory"))),
            ("state", text(client.state.name())),
            ("query", text(&client.statement)),
        ]);
        row
    };
    clients(around).into_iter().map(row).collect()
}

pub(super) fn encryption(around: &Around) -> Vec<Row> {
    let row = |client: SystemClient| {
        vec![
            ("pid", number(client.number)),
            ("ssl", flag(client.is_encrypted)),
            ("bits", Literal::Null),
        ]
    };
    clients(around).into_iter().map(row).collect()
}

pub(super) fn statements(around: &Around) -> Vec<Row> {
    let Some(server) = &around.serving else { return Vec::new() };
    let row = |one: super::super::SystemStatement| {
        let is_seen = around.is_also(&one.role);
        vec![
            ("userid", owner(around, Some(&one.role))),
            ("dbid", oid(oids::DATABASE)),
            ("toplevel", flag(true)),
            ("queryid", if is_seen { number(number_of(&one.text)) } else { Literal::Null }),
            ("query", text(if is_seen { &one.text } else { HIDDEN })),
            ("calls", count(one.calls)),
            ("total_exec_time", Literal::Float(one.total_ms)),
            ("min_exec_time", Literal::Float(one.min_ms)),
            ("max_exec_time", Literal::Float(one.max_ms)),
            ("mean_exec_time", Literal::Float(one.total_ms / one.calls.max(1) as f64)),
            ("stddev_exec_time", Literal::Float(one.deviation_ms)),
            ("rows", count(one.rows)),
            ("errors", count(one.errors)),
        ]
    };
    server.statements().into_iter().map(row).collect()
}

/// The number of a text, which it has on every server: FNV-1a, 64 bits.
fn number_of(text: &str) -> i64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.cast_signed()
}

pub(super) fn databases(around: &Around) -> Vec<Row> {
    of_database(around, |db| {
        let accounting = db.accounting();
        let aborts = accounting.aborts.iter();
        let all: u64 = aborts.clone().map(|(_, count)| count).sum();
        vec![vec![
            ("datid", oid(oids::DATABASE)),
            ("datname", text(&around.database)),
            ("numbackends", number(clients(around).len() as i64)),
            ("xact_commit", count(accounting.commits)),
            ("xact_rollback", count(all)),
            ("deadlocks", Literal::Null),
            ("sessions", Literal::Null),
            ("stats_reset", instant(around.serving.as_ref().map(|server| server.began()))),
        ]]
    })
}

pub(super) fn locks(around: &Around) -> Vec<Row> {
    let locks = around.together.as_ref().map(|all| all.locks()).unwrap_or_default();
    let row = |(pid, lock): (i32, crate::coordination::advisory::Listed)| {
        // The two halves of one number, or two numbers.
        let (first, second, kind) = match lock.key {
            Key::One(key) => ((key >> 32) as u32, key as u32, 1),
            Key::Two(first, second) => (first.cast_unsigned(), second.cast_unsigned(), 2),
        };
        let mode = match lock.mode {
            Mode::Shared => "ShareLock",
            Mode::Exclusive => "ExclusiveLock",
        };
        vec![
            ("locktype", text("advisory")),
            ("database", oid(oids::DATABASE)),
            ("relation", Literal::Null),
            ("page", Literal::Null),
            ("tuple", Literal::Null),
            ("transactionid", Literal::Null),
            ("classid", oid(first)),
            ("objid", oid(second)),
            ("objsubid", number(kind)),
            ("pid", number(pid)),
            ("mode", text(mode)),
            ("granted", flag(lock.is_held)),
        ]
    };
    locks.into_iter().map(row).collect()
}

pub(super) fn aborts(around: &Around) -> Vec<Row> {
    of_database(around, |db| {
        let aborts = db.accounting().aborts.into_iter();
        aborts.map(|(reason, of)| vec![("reason", text(reason)), ("aborts", count(of))]).collect()
    })
}

pub(super) fn time(around: &Around) -> Vec<Row> {
    let row = |(component, ns): (&str, u64)| {
        vec![("component", text(component)), ("seconds", Literal::Float(ns as f64 / 1e9))]
    };
    of_database(around, |db| db.accounting().components_ns.into_iter().map(row).collect())
}

pub(super) fn memory(around: &Around) -> Vec<Row> {
    of_database(around, |db| {
        let (account, counters) = (db.memory(), db.counters());
        let parts = [
            ("tables", account.tables_bytes),
            ("kept", account.kept_bytes),
            ("free", account.free_bytes),
            ("headers", account.headers_bytes),
            ("indexes", account.indexes_bytes),
            ("heap", account.heap_bytes),
            ("heap_free", account.heap_free_bytes),
            ("process", account.process_bytes),
            ("store_committed", counters.memory_committed_bytes),
            ("store_limit", counters.memory_limit_bytes),
            ("copied_on_write", counters.bytes_copied_on_write),
        ];
        parts.map(|(part, bytes)| vec![("part", text(part)), ("bytes", count(bytes))]).into()
    })
}

pub(super) fn nodes(around: &Around) -> Vec<Row> {
    of_database(around, |db| {
        let row = |node: &atoll::machine::topology::Node| {
            let cpus: Vec<String> = node.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
            vec![
                ("node", number(node.id.0)),
                ("cpus", text(&cpus.join(","))),
                ("memory_bytes", count(node.memory_bytes)),
            ]
        };
        db.topology().nodes.iter().map(row).collect()
    })
}

pub(super) fn snapshots(around: &Around) -> Vec<Row> {
    of_database(around, |db| {
        let row = |one: atoll::SnapshotInfo| {
            vec![
                ("id", count(one.id)),
                ("pid", number(one.pid)),
                ("command", text(&one.command)),
                ("epoch", count(one.epoch)),
                ("age_seconds", Literal::Float(one.age_s)),
                ("bytes_shared", count(one.bytes_shared)),
                ("bytes_copied", count(one.bytes_copied)),
                ("bytes_kept", count(one.bytes_kept)),
                ("state", text(&one.state)),
            ]
        };
        db.snapshots().into_iter().map(row).collect()
    })
}

pub(super) fn named_snapshots(around: &Around) -> Vec<Row> {
    let all = around.serving.as_ref().map(|server| server.snapshots()).unwrap_or_default();
    let row = |one: super::super::NamedSnapshot| {
        vec![
            ("name", text(&one.name)),
            ("owner", text(&one.owner)),
            ("taken", instant(Some(one.taken))),
            ("expires", instant(Some(one.expires))),
        ]
    };
    all.into_iter().map(row).collect()
}

/// The logs; nothing of a database in memory.
pub(super) fn log(around: &Around) -> Vec<Row> {
    of_database(around, |db| {
        let row = |bytes| {
            vec![
                ("log_bytes", count(bytes)),
                ("flushes", count(db.flushes())),
                ("checkpoints", count(db.checkpoints())),
            ]
        };
        db.log_bytes().map(row).into_iter().collect()
    })
}

pub(super) fn health(around: &Around) -> Vec<Row> {
    of_database(around, |db| {
        let health = db.health();
        let parts = [
            ("log", health.logs.first().map(ToString::to_string)),
            ("space", health.space.map(|error| error.to_string())),
            ("files", health.files.map(|error| error.to_string())),
            ("checkpoint", health.checkpoint.map(|failure| failure.cause)),
            ("archive", health.archive.map(|error| error.to_string())),
            ("spill", health.spill),
        ];
        let row = |(part, message): (&str, Option<String>)| {
            vec![
                ("part", text(part)),
                ("failing", flag(message.is_some())),
                ("message", optional(message)),
            ]
        };
        parts.map(row).into()
    })
}
