//! `atoll restore`: makes a database as it was at a moment.

use atoll::{DatabaseOptions, RestoreReport, Until, restore};

use crate::args::{GlobalArgs, OwnerArgs, RestoreArgs};
use crate::error::{CliError, Result};
use crate::output::Output;
use crate::size;

/// Runs the command.
///
/// # Errors
/// Those of [`restore::restore`].
pub fn run(args: &RestoreArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_query_limits("restore")?;
    let until = match (args.to, args.to_gsn) {
        (Some(time), _) => Until::Time(time),
        (None, Some(gsn)) => Until::Gsn(gsn),
        (None, None) => Until::Latest,
    };
    let from = (args.backup.as_path(), args.archive.as_path(), args.logs.as_deref());
    let report = restore::restore(from, &args.new, until, options(args, global))?;
    if output.json {
        return Ok(output.json(&report)?);
    }
    atoll_server::restore_roles(&args.backup, &args.new)
        .map_err(|error| CliError::new(error.to_string()))?;
    let RestoreReport { gsn, restore_point, log_bytes, recovery, .. } = report;
    let rows = size::counted(recovery.rows, "row");
    let redone = size::counted(recovery.redone, "transaction");
    let bytes = size::bytes(log_bytes);
    output.line(&format!(
        "{rows}, with {redone} from {bytes} of logs, up to GSN {gsn}; the last moment in it is \
         {restore_point}"
    ))?;
    Ok(())
}

/// How the new database is opened.
fn options(args: &RestoreArgs, global: &GlobalArgs) -> DatabaseOptions {
    let RestoreArgs { node_folders, scheme, memory_budget, .. } = args;
    let (node_folders, scheme) = (node_folders.clone(), *scheme);
    let owner =
        OwnerArgs { node_folders, scheme, memory_budget: *memory_budget, ..OwnerArgs::default() };
    global.database_options(&owner)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn everything_that_is_said_of_the_new_database_reaches_it() {
        let line = "atoll restore from to --archive logs --memory-budget 2GiB --memory 8GiB \
                    --node-folder a --node-folder b --scheme SILO --nodes 2";
        let cli = Cli::try_parse_from(line.split_whitespace()).expect("it parses");
        let Command::Restore(args) = &cli.command else { panic!("it is restore") };
        let options = options(args, &cli.global);
        assert_eq!(options.memory_budget_bytes, Some(2 << 30));
        assert_eq!((options.memory_limit_bytes, options.nodes), (Some(8 << 30), Some(2)));
        assert_eq!(options.node_folders, ["a", "b"].map(std::path::PathBuf::from));
        assert_eq!(options.scheme.name(), "SILO");
    }
}
