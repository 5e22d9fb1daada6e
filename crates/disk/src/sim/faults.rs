//! Faults: what goes wrong, at which call, and whether anybody is told.

use crate::random::SplitMix64;

/// The calls of a disk and its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the call of that name")]
pub enum OperationKind {
    Create,
    Open,
    CreateDir,
    List,
    Rename,
    Remove,
    SyncDir,
    SyncAll,
    Lock,
    FreeBytes,
    WriteAt,
    WriteDurableAt,
    ReadAt,
    SyncData,
    Allocate,
    Len,
    Truncate,
}

impl OperationKind {
    /// Name of the call.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::CreateDir => "create_dir",
            Self::List => "list",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::SyncDir => "sync_dir",
            Self::SyncAll => "sync_all",
            Self::Lock => "lock",
            Self::FreeBytes => "free_bytes",
            Self::WriteAt => "write_at",
            Self::WriteDurableAt => "write_durable_at",
            Self::ReadAt => "read_at",
            Self::SyncData => "sync_data",
            Self::Allocate => "allocate",
            Self::Len => "len",
            Self::Truncate => "truncate",
        }
    }

    /// Whether it changes what is stored or what is durable; such calls are the crash points.
    pub const fn is_mutating(self) -> bool {
        !matches!(
            self,
            Self::Open | Self::List | Self::Lock | Self::FreeBytes | Self::ReadAt | Self::Len
        )
    }

    /// Whether it opens a file or directory of its own.
    const fn is_opening(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Open | Self::List | Self::SyncDir | Self::SyncAll | Self::Lock
        )
    }

    const fn is_barrier(self) -> bool {
        matches!(self, Self::SyncData | Self::SyncDir | Self::SyncAll | Self::WriteDurableAt)
    }

    pub(super) const fn is_write(self) -> bool {
        matches!(self, Self::WriteAt | Self::WriteDurableAt)
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with `Io`. A write has then written any part of its bytes, from none to all,
    /// and made none of them durable; nothing else has any effect, and what was unsynced stays so.
    Eio,
    /// The call fails with `Full` and has no effect.
    Enospc,
    /// The call fails with `TooManyFiles` and has no effect: a barrier has not begun.
    Emfile,
    /// A write fails with `Full` after part of its bytes.
    ShortWrite,
    /// A barrier fails with `Io`, and what it should have covered is marked clean: reads still
    /// show it, it never becomes durable unless written again, and later barriers succeed.
    FailedBarrierDropsPages,
    /// A write is acknowledged, shown by reads until the crash, and never becomes durable.
    LostWrite,
    /// A write is acknowledged and its bytes land elsewhere, as far as that file reaches.
    MisdirectedWrite {
        /// File that gets the bytes.
        path: String,
        /// Where in it, bytes.
        offset: u64,
    },
}

impl Fault {
    fn fits(&self, kind: OperationKind) -> bool {
        match self {
            Self::Eio => true,
            Self::Enospc => kind.is_mutating(),
            Self::Emfile => kind.is_opening(),
            Self::ShortWrite | Self::LostWrite | Self::MisdirectedWrite { .. } => kind.is_write(),
            Self::FailedBarrierDropsPages => kind.is_barrier(),
        }
    }
}

/// When a planned fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Once, at the n-th matching call from now, counted from one.
    Nth(u64),
    /// At each matching call with a chance of one in n.
    OneIn(u64),
}

/// A fault to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// At which calls.
    pub kind: OperationKind,
    /// Only at paths that start with this; empty for all.
    pub path_prefix: String,
    /// At which of them.
    pub when: When,
    /// What goes wrong.
    pub fault: Fault,
}

/// The faults to come.
#[derive(Clone, Default)]
pub(super) struct Plans(Vec<PlannedFault>);

impl Plans {
    pub(super) fn add(&mut self, plan: PlannedFault) {
        assert!(plan.fault.fits(plan.kind), "{:?} cannot strike {:?}", plan.fault, plan.kind);
        let (When::Nth(n) | When::OneIn(n)) = plan.when;
        assert!(n > 0, "calls are counted from one");
        self.0.push(plan);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault that strikes this call, if any: the first planned of those due.
    pub(super) fn strike(
        &mut self,
        kind: OperationKind,
        path: &str,
        random: &mut SplitMix64,
    ) -> Option<Fault> {
        let mut struck = None;
        self.0.retain_mut(|plan| {
            if plan.kind != kind || !path.starts_with(&plan.path_prefix) {
                return true;
            }
            let due = match &mut plan.when {
                When::Nth(left) => {
                    *left -= 1;
                    *left == 0
                }
                When::OneIn(n) => random.one_in(*n),
            };
            if due && struck.is_none() {
                struck = Some(plan.fault.clone());
            }
            !(due && matches!(plan.when, When::Nth(_)))
        });
        struck
    }
}
