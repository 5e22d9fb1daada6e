//! Brings a file into the state its case names, durably, before anything is timed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_report::case::{Case, FileState};
use highwater_sys::file::{Cache, File, NewFile, WriteSync};
use highwater_sys::{SysError, SysResult, dir};

use super::target::open_options;
use crate::error::CaseError;

/// Zeros are written in chunks of this many bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// Set-up goes through the page cache, whatever the case does.
const SETUP: NewFile = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };

/// Makes a file of a case at `path`, and opens it as the case asks.
///
/// # Errors
/// [`CaseError::Unsupported`] when the file system refuses allocation or the way of opening.
/// [`CaseError::Interrupted`] when asked to stop.
pub fn file(path: &Path, case: &Case, capacity: u64, stop: &AtomicBool) -> Result<File, CaseError> {
    fill(path, case.state, capacity, stop)?;
    File::reopen(path, open_options(case)).map_err(|error| CaseError::in_setup(&error))
}

/// Makes the new entries of a directory durable, then everything else on its file system, so that
/// what set-up and earlier cases left does not travel with the first measured barrier.
///
/// Gives the number of barriers this took.
///
/// # Errors
/// When a barrier fails.
pub fn settle(dir: &Path) -> Result<u64, CaseError> {
    let settle = || -> SysResult<()> {
        dir::sync_entries(dir)?;
        File::open_read(dir)?.syncfs()
    };
    settle().map_err(|error| CaseError::Failed(format!("set-up: {error}")))?;
    Ok(2)
}

/// Creates the file in its state and syncs it: one barrier.
fn fill(path: &Path, state: FileState, capacity: u64, stop: &AtomicBool) -> Result<(), CaseError> {
    let in_setup = |error: SysError| CaseError::in_setup(&error);
    let file = File::create_new(path, SETUP).map_err(in_setup)?;
    if state != FileState::Append {
        match file.allocate(capacity) {
            // Zeros are written in any case; allocation only keeps their extents together.
            Err(error) if state == FileState::Initialised && error.is_unsupported() => {}
            answer => answer.map_err(in_setup)?,
        }
    }
    if state == FileState::Initialised {
        write_zeros(&file, capacity, stop)?;
    }
    file.fsync().map_err(in_setup)?;
    // The first measured write must not find the zeros in the page cache of some cases only.
    file.drop_cache().map_err(in_setup)
}

fn write_zeros(file: &File, capacity: u64, stop: &AtomicBool) -> Result<(), CaseError> {
    let zeros = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < capacity {
        if stop.load(Ordering::Relaxed) {
            return Err(CaseError::Interrupted);
        }
        let left = usize::try_from(capacity - offset).unwrap_or(CHUNK_BYTES);
        let chunk = &zeros[..left.min(CHUNK_BYTES)];
        file.write_at(chunk, offset).map_err(|error| CaseError::in_setup(&error))?;
        offset += u64::try_from(chunk.len()).expect("a chunk's length fits u64");
    }
    Ok(())
}

/// Barriers that [`file`] asks for.
pub const BARRIERS_PER_FILE: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_length_and_reads_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let capacity = (CHUNK_BYTES + 8192) as u64;
        for (state, len) in [
            (FileState::Append, 0),
            (FileState::Allocated, capacity),
            (FileState::Initialised, capacity),
        ] {
            let path = dir.path().join(state.as_str());
            let case = Case { state, ..Case::DEFAULT };
            let file = file(&path, &case, capacity, &AtomicBool::new(false)).unwrap();
            assert_eq!(file.len(), Ok(len), "{state}");
            assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
        }
        assert_eq!(settle(dir.path()), Ok(2));
    }

    #[test]
    fn asking_to_stop_ends_the_writing_of_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let case = Case { state: FileState::Initialised, ..Case::DEFAULT };
        let stopped = file(&path, &case, 64 << 20, &AtomicBool::new(true));
        assert_eq!(stopped.unwrap_err(), CaseError::Interrupted);
    }
}
