//! Opening a store whose log holds much that has not moved home.

use std::path::Path;
use std::time::Instant;

use highwater_log::options::Durability;

use super::{MIB, drop_cache, without_checkpoints};
use crate::measure::{Around, Limits, NotMeasured};
use crate::random::Random;
use crate::scene::{Figure, Scene};
use crate::subjects::OpenLog;

const STREAMS: u32 = 1000;
const PAYLOAD_BYTES: usize = 256;
const APPENDS_UNDER_WAY: usize = 1024;

/// Appends without checkpoints, closes, opens.
#[derive(Debug, Clone, Copy)]
pub struct Replay {
    /// Bytes of log to retain.
    pub retained_bytes: u64,
}

impl Scene for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn about(&self, _limits: &Limits) -> String {
        let mib = self.retained_bytes >> 20;
        format!(
            "opening with {mib} MiB of log that hold {PAYLOAD_BYTES} B appends to {STREAMS} \
                 streams"
        )
    }

    fn most_bytes(&self, _limits: &Limits) -> u64 {
        // The log, and what moves home should a checkpoint follow the opening.
        3 * self.retained_bytes + (1 << 30)
    }

    fn run(&self, dir: &Path, around: &Around<'_>) -> Result<Vec<Figure>, NotMeasured> {
        let options = without_checkpoints(self.retained_bytes, Durability::Wal);
        let open = OpenLog::open(dir, &options)?;
        open.create_streams(STREAMS)?;
        let mut random = Random::new(around.limits.seed);
        let payload: Vec<u8> =
            std::iter::repeat_with(|| random.byte()).take(PAYLOAD_BYTES).collect();
        let mut appends = 0_u64;
        while open.counts().commit_bytes < self.retained_bytes {
            let mut last = None;
            for _ in 0..APPENDS_UNDER_WAY {
                last = Some(open.append(random.below(STREAMS), &payload)?);
                appends += 1;
            }
            open.wait(last)?;
        }
        let retained = open.counts().commit_bytes;
        drop(open);
        drop_cache(dir)?;
        let begun = Instant::now();
        let open = OpenLog::open(dir, &options)?;
        let opened = begun.elapsed();
        open.expect_streams(STREAMS)?;
        let seconds = opened.as_secs_f64();
        Ok(vec![
            Figure::new("log retained", "MiB", retained as f64 / MIB),
            Figure::new("opening", "ms", seconds * 1e3),
            Figure::new("replayed", "MiB/s", retained as f64 / MIB / seconds),
            Figure::new("appends replayed", "/s", appends as f64 / seconds),
        ])
    }
}
