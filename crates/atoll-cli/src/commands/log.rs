//! `atoll log`: the log of a database that is not open, for people.

use std::ops::ControlFlow;

use atoll::inspect::{self, LogRecord};

use crate::args::{GlobalArgs, LogArgs};
use crate::error::Result;
use crate::output::Output;

/// Runs the command.
///
/// # Errors
/// A folder that is no database or cannot be read, and the first place that is damaged.
pub fn run(args: &LogArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("log")?;
    global.refuse_nodes("`atoll log`")?;
    let mut records = Vec::new();
    let mut left = args.limit;
    let read = inspect::log_records(&args.folder, args.tablespace, |record| {
        if left == 0 {
            return ControlFlow::Break(());
        }
        left -= 1;
        records.push(record);
        ControlFlow::Continue(())
    });
    if records.is_empty() && read.is_err() {
        return Ok(read?);
    }
    if output.json {
        output.json(&records)?;
    } else {
        output.line(&format!(
            "{:>4}{:>14}{:>8}{:>10}{:>6}  what",
            "node", "position", "bytes", "gsn", "life"
        ))?;
        for record in &records {
            write(output, record)?;
        }
    }
    Ok(read?)
}

fn write(output: &mut Output, record: &LogRecord) -> Result<()> {
    let LogRecord { tablespace, lsn, bytes, gsn, incarnation, kind, changes, .. } = record;
    let mut line = format!("{tablespace:>4}{lsn:>14}{bytes:>8}{gsn:>10}{incarnation:>6}  {kind}");
    if let [only] = &changes[..] {
        line.push_str(&format!(": {only}"));
    }
    output.line(&line)?;
    if changes.len() > 1 {
        for change in changes {
            output.line(&format!("{:44}{change}", ""))?;
        }
    }
    Ok(())
}
