//! A thread that reads while others write, and reports what it saw: whatever a reader has seen has
//! to be there after any end of the process (I2).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_log::Log;
use highwater_log::error::{LogError, LogResult};
use highwater_log::ids::Offset;

use super::lines::{Gone, Report, Reporter};
use super::plan::SHARED;
use super::worker::pause;
use super::{made_by, records, shared_name};
use crate::dice::Dice;

/// Streams of workers' own that one pass reads.
const STREAMS_PER_PASS: usize = 3;
/// Bytes asked for at a time.
const READ_BYTES: u64 = 30_000;

/// How far a shared stream was read.
#[derive(Default)]
struct Place {
    offset: u64,
    /// The beginning of a record.
    rest: Vec<u8>,
}

/// Reads until it is over.
pub(super) fn read(
    log: &Log,
    reporter: &Reporter,
    seed: u64,
    is_over: &AtomicBool,
) -> Result<(), Gone> {
    let mut dice = Dice::new(seed);
    let mut places: [Place; SHARED] = std::array::from_fn(|_| Place::default());
    while !is_over.load(Ordering::Relaxed) {
        let done = pass(log, reporter, &mut dice, &mut places)?;
        match done {
            Ok(()) => reporter.say(&Report::Pass)?,
            Err(Trouble::Disk(why)) => reporter.say(&Report::Unread { why })?,
            Err(Trouble::Wrong(what)) => {
                return reporter.say(&Report::Wrong { what: format!("a reader: {what}") });
            }
        }
        pause();
    }
    Ok(())
}

enum Trouble {
    Disk(String),
    Wrong(String),
}

impl Trouble {
    fn of(name: &str, error: &LogError) -> Self {
        match error {
            LogError::Disk(_) | LogError::Poisoned(_) => Self::Disk(format!("{name}: {error}")),
            _ => Self::Wrong(format!("{name}: {error}")),
        }
    }
}

type Done = Result<Result<(), Trouble>, Gone>;

fn pass(log: &Log, reporter: &Reporter, dice: &mut Dice, places: &mut [Place; SHARED]) -> Done {
    for (stream, place) in places.iter_mut().enumerate() {
        if let Err(trouble) = follow(log, &shared_name(stream), place) {
            return Ok(Err(trouble));
        }
        reporter.say(&Report::SawShared { stream, len: place.offset })?;
    }
    let names = log.list("w", None, 1000);
    for _ in 0..STREAMS_PER_PASS.min(names.len()) {
        let name = dice.pick(&names);
        match whole(log, &name) {
            Ok(Some(saw)) => reporter.say(&saw)?,
            Ok(None) => {}
            Err(error) => return Ok(Err(Trouble::of(&name, &error))),
        }
    }
    Ok(Ok(()))
}

/// Reads on in a shared stream to its end.
fn follow(log: &Log, name: &str, place: &mut Place) -> Result<(), Trouble> {
    loop {
        let answer = log.read(name, Offset(place.offset), READ_BYTES);
        let answer = answer.map_err(|error| Trouble::of(name, &error))?;
        if answer.next == Offset(place.offset) {
            return Ok(());
        }
        place.rest.extend(answer.to_vec());
        place.offset = answer.next.0;
        let left = records::split(&place.rest, &mut BTreeMap::new());
        let left = left.map_err(|what| Trouble::Wrong(format!("{name}: {what}")))?;
        place.rest = left.to_vec();
    }
}

/// Reads a stream from its beginning; nothing if it is not the same one all the time.
fn whole(log: &Log, name: &str) -> LogResult<Option<Report>> {
    let Some(info) = log.info(name) else { return Ok(None) };
    let (mut from, mut crc) = (Offset(0), 0);
    let is_closed = loop {
        let answer = match log.read(name, from, READ_BYTES) {
            // It was deleted meanwhile.
            Err(LogError::Rejected(_)) => return Ok(None),
            answer => answer?,
        };
        if answer.next == from {
            break answer.is_closed && answer.tail == from;
        }
        crc = crc32c::crc32c_append(crc, &answer.to_vec());
        from = answer.next;
    };
    // The name may have been given to another stream; a number is given once.
    if log.info(name).is_none_or(|now| now.id != info.id) {
        return Ok(None);
    }
    let (name, made) = (name.to_owned(), made_by(&info.config.metadata));
    Ok(Some(Report::Saw { name, made, len: from.0, crc, is_closed }))
}
