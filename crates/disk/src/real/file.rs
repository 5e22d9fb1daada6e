//! An open file of a real file system.

use std::os::fd::BorrowedFd;

use highwater_sys::{SysError, file as sys_file, fsinfo};

use super::error_of;
use crate::{Access, DIRECT_ALIGN, DiskError, DiskResult, ErrorKind, File};

/// Longest file, bytes: what the system's offsets can express.
const MAX_FILE_BYTES: u64 = i64::MAX.cast_unsigned();

#[derive(Debug)]
pub(super) struct RealFile {
    file: sys_file::File,
    path: String,
    access: Access,
}

impl RealFile {
    pub(super) fn new(file: sys_file::File, path: &str, access: Access) -> Self {
        Self { file, path: path.to_owned(), access }
    }

    fn error(&self, operation: &'static str, error: SysError) -> DiskError {
        error_of(operation, &self.path, error)
    }

    /// Sees to it that what is written again needs no new space: copied on write it would, however
    /// much is reserved.
    fn overwrite_in_place(&self) -> DiskResult<()> {
        let failed = |error| self.error("allocate", error);
        let set = self.file.set_overwritten_in_place();
        let Some(name) = fsinfo::copies_on_write(&self.file).map_err(failed)? else {
            return match set {
                Err(error) if !error.is_unsupported() => Err(failed(error)),
                _ => Ok(()),
            };
        };
        if self.file.is_overwritten_in_place() == Ok(true) {
            return Ok(());
        }
        let why = set.err().map_or_else(String::new, |error| format!(" ({error})"));
        let why = format!(
            "{name} writes each block to a new place, and this file cannot be exempted{why}: use \
             another file system, or on btrfs a directory without compression (chattr +m)"
        );
        Err(DiskError::new("allocate", &self.path, ErrorKind::Unsupported, why))
    }

    /// Asks of every machine what the strictest asks, and refuses what no offset can express.
    fn check_range(&self, operation: &'static str, bytes: &[u8], offset: u64) -> DiskResult<()> {
        let len = u64::try_from(bytes.len()).expect("usize fits u64");
        let refuse = |kind, why: String| Err(DiskError::new(operation, &self.path, kind, why));
        if self.access == Access::Direct {
            let address = u64::try_from(bytes.as_ptr().addr()).expect("usize fits u64");
            let address = if bytes.is_empty() { 0 } else { address };
            if let Some(off) =
                [offset, len, address].iter().find(|number| !number.is_multiple_of(DIRECT_ALIGN))
            {
                return refuse(
                    ErrorKind::Misaligned,
                    format!(
                        "offset {offset}, length {len} and memory address {address} must be \
                         multiples of {DIRECT_ALIGN}; {off} is not"
                    ),
                );
            }
        }
        match offset.checked_add(len) {
            Some(end) if end <= MAX_FILE_BYTES => Ok(()),
            _ => refuse(ErrorKind::Full, "beyond the longest file".to_owned()),
        }
    }
}

impl File for RealFile {
    fn access(&self) -> Access {
        self.access
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.check_range("write_at", bytes, offset)?;
        self.file.write_whole_at(bytes, offset).map_err(|error| self.error("write_at", error))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.check_range("write_durable_at", bytes, offset)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.file
            .write_at_dsync(bytes, offset)
            .map_err(|error| self.error("write_durable_at", error))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        self.check_range("read_at", bytes, offset)?;
        self.file.read_at(bytes, offset).map_err(|error| {
            let mut told = self.error("read_at", error);
            if error.errno == SysError::SHORT {
                told.kind = ErrorKind::EndOfFile;
                "the file ends before the last byte asked for".clone_into(&mut told.message);
            }
            told
        })
    }

    fn send(&self, socket: BorrowedFd<'_>, offset: u64, len: u64) -> DiskResult<Option<u64>> {
        // The system sends at most so much in one call.
        let len = usize::try_from(len.min(1 << 30)).expect("1 GiB fits usize");
        match self.file.send(socket, offset, len) {
            Ok(0) if len > 0 => {
                let why = "the file ends before the last byte asked for";
                Err(DiskError::new("send", &self.path, ErrorKind::EndOfFile, why))
            }
            Ok(sent) => Ok(Some(u64::try_from(sent).expect("usize fits u64"))),
            Err(error) if error.is_not_now() => Ok(None),
            Err(error) => Err(self.error("send", error)),
        }
    }

    fn sync_data(&self) -> DiskResult<()> {
        self.file.fdatasync().map_err(|error| self.error("sync_data", error))
    }

    fn allocate(&self, len: u64) -> DiskResult<()> {
        if len == 0 {
            return Ok(());
        }
        self.overwrite_in_place()?;
        self.file.allocate(len).map_err(|error| self.error("allocate", error))
    }

    fn len(&self) -> DiskResult<u64> {
        self.file.len().map_err(|error| self.error("len", error))
    }

    fn truncate(&self, len: u64) -> DiskResult<()> {
        self.file.truncate(len).map_err(|error| self.error("truncate", error))
    }
}
