//! The floor: one block by direct I/O into an initialised file, and `fdatasync`, per append.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use highwater_sys::SysError;
use highwater_sys::buffer::AlignedBuf;
use highwater_sys::file::{Cache, File, NewFile, WriteSync};
use highwater_sys::time::nanos;

use crate::case::{Ack, Case};
use crate::subject::{Counts, Store, Subject, SubjectError, SubjectResult};

/// Bytes of the file; writes begin again at its start.
const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 4096;
const ZERO_CHUNK_BYTES: u64 = 1 << 20;

/// A file without any log around it. Several writers take turns: each append has a barrier of its
/// own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bare;

struct BareStore {
    file: File,
    state: Mutex<State>,
}

struct State {
    block: AlignedBuf,
    offset: u64,
    counts: Counts,
}

impl Subject for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn refuses(&self, case: &Case) -> Option<String> {
        (case.ack != Ack::Barrier).then(|| "it has a barrier per append, always".to_owned())
    }

    fn knows_streams(&self) -> bool {
        false
    }

    fn open(&self, dir: &Path, case: &Case) -> SubjectResult<Box<dyn Store>> {
        let direct = NewFile { cache: Cache::Direct, write_sync: WriteSync::None };
        let file = File::create_new(&dir.join("file"), direct).map_err(|error| answer(&error))?;
        fill(&file).map_err(|error| answer(&error))?;
        let block_bytes = u64::from(case.payload_bytes).next_multiple_of(BLOCK_BYTES);
        let len = usize::try_from(block_bytes).expect("32 bits fit");
        let align = usize::try_from(BLOCK_BYTES).expect("a small constant");
        let block = AlignedBuf::zeroed(len, align);
        let state = Mutex::new(State { block, offset: 0, counts: Counts::default() });
        Ok(Box::new(BareStore { file, state }))
    }
}

impl Store for BareStore {
    fn create_streams(&self, _count: u32) -> SubjectResult<()> {
        Ok(())
    }

    fn append(&self, _stream: u32, payload: &[u8]) -> SubjectResult<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { block, offset, counts } = &mut *state;
        block[..payload.len()].copy_from_slice(payload);
        let begun = Instant::now();
        self.file.write_at(block, *offset).map_err(|error| answer(&error))?;
        let written = Instant::now();
        self.file.fdatasync().map_err(|error| answer(&error))?;
        let len = u64::try_from(block.len()).expect("usize fits u64");
        counts.commits += 1;
        counts.commit_bytes += len;
        counts.write_ns += nanos(written - begun);
        counts.barrier_ns += nanos(written.elapsed());
        *offset = if *offset + 2 * len > FILE_BYTES { 0 } else { *offset + len };
        Ok(())
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.state.lock().unwrap_or_else(PoisonError::into_inner).counts)
    }

    fn close(self: Box<Self>) -> SubjectResult<()> {
        Ok(())
    }
}

fn fill(file: &File) -> Result<(), SysError> {
    file.allocate(FILE_BYTES)?;
    let chunk_bytes = usize::try_from(ZERO_CHUNK_BYTES).expect("a small constant");
    let zeros = AlignedBuf::zeroed(chunk_bytes, 4096);
    for chunk in 0..FILE_BYTES / ZERO_CHUNK_BYTES {
        file.write_at(&zeros, chunk * ZERO_CHUNK_BYTES)?;
    }
    file.fsync()
}

fn answer(error: &SysError) -> SubjectError {
    if error.is_unsupported() {
        return SubjectError::Unsupported(error.to_string());
    }
    SubjectError::Failed(error.to_string())
}
