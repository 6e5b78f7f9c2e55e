//! `atoll backup`: has a server copy its database into a folder.

use std::path::absolute;

use atoll::RuntimeDir;
use atoll_server::{AskError, ask};

use crate::args::{BackupArgs, GlobalArgs};
use crate::error::{CliError, Result};
use crate::output::Output;

/// Runs the command.
///
/// # Errors
/// No server is there, or it refuses: the role of this user is no superuser, the database is in
/// memory alone, the folder is not empty or cannot be written.
pub fn run(args: &BackupArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    global.refuse_limits("backup")?;
    global.refuse_nodes("`atoll backup`")?;
    let socket_dir = match &args.socket_dir {
        Some(folder) => folder.clone(),
        None => {
            let folder = RuntimeDir::open(global.runtime_dir.as_deref());
            folder.map_err(atoll::Error::from)?.path().to_owned()
        }
    };
    let socket = socket_dir.join(format!(".s.PGSQL.{}", args.port));
    let folder = absolute(&args.folder).map_err(CliError::reading(&args.folder))?;
    let Some(folder) = folder.to_str() else {
        return Err(CliError::new("the path of the folder is no text in UTF-8"));
    };
    let sql = format!("BACKUP TO '{}'", folder.replace('\'', "''"));
    ask(&socket, &args.name, &sql).map_err(|error| match error {
        AskError::Refused { message, hint, .. } => CliError::Said { message, hint },
        other => CliError::with_hint(
            format!("the server at {}: {other}", socket.display()),
            format!("is it there? to begin one, run: atoll serve {} --data DIR", args.name),
        ),
    })?;
    if output.json {
        return Ok(output.json(&serde_json::json!({ "backup": folder }))?);
    }
    Ok(output.line(&format!("{} is backed up in {folder}", args.name))?)
}
