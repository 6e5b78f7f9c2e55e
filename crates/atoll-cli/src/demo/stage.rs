//! The stage: listens to the programs, watches the load and shows both, phase by phase.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use atoll::Database;

use super::analysts::{Message, Taken, Who};
use super::replay::{Replay, Tally};
use super::report::{Checks, Phase, Reading};
use super::screen::Screen;
use crate::error::{CliError, Result};
use crate::size;

/// How often the live line is drawn.
const TICK: Duration = Duration::from_millis(200);
/// Longest silence of a program that the stage waits for.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// All messages of the programs.
#[derive(Default)]
pub struct Heard {
    /// Whether the analyst and the painter have loaded their libraries.
    pub ready: [bool; 2],
    /// Whether the clusters are published.
    pub published: bool,
    /// Snapshots taken.
    pub snapshots: Vec<(Who, Taken)>,
    /// Checks made.
    pub checks: Checks,
    done: [bool; 2],
    doing: [Option<String>; 2],
}

fn seat(who: Who) -> usize {
    match who {
        Who::Analyst => 0,
        Who::Painter => 1,
    }
}

impl Heard {
    /// Whether a program has come to its end.
    pub fn is_done(&self, who: Who) -> bool {
        self.done[seat(who)]
    }
}

/// See the module.
pub struct Stage<'a> {
    screen: &'a Screen,
    db: &'a Database,
    replay: Replay,
    from: Receiver<super::Heard>,
    heard: Heard,
    phase: Reading,
    /// Commits and time at the last tick.
    last: (u64, Instant),
    rate: f64,
    drawn: Instant,
}

impl<'a> Stage<'a> {
    /// A stage on which the load is running.
    pub fn new(
        screen: &'a Screen,
        db: &'a Database,
        replay: Replay,
        from: Receiver<super::Heard>,
    ) -> Self {
        let (phase, now) = (Reading::of(db), Instant::now());
        let last = (phase.counters.commits, now);
        let heard = Heard::default();
        Self { screen, db, replay, from, heard, phase, last, rate: 0.0, drawn: now }
    }

    /// Writes a permanent line.
    pub fn note(&self, heading: &str, text: &str) {
        self.screen.note(heading, text);
    }

    /// Reports a phase.
    pub fn say(&self, heading: &str, phase: &Phase) {
        let (rate, time) = (size::count(phase.txn_s() as u64), phase.time.as_secs_f64());
        let copied = size::bytes(phase.bytes_copied_on_write);
        let text = format!("{rate} transactions per second for {time:.1} s, {copied} copied");
        self.note(heading, &text);
    }

    /// Begins to measure.
    pub fn begin_phase(&mut self) {
        self.phase = Reading::of(self.db);
    }

    /// The measurements since [`Stage::begin_phase`].
    pub fn end_phase(&self) -> Phase {
        self.phase.phase(self.db)
    }

    /// Measures for some time and reports it.
    ///
    /// # Errors
    /// As [`Stage::wait`].
    pub fn measure(&mut self, name: &str, time: Duration) -> Result<Phase> {
        self.begin_phase();
        self.wait(name, time, |_| true)?;
        let phase = self.end_phase();
        self.say(name, &phase);
        Ok(phase)
    }

    /// Waits until the phase is this old.
    ///
    /// # Errors
    /// As [`Stage::wait`].
    pub fn wait_for_phase(&mut self, name: &str, time: Duration) -> Result<()> {
        let rest = time.saturating_sub(self.phase.age());
        self.wait(name, rest, |_| true)
    }

    /// Waits for at least some time and until something was heard.
    ///
    /// # Errors
    /// A program failed, said something that cannot be understood or nothing for very long; a
    /// worker failed.
    pub fn wait(
        &mut self,
        name: &str,
        time: Duration,
        until: impl Fn(&Heard) -> bool,
    ) -> Result<()> {
        let begin = Instant::now();
        let mut spoke = begin;
        while begin.elapsed() < time || !until(&self.heard) {
            let rest = time.saturating_sub(begin.elapsed());
            match self.from.recv_timeout(rest.clamp(TICK / 20, TICK)) {
                Ok((who, message)) => {
                    spoke = Instant::now();
                    self.hear(who, message?)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Both programs have ended, as they should in the last phase.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(rest.clamp(TICK / 20, TICK))
                }
            }
            self.replay.check()?;
            if begin.elapsed() >= time && spoke.elapsed() > SILENCE_MAX {
                return Err(CliError::new("nothing was heard of the Python programs for minutes"));
            }
            self.draw(name);
        }
        Ok(())
    }

    fn hear(&mut self, who: Who, message: Message) -> Result<()> {
        let seat = seat(who);
        match message {
            Message::Ready => self.heard.ready[seat] = true,
            Message::Doing { text } => self.heard.doing[seat] = Some(text),
            Message::Found { text } => self.note(who.name(), &text),
            Message::Snapshot(taken) => self.heard.snapshots.push((who, taken)),
            Message::Check { name, passed, detail } => {
                self.heard.checks.add(&name, passed, &detail);
            }
            Message::Published { name } => {
                self.note(who.name(), &format!("published {name}"));
                self.heard.published = true;
            }
            Message::Done => {
                self.heard.done[seat] = true;
                self.heard.doing[seat] = None;
            }
            Message::Missing { text } => {
                return Err(CliError::with_hint(
                    format!("the {} cannot start: {text}", who.name()),
                    "install the package atolldb (maturin develop --release -m python/Cargo.toml) \
                     and what demo/requirements.txt names (pip install -r demo/requirements.txt) \
                     for the interpreter, or name another one: --python PATH",
                ));
            }
            Message::Ended if !self.heard.done[seat] => {
                return Err(CliError::new(format!("the {} ended before its time", who.name())));
            }
            Message::Ended => {}
        }
        Ok(())
    }

    fn draw(&mut self, name: &str) {
        if self.drawn.elapsed() < TICK {
            return;
        }
        self.drawn = Instant::now();
        let counters = self.db.counters();
        let (commits, at) = std::mem::replace(&mut self.last, (counters.commits, self.drawn));
        let time = (self.drawn - at).as_secs_f64().max(1e-3);
        self.rate = (counters.commits - commits) as f64 / time;
        let retries = counters.aborts - self.phase.counters.aborts;
        let mut text = format!(
            "{name}: {} · {} transactions/s · {} tried again · {} held",
            self.replay.date(),
            size::count(self.rate as u64),
            size::count(retries),
            size::counted(counters.snapshots, "snapshot"),
        );
        for (who, doing) in [Who::Analyst, Who::Painter].iter().zip(&self.heard.doing) {
            if let Some(doing) = doing {
                text.push_str(&format!(" · {}: {doing}", who.name()));
            }
        }
        self.screen.show(text);
    }

    /// Stops the load and returns the messages.
    ///
    /// # Errors
    /// A worker failed.
    pub fn stop(mut self) -> Result<(Tally, Heard)> {
        self.replay.stop()?;
        Ok((self.replay.tally(), self.heard))
    }
}
