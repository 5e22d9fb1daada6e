//! The process that is killed: producers that append for ever, and report what was acknowledged.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use highwater_log::error::{LogError, LogResult};
use highwater_log::request::{Append, Config, Create, End, Producer};
use highwater_log::{Driver, Log};

use super::records::record;
use super::{PRODUCERS, SHARED, open, own};

/// What a child is told, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Orders {
    /// The directory.
    pub(super) dir: PathBuf,
    /// First sequence number of each producer that was not reported; 0 for the others.
    pub(super) next: BTreeMap<u64, u64>,
}

impl Orders {
    /// As one line.
    pub(super) fn to_line(&self) -> String {
        let next = (0..PRODUCERS).map(|p| self.next.get(&p).copied().unwrap_or(0).to_string());
        let next: Vec<String> = next.collect();
        format!("{}\t{}\n", next.join(" "), self.dir.display())
    }

    fn of_line(line: &str) -> Option<Self> {
        let (next, dir) = line.trim_end_matches('\n').split_once('\t')?;
        let next = next.split(' ').map(str::parse);
        let next = (0..).zip(next).map(|(p, next)| next.ok().map(|next| (p, next)));
        Some(Self { dir: PathBuf::from(dir), next: next.collect::<Option<_>>()? })
    }
}

/// Takes a report apart: producer and sequence number.
pub(super) fn parse_report(line: &str) -> Option<(u64, u64)> {
    let (producer, sequence) = line.strip_prefix("acked ")?.split_once(' ')?;
    Some((producer.parse().ok()?, sequence.parse().ok()?))
}

/// Does what the line on `input` says, and reports on `output`, until the process is killed.
///
/// # Errors
/// What made it stop before.
pub fn run(input: &mut dyn BufRead, output: &mut (dyn Write + Send)) -> Result<(), String> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| error.to_string())?;
    let orders = Orders::of_line(&line).ok_or("no orders")?;
    let log = open(&orders.dir, Driver::Threads)?;
    let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
    let names = (0..PRODUCERS).map(own).chain([SHARED.to_owned()]);
    for name in names {
        let create = Create { name: &name, config: &config, payload: b"", end: End::Open };
        let made = log.create(&create).and_then(highwater_log::lane::commit::Ticket::wait);
        made.map_err(|error| format!("{name}: {error}"))?;
    }
    let output = Mutex::new(output);
    report(&output, "ready")?;
    std::thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let (log, output, first) = (&log, &output, orders.next[&producer]);
                scope.spawn(move || produce(log, output, producer, first))
            })
            .collect();
        producers.into_iter().try_for_each(|producer| producer.join().expect("it does not panic"))
    })
}

/// One producer: even numbers to its own stream, odd ones to the shared one.
fn produce(
    log: &Log,
    output: &Mutex<&mut (dyn Write + Send)>,
    producer: u64,
    first: u64,
) -> Result<(), String> {
    let (own, id) = (own(producer), format!("producer {producer}"));
    for number in first.. {
        let name = if number % 2 == 0 { own.as_str() } else { SHARED };
        // Each stream has a row of numbers of its own.
        let sequence = number / 2;
        let payload = record(producer, sequence);
        loop {
            match append(log, name, &payload, Producer { id: &id, epoch: 0, sequence }) {
                Ok(()) => break,
                // Until a checkpoint has made room.
                Err(LogError::Full(_)) => std::thread::yield_now(),
                Err(error) => return Err(format!("{name}, {number} of {producer}: {error}")),
            }
        }
        report(output, &format!("acked {producer} {number}"))?;
    }
    Ok(())
}

fn append(log: &Log, name: &str, payload: &[u8], producer: Producer<'_>) -> LogResult<()> {
    let append = Append {
        name,
        payload,
        end: End::Open,
        content_type: None,
        producer: Some(producer),
        sequence: None,
    };
    log.append(&append)?.wait()?;
    Ok(())
}

/// Writes a line at once: a report is either whole or cut off.
fn report(output: &Mutex<&mut (dyn Write + Send)>, line: &str) -> Result<(), String> {
    let mut output = output.lock().map_err(|_| "another producer has panicked")?;
    let written = output.write_all(format!("{line}\n").as_bytes());
    written.and_then(|()| output.flush()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_reports_come_back_as_they_were_written() {
        let next = BTreeMap::from([(0, 3), (1, 0), (2, 9), (3, 1)]);
        let orders = Orders { dir: PathBuf::from("/tmp/a b"), next };
        assert_eq!(Orders::of_line(&orders.to_line()), Some(orders));
        assert_eq!(Orders::of_line("3 x\t/tmp\n"), None);
        assert_eq!(parse_report("acked 2 17"), Some((2, 17)));
        assert_eq!(parse_report("acked 2"), None);
    }
}
