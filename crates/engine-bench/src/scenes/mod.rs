//! Scenes of the log: what staging costs, commits during a checkpoint, many idle streams, openings.

mod checkpoint;
mod replay;
mod staging;
mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use highwater_log::options::{Durability, Options};
use highwater_sys::file::File;
use highwater_sys::process;

pub use checkpoint::Checkpoint;
pub use replay::Replay;
pub use staging::Staging;
pub use table::Table;

use crate::measure::NotMeasured;
use crate::scene::Scene;

const MIB: f64 = 1_048_576.0;

/// All scenes, at a size.
pub fn all(streams: u32, retained_bytes: u64) -> Vec<Arc<dyn Scene>> {
    vec![
        Arc::new(Staging { streams }),
        Arc::new(Checkpoint { streams: 1000 }),
        Arc::new(Table { streams }),
        Arc::new(Replay { retained_bytes }),
    ]
}

/// Settings with which nothing moves home by itself, up to so many bytes of log.
fn without_checkpoints(log_bytes: u64, durability: Durability) -> Options {
    let defaults = Options::default();
    let max_wal_bytes =
        log_bytes.next_multiple_of(defaults.segment_bytes) + 4 * defaults.segment_bytes;
    Options {
        max_wal_bytes,
        checkpoint_wal_bytes: max_wal_bytes,
        // Checkpoints begin at half of it, too.
        max_image_bytes: 4 * max_wal_bytes,
        checkpoint_interval: Duration::from_secs(24 * 3600),
        durability,
        ..defaults
    }
}

/// Memory in RAM now, without what is only kept for later use.
fn resident_bytes() -> Result<u64, NotMeasured> {
    process::reset_peak_memory().ok();
    let memory = process::memory();
    let unknown = || NotMeasured::Unsupported("/proc does not tell how much memory is used".into());
    memory.map(|memory| memory.resident_bytes).ok_or_else(unknown)
}

/// Takes a store's files out of the page cache, except those of single streams.
fn drop_cache(dir: &Path) -> Result<(), NotMeasured> {
    let failed = |error: &dyn std::fmt::Display| NotMeasured::Failed(error.to_string());
    File::open_read(dir).and_then(|dir| dir.syncfs()).map_err(|error| failed(&error))?;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| failed(&error))? {
            let path = entry.map_err(|error| failed(&error))?.path();
            if path.is_dir() {
                if !path.ends_with("streams") {
                    folders.push(path);
                }
            } else {
                let file = File::open_read(&path).map_err(|error| failed(&error))?;
                file.drop_cache().map_err(|error| failed(&error))?;
            }
        }
    }
    Ok(())
}

fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
