//! Many idle streams: making them, the memory they take, and opening a store that has them.

use std::path::Path;
use std::time::Instant;

use highwater_log::options::Options;
use highwater_sys::process;

use super::{MIB, drop_cache, per_second, resident_bytes};
use crate::measure::{Around, Limits, NotMeasured};
use crate::scene::{Figure, Scene};
use crate::subjects::OpenLog;

/// Bytes on disk that a stream without payload takes at most: its record, its entry in a table.
const MOST_STREAM_BYTES: u64 = 1024;

/// Makes streams, checkpoints, closes, opens.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// How many.
    pub streams: u32,
}

impl Scene for Table {
    fn name(&self) -> &'static str {
        "table"
    }

    fn about(&self, _limits: &Limits) -> String {
        format!("{} streams made, 1024 at a time under way; idle; opened again", self.streams)
    }

    fn most_bytes(&self, _limits: &Limits) -> u64 {
        u64::from(self.streams) * MOST_STREAM_BYTES + (1 << 30)
    }

    fn run(&self, dir: &Path, _around: &Around<'_>) -> Result<Vec<Figure>, NotMeasured> {
        let options = Options::default();
        let nothing = resident_bytes()?;
        let open = OpenLog::open(dir, &options)?;
        let empty = resident_bytes()?;
        let begun = Instant::now();
        open.create_streams(self.streams)?;
        let created = begun.elapsed();
        let begun = Instant::now();
        open.checkpoint()?;
        let checkpoint = begun.elapsed();
        let made = resident_bytes()?;
        drop(open);
        drop_cache(dir)?;

        let before = resident_bytes()?;
        let begun = Instant::now();
        let open = OpenLog::open(dir, &options)?;
        let opened = begun.elapsed();
        let peak = process::memory().map_or(0, |memory| memory.peak_bytes);
        let idle = resident_bytes()?;
        open.expect_streams(self.streams)?;
        let own = empty.saturating_sub(nothing);
        let per_stream =
            |now: u64, then: u64| now.saturating_sub(then) as f64 / f64::from(self.streams);
        Ok(vec![
            Figure::new("streams made", "/s", per_second(u64::from(self.streams), created)),
            Figure::new("checkpoint of the table", "ms", checkpoint.as_secs_f64() * 1e3),
            Figure::new("memory of a stream made", "B", per_stream(made, empty)),
            Figure::new("opening", "ms", opened.as_secs_f64() * 1e3),
            Figure::new("memory of a stream opened", "B", per_stream(idle, before + own)),
            Figure::new("process in RAM, idle", "MiB", idle as f64 / MIB),
            Figure::new("process in RAM, at most while opening", "MiB", peak as f64 / MIB),
        ])
    }
}
