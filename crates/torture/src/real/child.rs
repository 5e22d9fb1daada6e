//! The process under torture: opens a store, sets workers and a reader to it, and reports.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_log::Log;
use highwater_log::error::LogResult;
use highwater_log::request::{Config, Create, End};

use super::lines::{Gone, Orders, Report, Reporter};
use super::plan::SHARED;
use super::settings::{self, Opener, open};
use super::worker::{Worker, pause};
use super::{reader, shared_name};

/// Does what the line on `input` says, and reports on `output`, until the process is killed or no
/// worker can go on.
///
/// # Errors
/// Orders that cannot be read.
pub fn run(input: &mut dyn BufRead, output: impl Write + Send + 'static) -> Result<(), String> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| error.to_string())?;
    let orders: Orders = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    // Whoever gave the orders has gone: there is nobody to fail for.
    let reporter = Reporter::new(output);
    reporter.and_then(|reporter| live(&orders, &reporter)).or(Ok(()))
}

fn live(orders: &Orders, reporter: &Reporter) -> Result<(), Gone> {
    reporter.say(&Report::Pid { pid: std::process::id() })?;
    let opener = Opener::Child(reporter.clone());
    let log = match open(&orders.dir, orders.nature, opener) {
        Ok(log) => log,
        Err(error) => {
            let (is_full, why) = (settings::is_full(&error), error.to_string());
            return reporter.say(&Report::Refused { is_full, why });
        }
    };
    if !make_shared(&log, reporter)? {
        return reporter.say(&Report::Ended);
    }
    reporter.say(&Report::Ready)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers = (0..).zip(orders.from.iter().zip(&orders.known));
        let workers: Vec<_> = workers
            .map(|(worker, (from, known))| {
                let worker = Worker::new(&log, reporter, orders, (worker, *from, *known));
                scope.spawn(move || worker.run())
            })
            .collect();
        let reader = scope.spawn(|| reader::read(&log, reporter, orders.nature.seed, &is_over));
        let ended: Vec<_> = workers.into_iter().map(|worker| joined(worker.join())).collect();
        is_over.store(true, Ordering::Relaxed);
        let read = joined(reader.join());
        ended.into_iter().chain([read]).collect::<Result<(), Gone>>()
    })?;
    // Closing may fail to commit what nobody waits for: it was acknowledged to nobody either.
    drop(log);
    reporter.say(&Report::Ended)
}

fn joined<T>(outcome: std::thread::Result<T>) -> T {
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Makes the streams that all append to; gives false when the log cannot.
fn make_shared(log: &Log, reporter: &Reporter) -> Result<bool, Gone> {
    let config = Config { content_type: super::CONTENT_TYPE.to_owned(), ..Config::default() };
    for stream in 0..SHARED {
        let name = shared_name(stream);
        let create = Create { name: &name, config: &config, payload: b"", end: End::Open };
        let make = || -> LogResult<()> { log.create(&create)?.wait().map(drop) };
        for tries in 0_u64.. {
            match make() {
                // Once readers see it, it is as durable as it will be.
                Ok(()) if log.info(&name).is_some() => break,
                Ok(()) => pause(),
                Err(error) if error.is_lack_of_room() => {
                    if tries.is_multiple_of(64) {
                        for worker in 0..super::plan::WORKERS {
                            reporter.say(&Report::Full { worker, number: 0 })?;
                        }
                    }
                    pause();
                }
                Err(error) => {
                    let why = format!("{name}: {error}");
                    reporter.say(&Report::Stopped { worker: 0, why })?;
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}
