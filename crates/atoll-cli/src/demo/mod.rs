//! `atoll demo`: a year of flights as transactions, and two other processes that analyse them.
//!
//! 1. This process owns the database `board`, creates its tables and loads the reference tables.
//! 2. Workers replay the flights of 2013 as transactions, and go on with later years.
//! 3. *before*: the throughput without snapshots.
//! 4. *during*: the analyst, a Python process, attaches to `board`, takes snapshots, finds clusters
//!    of airports and publishes them on one of its snapshots as `board-clusters`; the painter,
//!    another one, attaches to that and draws charts.
//! 5. *after*: the throughput when they have gone.
//! 6. A table, `summary.json` and the charts. If a check failed, the demo fails.

mod analysts;
mod board;
mod files;
mod replay;
mod report;
mod screen;
mod stage;
mod timetable;

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use atoll::Database;
use atoll_sql::{Outcome, SqlSession};

use crate::args::{DemoArgs, GlobalArgs, OwnerArgs};
use crate::error::{CliError, Result};
use crate::output::{Output, Style};
use crate::size;
use analysts::{Message, Program, Who};
use board::{BOARD, Board, Files};
use files::Rows;
use replay::{Replay, Tally};
use report::{Checks, Phase, Reading, Results};
use screen::Screen;
use stage::Stage;
use timetable::Timetable;

/// Name under which the analyst publishes its clusters.
const CLUSTERS: &str = "board-clusters";
/// How long the load runs before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// How long the owner may take to hear that processes have ended.
const SETTLE: Duration = Duration::from_millis(200);
/// Most workers unless more are asked for.
const WORKERS_MAX: usize = 4;

/// Settings derived from the arguments.
struct Plan {
    owner: OwnerArgs,
    files: Files,
    scripts: PathBuf,
    out: PathBuf,
    python: PathBuf,
    workers: usize,
    time: Duration,
    runtime_dir: Option<PathBuf>,
}

type Heard = (Who, Result<Message>);

impl Plan {
    fn new(args: &DemoArgs, global: &GlobalArgs) -> Result<Self> {
        let files = Files::find(&args.flights)?;
        let data = args.flights.canonicalize().map_err(CliError::reading(&args.flights))?;
        let scripts = data.parent().unwrap_or(&data).to_owned();
        let own = |path: PathBuf| path.is_file().then_some(path);
        let python = args
            .python
            .clone()
            .or_else(|| std::env::var_os("ATOLL_PYTHON").map(PathBuf::from))
            .or_else(|| own(PathBuf::from(".venv/bin/python")))
            .unwrap_or_else(|| PathBuf::from("python3"));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let failed = |source| CliError::File { doing: "write", path: args.out.clone(), source };
        std::fs::create_dir_all(&args.out).map_err(failed)?;
        Ok(Self {
            owner: args.owner.clone(),
            files,
            scripts,
            out: args.out.clone(),
            python,
            workers: args.workers.map_or(cores.clamp(2, WORKERS_MAX), usize::from),
            time: Duration::from_secs(u64::from(args.seconds)),
            runtime_dir: global.runtime_dir.clone(),
        })
    }

    fn start(&self, who: Who, to: &Sender<Heard>) -> Result<Program> {
        let script = self.scripts.join(format!("{}.py", who.name()));
        if !script.is_file() {
            return Err(CliError::with_hint(
                format!("{} is missing", script.display()),
                "the Python programs of the demo are in the folder above that of its data",
            ));
        }
        let mut options: Vec<(&str, &OsStr)> = match who {
            Who::Analyst => {
                vec![("--database", OsStr::new(BOARD)), ("--publish", OsStr::new(CLUSTERS))]
            }
            Who::Painter => {
                vec![("--database", OsStr::new(CLUSTERS)), ("--out", self.out.as_os_str())]
            }
        };
        if let Some(folder) = &self.runtime_dir {
            options.push(("--runtime-dir", folder.as_os_str()));
        }
        Program::start(who, &self.python, &script, &options, to.clone())
    }
}

/// Runs the demo.
///
/// # Errors
/// Files or Python packages that are missing, a process that failed, and a check that did.
pub fn run(args: &DemoArgs, global: &GlobalArgs, output: &mut Output) -> Result<()> {
    let plan = Plan::new(args, global)?;
    let screen = Screen::new(Style::of_stderr(global.color));
    let ended = play(&plan, global, &screen);
    screen.clear();
    let results = ended?;
    results.write(&plan.out)?;
    results.print(output)?;
    output.flush()?;
    let (passed, total) = results.checks.counts();
    if passed < total {
        return Err(CliError::new(format!("{} of {total} checks failed", total - passed)));
    }
    screen.note("done", &format!("charts and {} are in {}", report::SUMMARY, plan.out.display()));
    Ok(())
}

fn play(plan: &Plan, global: &GlobalArgs, screen: &Screen) -> Result<Results> {
    global.refuse_nodes("the demonstration: its database is in memory only")?;
    let db = Database::create(global.database_options(&plan.owner))?;
    let board = Board::create(db.clone())?;
    db.publish(BOARD, plan.runtime_dir.as_deref())?;
    screen.note(BOARD, &format!("five tables, in process {}", std::process::id()));
    let (to, from) = channel();
    let analyst = plan.start(Who::Analyst, &to)?;
    let painter = plan.start(Who::Painter, &to)?;
    drop(to);
    board.load(&plan.files, screen)?;
    let timetable = read_timetable(plan, screen)?;
    let begin = Reading::of(&db);
    let replay = Replay::start(&board, timetable, plan.workers)?;
    let workers = size::counted(plan.workers as u64, "worker");
    screen.note("load", &format!("{workers} replay 2013, and then the years after it"));
    let stage = Stage::new(screen, &db, replay, from);
    let mut programs = [analyst, painter];
    act(plan, &board, stage, &mut programs, &begin).map_err(|error| {
        // The error of a failed program says more than its absence.
        programs.iter_mut().find_map(Program::failure).unwrap_or(error)
    })
}

fn read_timetable(plan: &Plan, screen: &Screen) -> Result<Timetable> {
    let mut timetable = None;
    screen.loading("timetable", |progress| {
        let flights = Rows::read(&plan.files.path("flights"), "id", progress)?;
        let rows = flights.len() as u64;
        timetable = Some(Timetable::new(flights, plan.workers)?);
        Ok(rows)
    })?;
    timetable.ok_or_else(|| CliError::new("the timetable was not read"))
}

fn act(
    plan: &Plan,
    board: &Board,
    mut stage: Stage<'_>,
    programs: &mut [Program; 2],
    begin: &Reading,
) -> Result<Results> {
    let db = &board.db;
    stage.wait("warming up", WARM_UP, |heard| heard.ready.iter().all(|ready| *ready))?;
    let before = stage.measure("before", plan.time)?;
    let during = analyse(plan, &mut stage, programs)?;
    // The owner hears of the end of a process from the kernel, a moment later.
    stage.wait("ending", SETTLE, |_| true)?;
    let after = stage.measure("after", plan.time)?;
    let pids = programs.each_ref().map(Program::pid);
    let left = db.snapshots().into_iter().filter(|lease| pids.contains(&lease.pid)).count();
    let kept = db.counters();
    let (tally, heard) = stage.stop()?;
    let mut checks = heard.checks;
    // Other processes may attach to the board too, and keep some of its memory.
    checks.add(
        "leases ended with their processes, and nothing is kept for them",
        left == 0 && (kept.snapshots > 0 || kept.memory_kept_bytes == 0),
        &format!("{left} leases, {} bytes kept", kept.memory_kept_bytes),
    );
    checks.add(
        "writers copied what a snapshot showed before they changed it",
        during.bytes_copied_on_write > 0,
        &format!("{during:?}"),
    );
    let commits = db.counters().commits - begin.counters.commits;
    checks.add(
        "each event of the replay is one commit",
        commits == tally.events,
        &format!("{commits} commits, {} events", tally.events),
    );
    check_live(db, &tally, &mut checks)?;
    Ok(Results { before, during, after, snapshots: heard.snapshots, checks })
}

/// Lets the analyst and the painter do their work, and measures the load meanwhile.
fn analyse(
    plan: &Plan,
    stage: &mut Stage<'_>,
    [analyst, painter]: &mut [Program; 2],
) -> Result<Phase> {
    let name = "during";
    stage.begin_phase();
    stage.note("analyst", &format!("process {} attaches to {BOARD}", analyst.pid()));
    analyst.tell("go");
    stage.wait(name, Duration::ZERO, |heard| heard.published)?;
    stage.note("painter", &format!("process {} attaches to {CLUSTERS}", painter.pid()));
    painter.tell("go");
    stage.wait(name, Duration::ZERO, |heard| heard.is_done(Who::Painter))?;
    stage.wait_for_phase(name, plan.time)?;
    analyst.tell("end");
    stage.wait(name, Duration::ZERO, |heard| heard.is_done(Who::Analyst))?;
    let during = stage.end_phase();
    stage.say(name, &during);
    analyst.finish()?;
    painter.finish()?;
    Ok(during)
}

/// Compares the live database, now at rest, with what the workers did and with itself.
fn check_live(db: &Database, tally: &Tally, checks: &mut Checks) -> Result<()> {
    let mut session = SqlSession::on_database(db.clone());
    let flights = numbers(
        &mut session,
        "SELECT count(*), sum(CASE WHEN status = 'arrived' THEN 1 ELSE 0 END), \
         sum(CASE WHEN status = 'arrived' THEN arr_delay ELSE 0 END) FROM flights",
    )?;
    let wanted = [tally.scheduled as i64, tally.arrived as i64];
    checks.add(
        "live at the end: every flight that was replayed",
        flights.get(..2) == Some(&wanted[..]),
        &format!("{flights:?}, replayed {wanted:?}"),
    );
    let totals = numbers(
        &mut session,
        "SELECT sum(arrivals)::bigint, sum(arr_delay_total)::bigint FROM airports",
    )?;
    let airlines =
        "SELECT sum(flights_arrived)::bigint, sum(arr_delay_total)::bigint FROM airlines";
    let airlines = numbers(&mut session, airlines)?;
    checks.add(
        "live at the end: totals = sums over the flights",
        flights.get(1..) == Some(&totals[..]) && totals == airlines,
        &format!("flights {flights:?}, airports {totals:?}, airlines {airlines:?}"),
    );
    Ok(())
}

/// The whole numbers of the first row of a query; NULL is 0.
fn numbers(session: &mut SqlSession, sql: &str) -> Result<Vec<i64>> {
    let Outcome::Rows(rows) = session.execute(sql)? else { return Ok(Vec::new()) };
    let Some(batch) = rows.batches().iter().find(|batch| batch.num_rows() > 0) else {
        return Ok(Vec::new());
    };
    let first = |column: &ArrayRef| match column.as_primitive_opt::<Int64Type>() {
        Some(values) if values.is_valid(0) => values.value(0),
        _ => 0,
    };
    Ok(batch.columns().iter().map(first).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use atoll::DatabaseOptions;

    use super::timetable::Kind;
    use super::*;

    fn files() -> Files {
        // Asked now: this may have been compiled for another clone with the same target.
        let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
        Files::find(&Path::new(&here).join("../../demo/data")).unwrap()
    }

    fn timetable(workers: usize) -> Timetable {
        let flights = Rows::read(&files().path("flights"), "id", &mut |_| {}).unwrap();
        Timetable::new(flights, workers).unwrap()
    }

    #[test]
    fn the_year_has_the_events_that_its_data_tells() {
        let timetable = timetable(2);
        let events: Vec<_> = (0..2).flat_map(|worker| timetable.events(worker)).collect();
        let count = |kind| events.iter().filter(|event| event.kind == kind).count();
        assert_eq!(count(Kind::Schedule), 336_776);
        assert_eq!(count(Kind::Depart), 336_776 - 8_255);
        assert_eq!(count(Kind::Cancel), 8_255);
        assert_eq!(count(Kind::Divert), 1_175);
        assert_eq!(count(Kind::Arrive), 327_346);
        for worker in 0..2 {
            let mut last = vec![None; timetable.flights.len()];
            for event in timetable.events(worker) {
                let before = last[event.row as usize].replace(event.kind);
                assert!(before < Some(event.kind), "{event:?} after {before:?}");
            }
        }
    }

    #[test]
    fn wherever_the_replay_stops_the_totals_are_the_sums_over_the_flights() {
        let limit = Some(1 << 30);
        let options = DatabaseOptions { memory_limit_bytes: limit, ..Default::default() };
        let board = Board::create(Database::create(options).unwrap()).unwrap();
        board.load(&files(), &Screen::new(Style::plain())).unwrap();
        let mut replay = Replay::start(&board, timetable(3), 3).unwrap();
        while replay.tally().arrived < 5_000 {
            replay.check().unwrap();
            std::thread::yield_now();
        }
        replay.stop().unwrap();
        let mut checks = Checks::default();
        check_live(&board.db, &replay.tally(), &mut checks).unwrap();
        assert_eq!(checks.counts(), (2, 2), "{checks:?}");
    }

    #[test]
    fn a_folder_without_the_data_is_refused_with_what_to_do() {
        let error = Files::find(Path::new("/nowhere")).err().unwrap();
        assert!(error.to_string().contains("airports.parquet"), "{error}");
        assert!(error.hint().unwrap().contains("--flights"));
    }
}
