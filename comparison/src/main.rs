//! Other crates used as durable logs, beside Highwater's, by the same harness and in one run.
//!
//! `raft` and `lsm` make a subject of each crate; README.md says with what settings and why.

mod lsm;
mod raft;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use highwater_engine_bench::case::Ack;
use highwater_engine_bench::data::Row;
use highwater_engine_bench::plan::{Choice, Plan, Product, Wishes};
use highwater_engine_bench::runner::{Observer, Step};
use highwater_engine_bench::session::{Session, Title, json};
use highwater_engine_bench::subject::Subject;
use highwater_engine_bench::subjects::{Bare, LogSubject, Style};
use highwater_engine_bench::table;
use highwater_probe::site::Site;
use highwater_stats::units;

/// Measure Highwater's log, raft-engine and fjall as durable logs, in one run
#[derive(Debug, Parser)]
#[command(after_help = "Subjects: threads and futures (Highwater), raft-engine, fjall (a barrier \
    per append), fjall-group (one barrier for all that wait), bare (a file without a log).")]
struct Args {
    /// Directory to measure in
    directory: PathBuf,
    /// Writers
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values_t = [1, 64, 256])]
    writers: Vec<u32>,
    /// Streams
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values_t = [1000])]
    streams: Vec<u32>,
    /// Bytes of an append
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values_t = [256])]
    payload: Vec<u32>,
    /// Measured time of each case in each round
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Rounds; each case comes once in each on every subject
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// Measure only these subjects
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    only: Vec<String>,
    /// Most bytes the run may write
    #[arg(long, default_value = "128GiB", value_name = "SIZE", value_parser = units::parse_bytes)]
    max_bytes: u64,
    /// Name of the run
    #[arg(long, value_name = "NAME", default_value = "comparison")]
    name: String,
    /// Where run directories are kept
    #[arg(long, default_value = "runs", value_name = "DIR")]
    runs: PathBuf,
    /// Seed of payloads and of the order of streams
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Progress, a line for each measurement.
struct Lines {
    quiet: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let typed = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let stop = stop_on_signal()?;
    let subjects: Vec<Arc<dyn Subject>> = vec![
        Arc::new(LogSubject::new("threads", Style::Threads)),
        Arc::new(LogSubject::new("futures", Style::Tasks { reactors: 1 })),
        Arc::new(raft::RaftEngine),
        Arc::new(lsm::Fjall::new(lsm::Persist::PerAppend)),
        Arc::new(lsm::Fjall::new(lsm::Persist::Group)),
        Arc::new(Bare),
    ];
    let wishes = Wishes {
        product: Product {
            writers: args.writers.clone(),
            streams: args.streams.clone(),
            payload: args.payload.clone(),
            acks: vec![Ack::Barrier],
        },
        only: args.only.clone(),
        measured: Duration::try_from_secs_f64(args.seconds)?,
        rounds: args.rounds,
        seed: args.seed,
    };
    let plan = Plan::new(&wishes, &Choice { subjects, scenes: Vec::new() })?;
    let site = Site::open(&args.directory)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let title = Title { name: args.name.clone(), command: typed, version };
    let session = Session { plan: &plan, site: &site, stop: &stop, title, runs: &args.runs };
    session.check(args.max_bytes)?;
    say(&session.announcement());
    let ended = session.run(&mut Lines { quiet: args.quiet })?;
    let shown = if args.json { json(&ended.results) } else { table::tables(&ended.results) };
    std::io::stdout().lock().write_all(shown.as_bytes())?;
    say(&format!("\nkept in {}", ended.path.display()));
    Ok(match (ended.has_failed, ended.results.was_interrupted) {
        (true, _) => ExitCode::from(1),
        (_, true) => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    })
}

/// The first signal asks the run to end and keep what it has, the second ends it at once.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Writes a line to standard error; where nobody reads it any more, the run goes on all the same.
fn say(line: &str) {
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

impl Observer for Lines {
    fn started(&mut self, _step: &Step) {}

    fn measured(&mut self, step: &Step, row: Option<&Row>) {
        let Some(row) = row.filter(|_| !self.quiet) else { return };
        let rate = row.appends as f64 * 1e9 / row.elapsed_ns as f64;
        say(&format!(
            "round {}/{}, {}/{}: {}: {}, p50 {}",
            step.round + 1,
            step.rounds,
            step.position + 1,
            step.of,
            step.label,
            units::rate(rate),
            units::duration_ns(row.p50_ns)
        ));
    }

    fn stopped(&mut self, step: &Step, why: &str) {
        say(&format!("{}: {why}", step.label));
    }
}
