//! The functions of advisory locks, of `NOTIFY` and of waiting, for the session of the running
//! statement (`CONTEXT-1`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::kind::Kind::{Bool, Float64, Int32, Int64, Interval, Text};
use super::{Function, Gives, Nulls, Overload, Run, strict};
use crate::coordination::advisory::{Key, Mode};
use crate::coordination::member::Scope;
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::PERIOD;
use crate::literal::Literal;
use crate::sequence::context::{self, Context};

macro_rules! locks {
    ($($name:literal $gives:ident $call:expr;)*) => {
        &[$(Function {
            name: $name,
            overloads: &[
                strict(&[Int64], $gives, |arguments| $call(key(arguments)?)),
                strict(&[Int32, Int32], $gives, |arguments| $call(key(arguments)?)),
            ],
        }),*]
    };
}

pub(super) const LOCKS: &[Function] = locks! {
    "pg_advisory_lock" Text |key| waiting(key, Mode::Exclusive, Scope::Session);
    "pg_advisory_lock_shared" Text |key| waiting(key, Mode::Shared, Scope::Session);
    "pg_advisory_xact_lock" Text |key| waiting(key, Mode::Exclusive, Scope::Transaction);
    "pg_advisory_xact_lock_shared" Text |key| waiting(key, Mode::Shared, Scope::Transaction);
    "pg_try_advisory_lock" Bool |key| trying(key, Mode::Exclusive, Scope::Session);
    "pg_try_advisory_lock_shared" Bool |key| trying(key, Mode::Shared, Scope::Session);
    "pg_try_advisory_xact_lock" Bool |key| trying(key, Mode::Exclusive, Scope::Transaction);
    "pg_try_advisory_xact_lock_shared" Bool |key| trying(key, Mode::Shared, Scope::Transaction);
    "pg_advisory_unlock" Bool |key| unlock(key, Mode::Exclusive);
    "pg_advisory_unlock_shared" Bool |key| unlock(key, Mode::Shared);
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "pg_sleep", overloads: &[strict(&[Float64], Text, sleep)] },
    Function { name: "pg_sleep_for", overloads: &[strict(&[Interval], Text, sleep)] },
    Function { name: "pg_advisory_unlock_all", overloads: &[plain(&[], Text, unlock_all)] },
    Function { name: "pg_notify", overloads: &[plain(&[Text, Text], Text, notify)] },
];

const fn plain(
    takes: &'static [super::kind::Kind],
    gives: super::kind::Kind,
    run: fn(&[Literal]) -> Result<Literal, SqlError>,
) -> Overload {
    let (gives, run) = (Gives::Kind(gives), Run::Rows(run));
    Overload { takes, rest: None, gives, nulls: Nulls::See, run }
}

/// Whether a function is one of these.
pub(super) fn has(name: &str) -> bool {
    LOCKS.iter().chain(FUNCTIONS).any(|function| function.name == name)
}

/// The context, for a function that may wait or changes what the session has.
fn context() -> Result<Arc<Context>, SqlError> {
    let message = "advisory locks and notifications are for sessions on a database";
    let none = || SqlError::new(SqlErrorKind::Unsupported, message);
    let context = context::current().filter(|context| context.member.is_some()).ok_or_else(none)?;
    if context::is_held() {
        let message = "advisory locks and notifications are not supported in this place";
        return Err(SqlError::unsupported(message));
    }
    Ok(context)
}

fn key(arguments: &[Literal]) -> Result<Key, SqlError> {
    let wrong =
        || SqlError::new(SqlErrorKind::Type, "an advisory lock is a bigint or two integers");
    let numbers: Vec<i128> = arguments
        .iter()
        .filter_map(|one| match one {
            Literal::Integer(number) => Some(*number),
            _ => None,
        })
        .collect();
    match numbers.as_slice() {
        [one] => i64::try_from(*one).map(Key::One).map_err(|_| wrong()),
        [one, two] => match (i32::try_from(*one), i32::try_from(*two)) {
            (Ok(one), Ok(two)) => Ok(Key::Two(one, two)),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// The result of a function that has none.
fn nothing() -> Literal {
    Literal::Text(String::new())
}

/// Waits for something. On a thread of the engine, which runs the queries of all sessions, another
/// thread goes on meanwhile.
fn aside<R>(wait: impl FnOnce() -> R) -> R {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

fn waiting(key: Key, mode: Mode, scope: Scope) -> Result<Literal, SqlError> {
    let context = context()?;
    if let Some(member) = &context.member {
        aside(|| member.lock(key, mode, scope, Some(&context.interrupt())))?;
    }
    Ok(nothing())
}

fn trying(key: Key, mode: Mode, scope: Scope) -> Result<Literal, SqlError> {
    let context = context()?;
    let has_it = context.member.as_ref().map(|member| member.lock(key, mode, scope, None));
    Ok(Literal::Bool(has_it.transpose()?.unwrap_or(false)))
}

fn unlock(key: Key, mode: Mode) -> Result<Literal, SqlError> {
    let context = context()?;
    let had_it = context.member.as_ref().is_some_and(|member| member.unlock(key, mode));
    Ok(Literal::Bool(had_it))
}

fn unlock_all(_: &[Literal]) -> Result<Literal, SqlError> {
    let context = context()?;
    context.member.iter().for_each(|member| member.unlock_all());
    Ok(nothing())
}

/// Waits for so many seconds, or for an interval.
fn sleep(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let seconds = match arguments.first() {
        Some(Literal::Float(seconds)) => *seconds,
        Some(Literal::Interval(interval)) => interval.span() as f64 / 1e9,
        _ => 0.0,
    };
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    let (began, interrupt) = (Instant::now(), context()?.interrupt());
    loop {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(nothing());
        }
        aside(|| std::thread::sleep(left.min(PERIOD)));
        interrupt.check_now()?;
    }
}

fn notify(arguments: &[Literal]) -> Result<Literal, SqlError> {
    let text = |at: usize| match arguments.get(at) {
        Some(Literal::Text(text)) => text.as_str(),
        _ => "",
    };
    let context = context()?;
    let notified = context.member.as_ref().map(|member| member.notify(text(0), text(1)));
    notified.transpose()?;
    Ok(nothing())
}
