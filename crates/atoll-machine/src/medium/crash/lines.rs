//! Simulated persistent memory: it records the operations of a `PmFile` on the lines of its file,
//! and its system calls.
//!
//! The code that writes real files also writes the simulated one; only the instructions and system
//! calls at its end are events here. Bytes that a thread has streamed are durable when the thread
//! has executed a fence afterwards; bytes that it has stored are durable when it has written their
//! line back and then executed a fence. Of all other bytes any words may survive.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use super::super::pm::{Backing, Mapped};
use super::{Event, World, lock, put};
use crate::lines::{LINE_BYTES, Lines, WORD};

/// Operations that the simulated processor omits, to show that a check can fail.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// Fences.
    Fence,
    /// Writing lines back.
    WriteBack,
    /// Writing back the last line of a write that does not end with a word.
    LastLine,
}

/// An operation of a thread on lines.
#[derive(Debug, Clone)]
pub(super) enum LineEvent {
    Store { file: usize, offset: u64, bytes: Vec<u8>, is_streamed: bool },
    WriteBack { file: usize, line: u64 },
    Fence,
}

/// Consecutive stores of a thread, until it does something else.
#[derive(Debug)]
pub(super) struct Gathered {
    file: usize,
    offset: u64,
    bytes: Vec<u8>,
    is_streamed: bool,
}

fn line_of(offset: u64) -> u64 {
    offset / LINE_BYTES as u64
}

/// The numbers of the stores that are durable after some events.
pub(super) fn durable_stores(happened: &[Event]) -> HashSet<usize> {
    let (mut fenced, mut written_back) = (HashSet::new(), HashSet::new());
    let mut durable = HashSet::new();
    for (at, event) in happened.iter().enumerate().rev() {
        let Event::Line(thread, event) = event else { continue };
        match event {
            LineEvent::Fence => {
                fenced.insert(*thread);
            }
            LineEvent::WriteBack { file, line } if fenced.contains(thread) => {
                written_back.insert((*thread, *file, *line));
            }
            LineEvent::WriteBack { .. } => {}
            LineEvent::Store { file, offset, bytes, is_streamed } => {
                let mut lines = line_of(*offset)..=line_of(offset + bytes.len() as u64 - 1);
                let is_durable = match is_streamed {
                    true => fenced.contains(thread),
                    false => lines.all(|line| written_back.contains(&(*thread, *file, line))),
                };
                if is_durable {
                    durable.insert(at);
                }
            }
        }
    }
    durable
}

impl World {
    fn store(&mut self, file: usize, offset: u64, bytes: &[u8], is_streamed: bool) {
        put(&mut self.files[file], offset, bytes);
        let thread = std::thread::current().id();
        if let Some(last) = self.gathered.get_mut(&thread)
            && (last.file, last.is_streamed) == (file, is_streamed)
            && last.offset + last.bytes.len() as u64 == offset
        {
            last.bytes.extend_from_slice(bytes);
            return;
        }
        self.end_stores(thread);
        let bytes = bytes.to_vec();
        self.gathered.insert(thread, Gathered { file, offset, bytes, is_streamed });
    }

    /// Records the collected stores as an event.
    fn end_stores(&mut self, thread: ThreadId) {
        if let Some(Gathered { file, offset, bytes, is_streamed }) = self.gathered.remove(&thread) {
            let store = LineEvent::Store { file, offset, bytes, is_streamed };
            self.events.push(Event::Line(thread, store));
        }
    }

    fn line_event(&mut self, event: LineEvent) {
        let thread = std::thread::current().id();
        self.end_stores(thread);
        self.events.push(Event::Line(thread, event));
    }
}

/// The file of a world.
#[derive(Debug)]
pub(super) struct LinesFile {
    world: Arc<Mutex<World>>,
    file: usize,
    /// The address of the mapping.
    address: AtomicUsize,
}

impl LinesFile {
    pub(super) fn new(world: Arc<Mutex<World>>, file: usize) -> Self {
        Self { world, file, address: AtomicUsize::new(0) }
    }

    fn offset(&self, at: *mut u8) -> u64 {
        (at.addr() - self.address.load(Ordering::Relaxed)) as u64
    }
}

/// No address is accessed here.
#[allow(unsafe_code)]
impl Lines for LinesFile {
    unsafe fn stream_pair(&self, to: *mut u8, words: &[[u8; WORD]; 2]) {
        lock(&self.world).store(self.file, self.offset(to), words.as_flattened(), true);
    }

    unsafe fn stream_word(&self, to: *mut u8, word: &[u8; WORD]) {
        lock(&self.world).store(self.file, self.offset(to), word, true);
    }

    unsafe fn store(&self, to: *mut u8, bytes: &[u8]) {
        lock(&self.world).store(self.file, self.offset(to), bytes, false);
    }

    unsafe fn write_back(&self, at: *mut u8) {
        let mut world = lock(&self.world);
        let offset = self.offset(at);
        // Bytes that are stored from the beginning of a word on are the end of a write.
        let is_last = offset.is_multiple_of(WORD as u64);
        match world.skipped {
            Some(Skipped::WriteBack) => {}
            Some(Skipped::LastLine) if is_last => {}
            _ => world.line_event(LineEvent::WriteBack { file: self.file, line: line_of(offset) }),
        }
    }

    fn fence(&self) {
        let mut world = lock(&self.world);
        world.end_stores(std::thread::current().id());
        let time = world.sync_time;
        if !time.is_zero() {
            drop(world);
            std::thread::sleep(time);
            world = lock(&self.world);
        }
        if world.skipped != Some(Skipped::Fence) {
            world.line_event(LineEvent::Fence);
        }
    }
}

impl Backing for LinesFile {
    type Lines = Self;

    fn lines(&self) -> &Self {
        self
    }

    fn map(&self, size: usize) -> io::Result<Mapped> {
        let mapped = Mapped::of_nothing(size)?;
        self.address.store(mapped.address(), Ordering::Relaxed);
        Ok(mapped)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        lock(&self.world).read(self.file, offset, into)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        lock(&self.world).write(self.file, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        super::sync(&self.world, self.file)
    }
}
