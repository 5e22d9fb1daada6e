//! On btrfs, segments are overwritten in place, or a log is refused with the reason.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::error::OpenError;
use highwater_log::options::Options;
use highwater_log::{Driver, Log, Machine};

use super::*;

const BYTES: u64 = 256 << 20;

fn open(dir: &Path) -> Result<Log, OpenError> {
    let options = Options {
        segment_bytes: 64 << 10,
        max_payload_bytes: 8 << 10,
        frame_bytes: 16 << 10,
        ..Options::default()
    };
    let disk = RealDisk::open(dir).expect("the directory is there");
    let machine = Machine {
        disk: Arc::new(disk),
        clock: Arc::new(SystemClock::new()),
        rng: Box::new(SystemRng::new()),
    };
    Log::open(machine, &options, Driver::Caller)
}

/// Names of a directory's segments.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("wal/0")).expect("the log has a lane");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "seg")).collect()
}

/// Notes that a test did not run here, and why: one line.
fn not_run(why: &str) {
    let line = format!("NOT RUN: segments on btrfs: {}\n", why.replace('\n', "; "));
    eprint!("{line}");
    let Some(notes) = std::env::var_os("HIGHWATER_NOT_RUN_FILE") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file can be written");
}

#[test]
fn segments_on_btrfs_are_overwritten_in_place_and_where_they_cannot_be_the_log_is_refused() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    let (image, point) = (dir.path().join("image"), dir.path().join("point"));
    let image = match Image::make(FileSystem::Btrfs, image, BYTES, point) {
        Err(CampaignError::NotRun(why)) => return not_run(&why),
        made => made.expect("the machine works"),
    };
    let plain = image.point().join("plain");
    std::fs::create_dir(&plain).expect("a directory");
    let log = open(&plain).expect("btrfs takes a log");
    log.maintain();
    let made = segments(&plain);
    assert!(made.len() > 1, "{made:?}");
    for path in made {
        let file = File::open_read(&path).expect("it is listed");
        assert_eq!(file.is_overwritten_in_place(), Ok(true), "{}", path.display());
    }
    drop(log);
    // What is compressed is always written to a new place, and files inherit it.
    let compressed = image.point().join("compressed");
    std::fs::create_dir(&compressed).expect("a directory");
    if let Err(why) = run("chattr", &["+c", &compressed.display().to_string()]) {
        return not_run(&why);
    }
    let refused = open(&compressed).expect_err("a log that copies on write is refused").to_string();
    assert!(refused.contains("btrfs writes each block to a new place"), "{refused}");
}
