//! Open files of a simulated disk.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::disk::lock;
use super::faults::OperationKind;
use super::names::FileId;
use super::state::{Call, Detail, State};
use crate::{Access, DIRECT_ALIGN, DiskError, DiskResult, ErrorKind, File};

/// Longest file, bytes: what a real system's offsets can express.
const MAX_FILE_BYTES: u64 = i64::MAX.cast_unsigned();

/// A handle on a file, usable until it or its disk's life ends.
pub(super) struct SimFile {
    state: Arc<Mutex<State>>,
    id: FileId,
    path: String,
    access: Access,
}

impl SimFile {
    pub(super) fn new(state: Arc<Mutex<State>>, id: FileId, path: &str, access: Access) -> Self {
        Self { state, id, path: path.to_owned(), access }
    }

    fn call<'a>(&'a self, kind: OperationKind, detail: Detail<'a>) -> Call<'a> {
        Call { kind, path: &self.path, detail }
    }

    fn check_range(&self, kind: OperationKind, offset: u64, len: usize) -> DiskResult<u64> {
        let refuse = |error, why: &str| DiskError::new(kind.name(), &self.path, error, why);
        let len = u64::try_from(len).expect("usize fits u64");
        let aligned = offset.is_multiple_of(DIRECT_ALIGN) && len.is_multiple_of(DIRECT_ALIGN);
        if self.access == Access::Direct && !aligned {
            let why = format!("offset {offset} or length {len} is not a multiple of 4096");
            return Err(refuse(ErrorKind::Misaligned, &why));
        }
        match offset.checked_add(len) {
            Some(end) if end <= MAX_FILE_BYTES => Ok(end),
            _ => Err(refuse(ErrorKind::Full, "beyond the longest file")),
        }
    }
}

impl File for SimFile {
    fn access(&self) -> Access {
        self.access
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.check_range(OperationKind::WriteAt, offset, bytes.len())?;
        let call = self.call(OperationKind::WriteAt, Detail::Bytes(offset, bytes));
        lock(&self.state).run(&call, |state, fault| state.write(self.id, (bytes, offset), fault))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        let kind = OperationKind::WriteDurableAt;
        self.check_range(kind, offset, bytes.len())?;
        let call = self.call(kind, Detail::Bytes(offset, bytes));
        lock(&self.state)
            .run(&call, |state, fault| state.write_durable(self.id, (bytes, offset), fault))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        let end = self.check_range(OperationKind::ReadAt, offset, bytes.len())?;
        let call = self.call(OperationKind::ReadAt, Detail::Range(offset, bytes.len()));
        lock(&self.state).run(&call, |state, _| {
            let view = &state.volume.file(self.id).view;
            if end > view.len() && !bytes.is_empty() {
                return Err((ErrorKind::EndOfFile, "the file ends before the last byte asked for"));
            }
            view.read(bytes, offset);
            Ok(())
        })
    }

    fn sync_data(&self) -> DiskResult<()> {
        let call = self.call(OperationKind::SyncData, Detail::None);
        lock(&self.state).run(&call, |state, fault| state.sync_data(self.id, fault.as_ref()))
    }

    fn allocate(&self, len: u64) -> DiskResult<()> {
        let call = self.call(OperationKind::Allocate, Detail::Length(len));
        lock(&self.state)
            .run(&call, |state, _| state.volume.allocate(self.id, len, state.operations))
    }

    fn len(&self) -> DiskResult<u64> {
        let call = self.call(OperationKind::Len, Detail::None);
        lock(&self.state).run(&call, |state, _| Ok(state.volume.file(self.id).view.len()))
    }

    fn truncate(&self, len: u64) -> DiskResult<()> {
        let call = self.call(OperationKind::Truncate, Detail::Length(len));
        lock(&self.state).run(&call, |state, _| {
            state.volume.truncate(self.id, len, state.operations);
            Ok(())
        })
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SimFile")
            .field("path", &self.path)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        // A crashed disk is evidence: it stays as it was, to be crashed again in another way.
        if !state.is_crashed() {
            state.volume.close(self.id);
        }
    }
}
