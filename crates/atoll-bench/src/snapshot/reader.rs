//! The reading process: another process of the same program, which attaches by name.
//!
//! It receives commands as lines of JSON and answers each with one line. It samples a snapshot when
//! it takes it and again when it releases it; if the samples differ, the answer is an error. It
//! ends when its input ends, which releases everything that it holds.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use atoll::{Attachment, Snapshot, SnapshotTable};
use serde::{Deserialize, Serialize};

use super::rows::{COUNTER, FIXED, TABLE};
use crate::error::BenchError;
use crate::keys::Random;

/// An environment variable that makes a process the reader.
const ASKED: &str = "ATOLL_BENCH_READER";
/// Segments of a snapshot that are sampled.
const SAMPLED: usize = 2;

/// A command for the reader.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Attach { name: String, runtime_dir: Option<PathBuf> },
    Take,
    GiveUp,
    Sums,
    Receive { socket: PathBuf, bytes: u64 },
}

/// An answer of the reader.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Attached { ns: u64 },
    Taken(Taken),
    GivenUp { bytes_patched: u64 },
    Sums(Sums),
    Received { bytes: u64 },
    Failed(String),
}

/// A snapshot that the reader took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Taken {
    /// Nanoseconds that the owner needed.
    pub take_ns: u64,
    /// Nanoseconds until it could be used in the reader.
    pub attach_ns: u64,
    /// Bytes that the reader copied for the snapshot before, because a transaction was open at its
    /// cut.
    pub bytes_patched_before: u64,
}

/// The sums over a whole snapshot.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Sums {
    /// Rows present.
    pub rows: u64,
    /// Sum of the counters.
    pub counter: i64,
    /// Sums of two columns that never change.
    pub fixed: [i64; 2],
}

/// Becomes the reading process and does not return, if this process was started as one. A program
/// that calls [`super::run`] must call this first in `main`: the benchmark starts that program
/// again with `ATOLL_BENCH_READER` set in its environment.
pub fn reader_main_if_asked() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    let mut state = State { random: Random::new(1), attachment: None, held: None };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let order = serde_json::from_str(&line).map_err(|error| error.to_string());
        let answer = order.and_then(|order| state.obey(order)).unwrap_or_else(Answer::Failed);
        let Ok(text) = serde_json::to_string(&answer) else { break };
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    drop(state);
    std::process::exit(0);
}

struct State {
    random: Random,
    attachment: Option<Attachment>,
    held: Option<Held>,
}

struct Held {
    snapshot: Snapshot,
    table: SnapshotTable,
    sample: Vec<usize>,
    sum: i64,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn sum_of(table: &SnapshotTable, segment: usize, column: usize) -> Result<i64, String> {
    let segment = table.segment(segment).map_err(text)?;
    let array = segment.array(column).map_err(text)?;
    let values = array.as_primitive::<Int64Type>().values();
    Ok(values.iter().fold(0, |sum, value| value.wrapping_add(sum)))
}

fn sum_over(
    table: &SnapshotTable,
    segments: impl IntoIterator<Item = usize>,
    column: usize,
) -> Result<i64, String> {
    let mut segments = segments.into_iter();
    segments.try_fold(0i64, |sum, at| Ok(sum.wrapping_add(sum_of(table, at, column)?)))
}

impl Held {
    fn new(snapshot: Snapshot, random: &mut Random) -> Result<Self, String> {
        let table = snapshot.table(TABLE).map_err(text)?;
        let segments = table.segment_count() as u64;
        let sample: Vec<usize> = (0..SAMPLED).map(|_| random.below(segments) as usize).collect();
        let sum = sum_over(&table, sample.iter().copied(), COUNTER)?;
        Ok(Self { snapshot, table, sample, sum })
    }

    /// Releases the snapshot; returns the bytes that were copied here because a transaction was
    /// open at the cut.
    fn give_up(self) -> Result<u64, String> {
        let again = sum_over(&self.table, self.sample.iter().copied(), COUNTER)?;
        if again != self.sum {
            let (segments, sum) = (&self.sample, self.sum);
            return Err(format!("a snapshot changed: segments {segments:?}: {sum}, then {again}"));
        }
        Ok(self.snapshot.bytes_patched())
    }
}

impl State {
    fn obey(&mut self, order: Order) -> Result<Answer, String> {
        match order {
            Order::Attach { name, runtime_dir } => {
                let begin = Instant::now();
                let attachment = atoll::attach(&name, runtime_dir.as_deref()).map_err(text)?;
                drop(attachment.snapshot().map_err(text)?);
                self.attachment = Some(attachment);
                Ok(Answer::Attached { ns: begin.elapsed().as_nanos() as u64 })
            }
            Order::Take => {
                let attachment = self.attachment.as_ref().ok_or("not attached")?;
                let snapshot = attachment.snapshot().map_err(text)?;
                let (take_ns, attach_ns) = (snapshot.take_ns(), snapshot.attach_ns());
                let held = Held::new(snapshot, &mut self.random)?;
                let before = self.held.replace(held);
                let bytes_patched_before = before.map_or(Ok(0), Held::give_up)?;
                Ok(Answer::Taken(Taken { take_ns, attach_ns, bytes_patched_before }))
            }
            Order::GiveUp => {
                let bytes_patched = self.held.take().map_or(Ok(0), Held::give_up)?;
                Ok(Answer::GivenUp { bytes_patched })
            }
            Order::Sums => {
                let table = &self.held.as_ref().ok_or("no snapshot")?.table;
                let all = || 0..table.segment_count();
                Ok(Answer::Sums(Sums {
                    rows: table.row_count().map_err(text)?,
                    counter: sum_over(table, all(), COUNTER)?,
                    fixed: [sum_over(table, all(), FIXED[0])?, sum_over(table, all(), FIXED[1])?],
                }))
            }
            Order::Receive { socket, bytes } => receive(&socket, bytes).map_err(text),
        }
    }
}

/// Reads all bytes into memory.
fn receive(socket: &Path, bytes: u64) -> std::io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    let mut data: Vec<u8> = Vec::with_capacity(bytes as usize);
    let got = Read::by_ref(&mut stream).take(bytes).read_to_end(&mut data)?;
    stream.write_all(&[1])?;
    Ok(Answer::Received { bytes: std::hint::black_box(&data).len().min(got) as u64 })
}

/// Handle of the reading process; ended when dropped.
pub struct Reader {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Reader {
    /// Starts this program again as a reader.
    ///
    /// # Errors
    /// [`BenchError::System`].
    pub fn start() -> Result<Self, BenchError> {
        let program =
            std::env::current_exe().map_err(BenchError::system("finding this program"))?;
        let spawned = Command::new(program)
            .env(ASKED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(BenchError::system("starting the reading process"))?;
        let orders = child.stdin.take();
        let Some(answers) = child.stdout.take() else {
            return Err(BenchError::Reader("it has no output".into()));
        };
        Ok(Self { child, orders, answers: BufReader::new(answers) })
    }

    fn send(&mut self, order: &Order) -> Result<(), BenchError> {
        let failed = BenchError::system("telling the reading process what to do");
        let text = serde_json::to_string(order).map_err(|error| failed(error.into()))?;
        let Some(orders) = &mut self.orders else {
            return Err(BenchError::Reader("it was told to end".into()));
        };
        writeln!(orders, "{text}").and_then(|()| orders.flush()).map_err(failed)
    }

    fn answer(&mut self) -> Result<Answer, BenchError> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(BenchError::system("hearing from the reading process"))?;
        if line.is_empty() {
            return Err(BenchError::Reader(
                "it ended without an answer; does main() call reader_main_if_asked() first?".into(),
            ));
        }
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(why)) => Err(BenchError::Reader(why)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(BenchError::Reader(format!("it said {:?}", line.trim_end()))),
        }
    }

    fn ask(&mut self, order: &Order) -> Result<Answer, BenchError> {
        self.send(order)?;
        self.answer()
    }

    /// Attaches and takes a first snapshot, which maps the store; returns the nanoseconds.
    ///
    /// # Errors
    /// [`BenchError::Reader`].
    pub fn attach(&mut self, name: &str, runtime_dir: Option<&Path>) -> Result<u64, BenchError> {
        let runtime_dir = runtime_dir.map(Path::to_owned);
        match self.ask(&Order::Attach { name: name.to_owned(), runtime_dir })? {
            Answer::Attached { ns } => Ok(ns),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes a snapshot, then releases the one before.
    ///
    /// # Errors
    /// [`BenchError::Reader`].
    pub fn take(&mut self) -> Result<Taken, BenchError> {
        match self.ask(&Order::Take)? {
            Answer::Taken(taken) => Ok(taken),
            other => Err(unexpected(&other)),
        }
    }

    /// Releases the snapshot; returns the bytes that the reader copied for it.
    ///
    /// # Errors
    /// [`BenchError::Reader`], also when the snapshot has changed since it was taken.
    pub fn give_up(&mut self) -> Result<u64, BenchError> {
        match self.ask(&Order::GiveUp)? {
            Answer::GivenUp { bytes_patched } => Ok(bytes_patched),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads the whole snapshot.
    ///
    /// # Errors
    /// [`BenchError::Reader`].
    pub fn sums(&mut self) -> Result<Sums, BenchError> {
        match self.ask(&Order::Sums)? {
            Answer::Sums(sums) => Ok(sums),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks the reader to connect to a socket and to read `bytes` bytes into memory.
    ///
    /// # Errors
    /// [`BenchError::System`].
    pub fn start_receiving(&mut self, socket: &Path, bytes: u64) -> Result<(), BenchError> {
        self.send(&Order::Receive { socket: socket.to_owned(), bytes })
    }

    /// Waits until the reader has done so; returns the bytes received.
    ///
    /// # Errors
    /// [`BenchError::Reader`].
    pub fn end_receiving(&mut self) -> Result<u64, BenchError> {
        match self.answer()? {
            Answer::Received { bytes } => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// [`BenchError::Reader`] when it ends with an error.
    pub fn close(mut self) -> Result<(), BenchError> {
        self.orders = None;
        let status = self.child.wait().map_err(BenchError::system("wait"))?;
        let bad = || BenchError::Reader(format!("it ended with {status}"));
        status.success().then_some(()).ok_or_else(bad)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.orders = None;
        // The reader may hang after an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unexpected(answer: &Answer) -> BenchError {
    BenchError::Reader(format!("it answered {answer:?} to something else"))
}
