//! Looking at the files of a database that is not open.

use std::path::Path;
use std::sync::Arc;

use atoll_log::block::{Header, Kind};
use atoll_log::control::{Control, ControlFile};
use atoll_log::home::Home;
use atoll_log::scan::Scan;
use atoll_log::{LogError, block, mark};
use atoll_machine::medium::{Locked, Open};
use atoll_machine::{FileMedium, Medium};
use atoll_storage::redo::{Changes, Kind as Change};
use atoll_txn::describe;
use serde::Serialize;

use super::moment::utc;
use super::open::folder_name;
use crate::error::{Error, Result};

/// What a check has found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CheckReport {
    /// Checkpoints whose maps and blocks were read.
    pub checkpoints: u64,
    /// Blocks of the homes.
    pub home_blocks: u64,
    /// Blocks of the logs.
    pub log_blocks: u64,
    /// Bytes of the logs.
    pub log_bytes: u64,
    /// Everything that is not as it should be.
    pub damages: Vec<String>,
}

/// A block of a log, for people.
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
    /// How often the database had been opened.
    pub life: u32,
    /// Epoch of the commit.
    pub epoch: u64,
    /// What it is: `commit`, `piece`, `rest`, `table`, `open`, `time`.
    pub kind: &'static str,
    /// What it says.
    pub changes: Vec<String>,
}

struct Folder {
    control: Control,
    media: Vec<Arc<dyn Medium>>,
    _locked: Box<dyn Locked>,
}

/// Opens a folder to look at it; nobody else may have it open to work.
fn look(folder: &Path) -> Result<Folder> {
    let root = FileMedium::existing(folder)?;
    let names = root.names()?;
    if !names.iter().any(|name| name == atoll_log::control::FILE) {
        return Err(LogError::NoDatabase { path: root.path("") }.into());
    }
    let _locked = match root.lock_to_read()? {
        Ok(locked) => locked,
        Err(pid) => return Err(Error::InUse { path: root.path(""), pid }),
    };
    let (_, control) = ControlFile::open(&root, Open::Read)?;
    let mut media: Vec<Arc<dyn Medium>> = Vec::new();
    for tablespace in 0..control.tablespaces {
        media.push(Arc::new(FileMedium::existing(&folder.join(folder_name(tablespace)))?));
    }
    Ok(Folder { control, media, _locked })
}

/// Reads everything that opening the database in a folder could need, and reports what is damaged.
/// The folder may be one that can only be read.
///
/// # Errors
/// [`Error::Log`] when the folder cannot be read or its control file is of no use;
/// [`Error::InUse`].
pub fn check(folder: &Path) -> Result<CheckReport> {
    let Folder { control, media, _locked } = look(folder)?;
    let mut report = CheckReport::default();
    let root = FileMedium::existing(folder)?;
    report.damages.extend(ControlFile::check(&root)?.iter().map(ToString::to_string));
    for (tablespace, medium) in media.iter().enumerate() {
        if let Err(error) = check_home(medium, tablespace, &control, &mut report) {
            report.damages.push(error.to_string());
        }
        if let Err(error) = check_log(medium, tablespace, &control, &mut report) {
            report.damages.push(error.to_string());
        }
    }
    report.checkpoints = control.checkpoints.len() as u64;
    Ok(report)
}

fn check_home(
    medium: &Arc<dyn Medium>,
    tablespace: usize,
    control: &Control,
    report: &mut CheckReport,
) -> std::result::Result<(), LogError> {
    if control.checkpoints.is_empty() {
        return Ok(());
    }
    let home = Home::open_to_read(Arc::clone(medium))?;
    let mut bytes = Vec::new();
    for checkpoint in &control.checkpoints {
        let mut helped = Vec::new();
        let part = &checkpoint.parts[tablespace];
        let holding = home.read_holding(checkpoint.number, part, &mut helped);
        for text in helped.iter().map(LogError::to_string) {
            if !report.damages.contains(&text) {
                report.damages.push(text);
            }
        }
        let map = match holding {
            Ok(holding) => holding.map,
            Err(error) => {
                report.damages.push(error.to_string());
                continue;
            }
        };
        for part in map.tables.iter().flat_map(|table| &table.segments).flat_map(|one| one.parts())
        {
            report.home_blocks += part.blocks.len() as u64;
            if let Err(error) = home.read(part, None, &mut bytes) {
                let text = error.to_string();
                if !report.damages.contains(&text) {
                    report.damages.push(text);
                }
            }
        }
    }
    Ok(())
}

fn scan(
    medium: &Arc<dyn Medium>,
    tablespace: usize,
    control: &Control,
) -> std::result::Result<Scan, LogError> {
    let oldest = control.checkpoints.last();
    let start = oldest.map_or(0, |checkpoint| checkpoint.parts[tablespace].start);
    let mut scan = Scan::open(Arc::clone(medium), tablespace as u8, control.file_bytes, start)?;
    scan.cut(control.life, control.cuts[tablespace]);
    scan.reach(control.ring_bytes);
    Ok(scan)
}

fn check_log(
    medium: &Arc<dyn Medium>,
    tablespace: usize,
    control: &Control,
    report: &mut CheckReport,
) -> std::result::Result<(), LogError> {
    if control.life == 0 {
        return Ok(());
    }
    let mut scan = scan(medium, tablespace, control)?;
    while let Some((header, payload)) = scan.read_next()? {
        report.log_blocks += 1;
        report.log_bytes += header.block_bytes();
        let is_sound = match header.kind {
            // A transaction with pieces is cut anywhere.
            Kind::Commit => {
                header.transaction != 0 || Changes::new(payload).all(|change| change.is_some())
            }
            Kind::Table => describe::decode(payload).is_some(),
            Kind::Rest => block::Rest::decode_all(payload).is_some(),
            Kind::Time => mark::time_us(payload).is_some(),
            Kind::Piece | Kind::Open => true,
        };
        if !is_sound {
            let at = header.lsn;
            let what = header.kind.name();
            report
                .damages
                .push(format!("log of tablespace {tablespace}: a {what} at {at} means nothing"));
        }
    }
    report.damages.extend(control.ends_too_early(tablespace, scan.at()).map(|one| one.to_string()));
    Ok(())
}

/// Calls `body` with the blocks of a tablespace's log, or of all logs one after the other, from the
/// oldest that opening could need, until it breaks.
///
/// # Errors
/// As [`check`]; [`Error::Log`] at the first place that is damaged.
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
        if tablespace.is_some_and(|wanted| wanted != number) || control.life == 0 {
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
        Kind::Commit if header.transaction == 0 => {
            Changes::new(payload).map(|change| change.map_or("?".to_owned(), tell)).collect()
        }
        Kind::Commit | Kind::Piece => {
            vec![format!("{} bytes of transaction {}", payload.len(), header.transaction)]
        }
        Kind::Table => describe::decode(payload)
            .map(|table| format!("table {} \"{}\"", table.id, table.name))
            .into_iter()
            .collect(),
        Kind::Rest => block::Rest::decode_all(payload)
            .unwrap_or_default()
            .iter()
            .map(|rest| {
                format!("log {} rests at {} up to GSN {}", rest.tablespace, rest.lsn, rest.gsn)
            })
            .collect(),
        Kind::Time => mark::time_us(payload).map(utc).into_iter().collect(),
        Kind::Open => Vec::new(),
    };
    LogRecord {
        tablespace: header.tablespace,
        lsn: header.lsn,
        bytes: header.block_bytes(),
        gsn: header.gsn,
        life: header.life,
        epoch: header.epoch,
        kind: header.kind.name(),
        changes,
    }
}

fn tell(change: atoll_storage::redo::Change<'_>) -> String {
    let (segment, slot) = (change.head.row.segment(), change.head.row.slot());
    let what = match change.head.kind {
        Change::Put => "put",
        Change::Update => "update",
        Change::Delete => "delete",
    };
    let cells = change.cells.iter().map(|(column, plain)| match plain {
        None => format!(" {column}=NULL"),
        Some(bytes) => format!(" {column}={}", show(bytes)),
    });
    format!(
        "{what} table {} row {segment}/{slot}{}",
        change.head.table.0,
        cells.collect::<String>()
    )
}

/// A value as people read it: the log does not know its type.
fn show(bytes: &[u8]) -> String {
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
