//! Shows the contents of the logs of a database that is not open.

use std::path::Path;
use std::sync::Arc;

use atoll_log::block::{Header, Kind};
use atoll_log::control::{Control, ControlFile};
use atoll_log::{LogError, block, time_mark};
use atoll_machine::medium::{Locked, Open};
use atoll_machine::{FileMedium, Medium};
use atoll_storage::redo::{Changes, Kind as Change};
use atoll_txn::describe;
use serde::Serialize;

pub use super::check::{CheckReport, Damage, check};
use super::closed::{existing, lock, scan};
use crate::error::Result;
use crate::restore_point::utc;

/// A block of a log in readable form.
#[derive(Debug, Clone, Serialize)]
pub struct LogRecord {
    /// Number of the tablespace.
    pub tablespace: u8,
    /// Position in its log.
    pub lsn: u64,
    /// Bytes of the block.
    pub bytes: u64,
    /// Global sequence number.
    pub gsn: u64,
    /// The incarnation: how often the database had been opened.
    #[serde(rename = "life")]
    pub incarnation: u32,
    /// Epoch of the commit.
    pub epoch: u64,
    /// The kind: `commit`, `piece`, `rest`, `table`, `drop`, `open`, `time`.
    pub kind: &'static str,
    /// The contents.
    pub changes: Vec<String>,
}

struct Folder {
    control: Control,
    media: Vec<Arc<dyn Medium>>,
    _locked: Box<dyn Locked>,
}

fn look(folder: &Path) -> Result<Folder> {
    let root = FileMedium::existing(folder)?;
    let _locked = lock(&root)?;
    let (_, control) = ControlFile::open(&root, Open::Read)?;
    let media = (0..control.tablespaces).map(|tablespace| existing(&root, folder, tablespace));
    let media = media.collect::<std::result::Result<_, _>>()?;
    Ok(Folder { control, media, _locked })
}

/// Calls `body` with the blocks of one tablespace's log, or of all logs one after the other, from
/// the oldest block that recovery could need, until `body` breaks.
///
/// # Errors
/// [`Error::Log`] when the folder cannot be read, and at the first damaged block.
pub fn log_records(
    folder: &Path,
    tablespace: Option<usize>,
    mut body: impl FnMut(LogRecord) -> std::ops::ControlFlow<()>,
) -> Result<()> {
    let Folder { control, media, _locked } = look(folder)?;
    if let Some(wanted) = tablespace.filter(|wanted| *wanted >= media.len()) {
        return Err(LogError::NoTablespace(wanted as u32, media.len()).into());
    }
    for (number, medium) in media.iter().enumerate() {
        if tablespace.is_some_and(|wanted| wanted != number) || control.incarnation == 0 {
            continue;
        }
        let mut scan = scan(medium, number, &control)?;
        while let Some((header, payload)) = scan.read_next()? {
            if body(record(&header, payload)).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn record(header: &Header, payload: &[u8]) -> LogRecord {
    let changes = match header.kind {
        Kind::Commit if header.transaction == 0 => Changes::new(payload)
            .map(|change| change.map_or("?".to_owned(), display_change))
            .collect(),
        Kind::Commit | Kind::Piece => {
            vec![format!("{} bytes of transaction {}", payload.len(), header.transaction)]
        }
        Kind::Table => describe::decode(payload)
            .map(|table| format!("table {} \"{}\"", table.serial.0, table.name))
            .into_iter()
            .collect(),
        Kind::Alter => describe::decode(payload)
            .map(|table| format!("table {} is \"{}\" now", table.serial.0, table.name))
            .into_iter()
            .collect(),
        Kind::Drop => block::decode_drop(payload)
            .map(|serial| format!("table {} is dropped", serial.0))
            .into_iter()
            .collect(),
        Kind::IdleWatermark => block::IdleWatermark::decode_all(payload)
            .unwrap_or_default()
            .iter()
            .map(|watermark| {
                format!(
                    "log {} rests at {} up to GSN {}",
                    watermark.tablespace, watermark.lsn, watermark.gsn
                )
            })
            .collect(),
        Kind::Time => time_mark::time_us(payload).map(utc).into_iter().collect(),
        Kind::Open => Vec::new(),
    };
    LogRecord {
        tablespace: header.tablespace,
        lsn: header.lsn,
        bytes: header.block_bytes(),
        gsn: header.gsn,
        incarnation: header.incarnation,
        epoch: header.epoch,
        kind: header.kind.name(),
        changes,
    }
}

fn display_change(change: atoll_storage::redo::Change<'_>) -> String {
    let (segment, slot) = (change.head.row.segment(), change.head.row.slot());
    let what = match change.head.kind {
        Change::Put => "put",
        Change::Update => "update",
        Change::Delete => "delete",
        Change::Segment => "load",
        Change::Column => "column",
    };
    if let (Change::Column, [_, (at, plain)]) = (change.head.kind, &change.cells[..]) {
        let value = plain.map_or_else(|| "NULL".to_owned(), display_bytes);
        return format!("{what} table {} {at}={value}", change.head.table.0);
    }
    if let (Change::Segment, [(_, Some(image))]) = (change.head.kind, &change.cells[..]) {
        let (table, bytes) = (change.head.table.0, image.len());
        return format!("{what} table {table} segment {segment}, {bytes} bytes");
    }
    let cells = change.cells.iter().map(|(column, plain)| match plain {
        None => format!(" {column}=NULL"),
        Some(bytes) => format!(" {column}={}", display_bytes(bytes)),
    });
    format!(
        "{what} table {} row {segment}/{slot}{}",
        change.head.table.0,
        cells.collect::<String>()
    )
}

/// A readable form of a value; the log does not record its type.
fn display_bytes(bytes: &[u8]) -> String {
    const SHOWN: usize = 24;
    let start = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    match std::str::from_utf8(start) {
        Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => {
            format!("{text:?}{more}")
        }
        _ => {
            let hex: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x{hex}{more}")
        }
    }
}
