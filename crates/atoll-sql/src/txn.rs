//! Transactions of statements: one for each statement by itself, or one that a session holds open
//! between `BEGIN` and `COMMIT`.
//!
//! A transaction of the facade belongs to the thread that began it, but a session may move between
//! threads. So an open transaction lives on its own thread, which receives changes one by one and
//! answers each. Dropping the session ends the thread, and that rolls back.
//!
//! `TXN-1`: an abort of a statement's own transaction is tried again from its start, never from the
//! middle. `TXN-2`: after an error an open transaction takes no further change, and its `COMMIT`
//! rolls back.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use atoll::machine::fork::Here;
use atoll::{Database, Transaction, TransactionOptions, TxnError, TxnResult};

use crate::error::{ApplyError, ChangeError, SqlError, SqlErrorKind};
use crate::interrupt::{self, Interrupt, NoAnswer};
use crate::settings::Choice;

/// Attempts before a statement fails because of conflicts.
const ATTEMPTS_MAX: u32 = 1000;
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// Runs a change as one transaction, and repeats it after an abort.
///
/// # Errors
/// Those of the change, and [`SqlErrorKind::Aborted`] when the attempts are used up.
pub(crate) fn run(
    db: &Database,
    durability: Choice,
    mut change: impl FnMut(&mut Transaction) -> Result<u64, ApplyError>,
) -> Result<u64, SqlError> {
    let options = TransactionOptions { durability, ..TransactionOptions::default() };
    let mut pause = Duration::from_micros(1);
    let mut last = String::new();
    for attempt in 0..ATTEMPTS_MAX {
        if attempt > 0 {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        let mut transaction = db.begin_with(&options)?;
        let failed = match change(&mut transaction) {
            Ok(rows) => match transaction.commit() {
                Ok(()) => return Ok(rows),
                Err(error) => ApplyError::from(error),
            },
            Err(error) => {
                transaction.rollback();
                error
            }
        };
        match failed {
            ApplyError::Abort(reason) => last = reason,
            ApplyError::Error(error) => return Err(error),
        }
    }
    Err(SqlError::new(
        SqlErrorKind::Aborted,
        format!("the statement was aborted {ATTEMPTS_MAX} times by others ({last}); run it again"),
    ))
}

/// The change of a statement, on its way to the thread of its transaction.
type Change = Box<dyn FnOnce(&mut Transaction) -> Result<u64, ApplyError> + Send>;

/// A change that is not a statement.
type Body = Box<dyn FnMut(&mut Transaction) -> TxnResult<u64> + Send>;

enum Request {
    Apply(Change),
    Run(Body),
    Commit(Choice),
}

type Reply = Result<u64, ChangeError>;

/// A transaction that a session holds open.
pub(crate) struct OpenTransaction {
    /// Its thread does not exist in a forked child.
    line: Here<Line>,
    failed: bool,
}

/// The thread of a transaction, and the way to it.
struct Line {
    /// `None` once the thread was told to end.
    requests: Option<Sender<Request>>,
    replies: Receiver<Reply>,
    thread: Option<JoinHandle<()>>,
}

impl OpenTransaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// Its thread cannot be started, or too many transactions are open.
    pub(crate) fn begin(db: &Database) -> Result<Self, SqlError> {
        let (requests, received) = channel();
        let (answers, replies) = channel();
        let db = db.clone();
        let thread = Builder::new()
            .name("atoll-sql transaction".to_owned())
            .spawn(move || serve(&db, &received, &answers))
            .map_err(|error| {
                let message = format!("no thread could be started for the transaction: {error}");
                SqlError::new(SqlErrorKind::Database, message)
            })?;
        let line = Line { requests: Some(requests), replies, thread: Some(thread) };
        line.reply()?;
        Ok(Self { line: Here::new(line), failed: false })
    }

    /// Applies a change and returns the number of rows that it touched.
    ///
    /// # Errors
    /// Those of the change; from then on, and after an abort, that the transaction has failed.
    pub(crate) fn apply<C>(&mut self, change: C, interrupt: &Interrupt) -> Result<u64, SqlError>
    where
        C: FnOnce(&mut Transaction, &Interrupt) -> Result<u64, ApplyError> + Send + 'static,
    {
        let helper = interrupt.for_helper();
        let change: Change = Box::new(move |transaction| change(transaction, &helper));
        self.ask(Request::Apply(change), interrupt).map_err(SqlError::from)
    }

    /// Makes a change that is not a statement, and returns the number of rows that it touched.
    ///
    /// # Errors
    /// As [`OpenTransaction::apply`].
    pub(crate) fn run(&mut self, body: Body) -> Reply {
        self.ask(Request::Run(body), &Interrupt::default())
    }

    fn ask(&mut self, request: Request, interrupt: &Interrupt) -> Reply {
        self.check()?;
        let reply = self.line.ask(request, interrupt);
        self.failed = reply.is_err();
        reply
    }

    /// Checks that the transaction still takes statements.
    ///
    /// # Errors
    /// An earlier statement of it failed.
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        if !self.failed {
            return Ok(());
        }
        Err(SqlError::new(
            SqlErrorKind::Aborted,
            "an earlier statement of this transaction failed, so it takes no further one",
        )
        .with_hint(Some("ROLLBACK, and begin again".to_owned())))
    }

    /// Notes that a statement of the transaction failed before it came this far.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Commits with the given durability; `false` if an earlier statement failed and the
    /// transaction was rolled back instead.
    ///
    /// # Errors
    /// The transaction was aborted at its end.
    pub(crate) fn commit(mut self, durability: Choice) -> Result<bool, SqlError> {
        if self.failed {
            return Ok(false);
        }
        self.ask(Request::Commit(durability), &Interrupt::default())?;
        Ok(true)
    }
}

impl Line {
    fn ask(&self, request: Request, interrupt: &Interrupt) -> Reply {
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send(request).map_err(|_| gone())?;
        match interrupt.wait(&self.replies) {
            Ok(reply) => reply,
            Err(NoAnswer::Gone) => Err(gone().into()),
            // The thread looks at the same between two rows, and answers.
            Err(NoAnswer::Cancelled) => {
                let _ = self.reply();
                Err(interrupt::cancelled().into())
            }
        }
    }

    fn reply(&self) -> Reply {
        self.replies.recv().map_err(|_| gone())?
    }
}

impl Drop for Line {
    /// Ends the thread, which rolls back what was not committed, and waits for it.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by itself; its transaction is rolled back.
            let _ = thread.join();
        }
    }
}

fn gone() -> SqlError {
    SqlError::new(SqlErrorKind::Database, "the transaction's thread has ended")
}

/// The life of a transaction's thread.
fn serve(db: &Database, requests: &Receiver<Request>, answers: &Sender<Reply>) {
    let mut transaction = match db.begin() {
        Ok(transaction) => {
            // The first answer is for `begin`; without a receiver the loop ends at once.
            let _ = answers.send(Ok(0));
            transaction
        }
        Err(error) => {
            let _ = answers.send(Err(error.into()));
            return;
        }
    };
    while let Ok(request) = requests.recv() {
        let reply = match request {
            Request::Apply(change) => {
                change(&mut transaction).map_err(|error| failure(error).into())
            }
            Request::Run(mut body) => body(&mut transaction).map_err(change_failure),
            Request::Commit(durability) => {
                transaction.set_durability(durability);
                let committed = transaction.commit().map(|()| 0);
                let result = committed.map_err(|error| failure(error.into()).into());
                // Without a receiver the answer has no use.
                let _ = answers.send(result);
                return;
            }
        };
        if answers.send(reply).is_err() {
            break;
        }
    }
    transaction.rollback();
}

fn change_failure(error: TxnError) -> ChangeError {
    match error {
        TxnError::Error(error) => error.into(),
        abort => failure(abort.into()).into(),
    }
}

fn failure(error: ApplyError) -> SqlError {
    match error {
        ApplyError::Error(error) => error,
        ApplyError::Abort(reason) => SqlError::new(
            SqlErrorKind::Aborted,
            format!("the transaction was aborted ({reason}); run it again from BEGIN"),
        ),
    }
}
