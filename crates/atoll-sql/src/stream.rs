//! The rows of a query, as its threads deliver them.
//!
//! - `STREAM-1`: a query that is read slowly waits: it computes no more than a few batches before
//!   its reader takes them ([`Ahead::Few`]). It keeps its snapshot meanwhile, which ends by the
//!   limits of the database as any other.
//! - `STREAM-2`: a query ends when its stream is dropped.
//! - `STREAM-3`: a stream belongs to one process; a forked child cannot read it, and drops nothing.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use atoll::Snapshot;
use atoll::machine::fork::Here;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::{self, Interrupt, NoAnswer, Question};
use crate::limits::{Counted, Ledger, QueryMemory};
use crate::result::QueryResult;
use crate::{output_names, query_error};

/// Batches that a query computes ahead of its reader.
const FEW: usize = 2;

/// How far a query runs ahead of its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    Few,
    /// The reader keeps all rows.
    All,
}

/// A query that can run.
pub(crate) struct Work {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) snapshot: Option<Snapshot>,
    /// Set when it is to end.
    pub(crate) flag: Arc<AtomicBool>,
}

/// The outcome of a statement: the batches of its rows, in order, as they come.
///
/// The rows of a long query are computed while they are read. They are those of one snapshot, which
/// is kept until the stream, and all batches of it, are dropped. A stream ends with its first
/// error; the rows before it are rows of the query.
pub struct QueryStream {
    schema: SchemaRef,
    /// Of a change: the command tag, and how many rows it changed.
    change: Option<(String, u64)>,
    /// How many rows there are, if that is known before they are read.
    count: Option<usize>,
    source: Here<Source>,
}

enum Source {
    Running(Running),
    /// The rows that are left of a result, and its memory until they are read.
    Ready {
        batches: std::vec::IntoIter<RecordBatch>,
        _memory: Option<QueryMemory>,
    },
    Ended,
}

/// A query, which ends when this is dropped.
struct Running {
    messages: Receiver<Message>,
    shared: Arc<Shared>,
    interrupt: Interrupt,
    task: AbortHandle,
    flag: Arc<AtomicBool>,
    /// When to ask next whether it is to end, though batches come without a wait.
    ask_at: Instant,
    /// The memory of the batch that the reader has.
    read: Option<Counted>,
    ahead: Ahead,
}

/// What the query and its reader use.
struct Shared {
    ledger: Mutex<Ledger>,
    /// Batches that may be computed.
    room: Semaphore,
}

enum Message {
    Batch(RecordBatch, Counted),
    End(Result<(), SqlError>),
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Nothing under the lock panics halfway through a change.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if self.ahead == Ahead::Few
            && let Some(read) = self.read.take()
        {
            self.shared.ledger().release(read);
            self.shared.room.add_permits(1);
        }
        let now = Instant::now();
        if now >= self.ask_at {
            self.ask_at = now + interrupt::PERIOD;
            self.interrupt.check_now()?;
        }
        let error = match self.interrupt.wait(&self.messages) {
            Ok(Message::Batch(batch, counted)) => {
                self.read = Some(counted);
                return Ok(Some(batch));
            }
            Ok(Message::End(Ok(()))) => return Ok(None),
            Ok(Message::End(Err(error))) => error,
            Err(NoAnswer::Gone) => query_error::fault(),
            Err(NoAnswer::Cancelled) => self.interrupt.error(),
        };
        // A thread of the query that has noticed does not know why.
        let is_cancelled = error.kind() == SqlErrorKind::Cancelled;
        Err(if is_cancelled { self.interrupt.error() } else { error })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.flag.store(true, Ordering::Relaxed);
        self.shared.room.close();
        self.task.abort();
    }
}

impl QueryStream {
    /// Starts a query on these threads.
    pub(crate) fn start(threads: &Handle, work: Work, interrupt: Interrupt, ahead: Ahead) -> Self {
        let schema = output_names::shown_schema(&work.plan.schema());
        let (sender, messages) = channel();
        let room = Semaphore::new(match ahead {
            Ahead::Few => FEW,
            Ahead::All => Semaphore::MAX_PERMITS,
        });
        let ledger = Mutex::new(Ledger::new(work.snapshot.clone(), &work.context));
        let shared = Arc::new(Shared { ledger, room });
        let flag = Arc::clone(&work.flag);
        let task = threads.spawn(deliver(work, Arc::clone(&shared), sender)).abort_handle();
        let (ask_at, read) = (Instant::now() + interrupt::PERIOD, None);
        let running = Running { messages, shared, interrupt, task, flag, ask_at, read, ahead };
        Self { schema, change: None, count: None, source: Here::new(Source::Running(running)) }
    }

    /// The rows of a result.
    pub fn of_result(rows: QueryResult) -> Self {
        let change = rows.change().map(|(tag, rows)| (tag.to_owned(), rows));
        let (schema, _memory) = (rows.schema(), rows.memory());
        let count = Some(rows.row_count());
        let source = Source::Ready { batches: rows.into_batches().into_iter(), _memory };
        Self { schema, change, count, source: Here::new(source) }
    }

    /// The outcome of a statement that returns no rows.
    pub(crate) fn of_change(tag: String, rows: u64) -> Self {
        let schema = Arc::new(Schema::empty());
        Self { schema, change: Some((tag, rows)), count: Some(0), source: Here::new(Source::Ended) }
    }

    /// The columns; none of a statement that returns no rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The command tag of a statement that is no query, and how many rows it touched.
    pub fn change(&self) -> Option<(&str, u64)> {
        self.change.as_ref().map(|(tag, rows)| (tag.as_str(), *rows))
    }

    /// How many rows the statement returns in all, if that is known before they are read.
    pub fn row_count(&self) -> Option<usize> {
        self.count
    }

    /// Sets the question that tells whether the query is to end, as
    /// [`crate::SqlSession::set_interrupt`] does, for what is read from now on.
    pub fn set_interrupt(&mut self, question: Option<Arc<Question>>) {
        if let Source::Running(running) = &mut *self.source {
            running.interrupt = running.interrupt.with_question(question);
        }
    }

    /// The next batch of rows; `None` behind the last.
    ///
    /// # Errors
    /// Those of the query, which then has ended; a forked child asks for rows of its parent.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if !self.source.mark().is_here() {
            let message = "the rows of this query come from the parent of this forked process";
            return Err(SqlError::new(SqlErrorKind::ForkedChild, message)
                .with_hint(Some("run the query again here".to_owned())));
        }
        let next = match &mut *self.source {
            Source::Running(running) => running.next(),
            Source::Ready { batches, .. } => Ok(batches.next()),
            Source::Ended => Ok(None),
        };
        if !matches!(next, Ok(Some(_))) {
            *self.source = Source::Ended;
        }
        next
    }

    /// Reads all rows.
    pub(crate) fn collect(mut self) -> Result<QueryResult, SqlError> {
        let mut batches = Vec::new();
        while let Source::Running(running) = &mut *self.source {
            match running.next()? {
                Some(batch) => batches.push(batch),
                None => {
                    let memory = running.shared.ledger().close();
                    return Ok(QueryResult::of_batches(self.schema, batches, memory));
                }
            }
        }
        Err(query_error::fault())
    }
}

impl Iterator for QueryStream {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Computes the rows of a query and sends them to its reader.
async fn deliver(work: Work, shared: Arc<Shared>, sender: Sender<Message>) {
    let end = send_rows(work, &shared, &sender).await;
    drop(shared);
    // A query that was ended has no reader any more.
    let _ = sender.send(Message::End(end));
}

async fn send_rows(work: Work, shared: &Shared, sender: &Sender<Message>) -> Result<(), SqlError> {
    let mut stream = execute_stream(work.plan, work.context)?;
    loop {
        // A stream that was dropped closes the semaphore.
        let Ok(permit) = shared.room.acquire().await else { return Ok(()) };
        permit.forget();
        let Some(batch) = stream.next().await else { return Ok(()) };
        let batch = batch?;
        let counted = shared.ledger().add(&batch)?;
        let batch = output_names::shown_batch(batch)?;
        if sender.send(Message::Batch(batch, counted)).is_err() {
            return Ok(());
        }
    }
}
