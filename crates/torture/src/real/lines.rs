//! What goes between a process and the one that judges it: one line of orders in, a line for each
//! thing that happened out. A line that was cut off reports nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::settings::Nature;

/// What a process is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The store's directory, which exists.
    pub(crate) dir: PathBuf,
    /// The store.
    pub(crate) nature: Nature,
    /// First step of each worker that nobody acknowledged.
    pub(crate) from: Vec<u64>,
    /// First step of each worker that is not in the store: those before are repeated.
    pub(crate) known: Vec<u64>,
    /// Spare streams that are deleted.
    pub(crate) dropped: BTreeSet<String>,
}

/// What a process reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Report {
    /// Its process id.
    Pid { pid: u32 },
    /// The store is open, and work begins.
    Ready,
    /// The store was not opened.
    Refused { is_full: bool, why: String },
    /// When a stream ends by itself, ms since 1970; said before it is made.
    Ends { worker: u64, number: u64, not_before_ms: u64 },
    /// By when it has ended.
    EndsBy { worker: u64, number: u64, by_ms: u64 },
    /// A step was acknowledged.
    Acked { worker: u64, number: u64 },
    /// A step found the log full, and is tried again.
    Full { worker: u64, number: u64 },
    /// A spare stream is about to be deleted.
    Dropping { name: String },
    /// It was.
    Dropped { name: String },
    /// It was not, since the log is full.
    Kept { name: String },
    /// A reader saw so much of a worker's stream.
    Saw { name: String, made: u64, len: u64, crc: u32, is_closed: bool },
    /// A reader saw so much of a shared stream.
    SawShared { stream: usize, len: u64 },
    /// A reader has been everywhere without an error.
    Pass,
    /// The disk failed: told once for each operation and kind of file.
    Trouble { kind: String, operation: String, place: String },
    /// A write or barrier of a lane's log failed.
    LaneFailed { lane: u16 },
    /// A worker cannot go on.
    Stopped { worker: u64, why: String },
    /// A reader was refused by the disk.
    Unread { why: String },
    /// Something that must not be.
    Wrong { what: String },
    /// All workers have stopped.
    Ended,
}

/// Writes reports, each at once.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<Mutex<Box<dyn Write + Send>>>);

/// Nobody listens any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

impl Reporter {
    /// Begins on a line of its own: something else may have written to the same output.
    pub(crate) fn new(mut output: impl Write + Send + 'static) -> Result<Self, Gone> {
        output.write_all(b"\n").map_err(|_| Gone)?;
        Ok(Self(Arc::new(Mutex::new(Box::new(output)))))
    }

    /// Writes a line.
    pub(crate) fn say(&self, report: &Report) -> Result<(), Gone> {
        let mut line = serde_json::to_vec(report).expect("reports have no maps");
        line.push(b'\n');
        let mut output = self.0.lock().map_err(|_| Gone)?;
        output.write_all(&line).and_then(|()| output.flush()).map_err(|_| Gone)
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reporter")
    }
}

impl Report {
    /// Reads a line; `None` for one that is no report.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Kind;
    use super::*;

    #[test]
    fn orders_and_reports_come_back_as_they_were_written() {
        let orders = Orders {
            dir: PathBuf::from("/tmp/a b"),
            nature: Nature { kind: Kind::Power, seed: 7, planted: None },
            from: vec![1, 2],
            known: vec![1, 3],
            dropped: BTreeSet::from(["s0/7".to_owned()]),
        };
        let line = serde_json::to_string(&orders).unwrap();
        assert_eq!(serde_json::from_str::<Orders>(&line).unwrap(), orders);
        for report in [
            Report::Ready,
            Report::Acked { worker: 2, number: 17 },
            Report::Wrong { what: "a \"b\"\n".to_owned() },
        ] {
            let line = serde_json::to_string(&report).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(Report::of_line(&line), Some(report));
            assert_eq!(Report::of_line(&line[..line.len() - 1]), None);
        }
        assert_eq!(Report::of_line("running 1 test"), None);
    }
}
