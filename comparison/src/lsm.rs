//! fjall: a key of stream and offset per append, and `persist`.
//!
//! `persist` holds the journal's lock during its barrier, so appends of other threads wait for it
//! and are covered by the next one only if somebody asks for one for all of them. That is what
//! `Group` adds: whoever inserts last, of all who are at it, asks for one; the others wait.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use highwater_engine_bench::case::{Ack, Case};
use highwater_engine_bench::counting::Counters;
use highwater_engine_bench::subject::{Counts, Store, Subject, SubjectError, SubjectResult};

/// Streams whose first records are covered by one barrier.
const CREATES_AT_ONCE: u32 = 1000;

/// Who asks for barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// Every append, for itself.
    PerAppend,
    /// One append for all that wait.
    Group,
}

/// fjall as a subject.
pub struct Fjall {
    persist: Persist,
}

struct FjallStore {
    // Dropped before the database that it belongs to.
    keyspace: Keyspace,
    database: Database,
    persist: Persist,
    next: Vec<AtomicU64>,
    group: Mutex<Group>,
    changed: Condvar,
    counters: Counters,
}

/// Group commit: appends have numbers in the order in which they were inserted.
#[derive(Default)]
struct Group {
    /// Appends that are at their insert: a barrier waits for them.
    inserting: u64,
    inserted: u64,
    durable: u64,
    is_persisting: bool,
    failure: Option<String>,
}

impl Fjall {
    /// Measures fjall with barriers asked for so.
    pub fn new(persist: Persist) -> Self {
        Self { persist }
    }
}

impl Subject for Fjall {
    fn name(&self) -> &'static str {
        match self.persist {
            Persist::PerAppend => "fjall",
            Persist::Group => "fjall-group",
        }
    }

    fn refuses(&self, case: &Case) -> Option<String> {
        (case.ack != Ack::Barrier).then(|| "measured with a barrier only".to_owned())
    }

    fn open(&self, dir: &Path, case: &Case) -> SubjectResult<Box<dyn Store>> {
        // What is inserted goes to the kernel with its barrier, not with a write call of its own.
        let database = Database::builder(dir.join("fjall")).manual_journal_persist(true).open();
        let database = database.map_err(failed)?;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
        let keyspace = database.keyspace("streams", options).map_err(failed)?;
        Ok(Box::new(FjallStore {
            keyspace,
            database,
            persist: self.persist,
            next: (0..case.streams).map(|_| AtomicU64::new(1)).collect(),
            group: Mutex::default(),
            changed: Condvar::new(),
            counters: Counters::default(),
        }))
    }
}

impl FjallStore {
    fn insert(&self, stream: u32, index: u64, payload: &[u8]) -> SubjectResult<()> {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&stream.to_be_bytes());
        key[4..].copy_from_slice(&index.to_be_bytes());
        self.keyspace.insert(key, payload).map_err(failed)
    }

    fn barrier(&self) -> SubjectResult<()> {
        let begun = Instant::now();
        self.database.persist(PersistMode::SyncData).map_err(failed)?;
        self.counters.commit_barrier(begun.elapsed());
        Ok(())
    }

    /// Inserts, and waits until a barrier covers it, asking for one if nobody else will.
    fn append_in_group(&self, stream: u32, index: u64, payload: &[u8]) -> SubjectResult<()> {
        self.group().inserting += 1;
        let inserted = self.insert(stream, index, payload);
        let mut group = self.group();
        group.inserting -= 1;
        if let Err(error) = inserted {
            group.failure.get_or_insert_with(|| error.to_string());
            self.changed.notify_all();
            return Err(error);
        }
        group.inserted += 1;
        let own = group.inserted;
        loop {
            if let Some(why) = &group.failure {
                return Err(SubjectError::Failed(why.clone()));
            }
            if group.durable >= own {
                return Ok(());
            }
            if group.is_persisting || group.inserting > 0 {
                group = self.changed.wait(group).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            group.is_persisting = true;
            let covered = group.inserted;
            drop(group);
            let answer = self.barrier();
            group = self.group();
            group.is_persisting = false;
            match answer {
                Ok(()) => group.durable = group.durable.max(covered),
                Err(error) => group.failure = Some(error.to_string()),
            }
            self.changed.notify_all();
        }
    }

    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for FjallStore {
    fn create_streams(&self, count: u32) -> SubjectResult<()> {
        for stream in 0..count {
            self.insert(stream, 0, &[])?;
            if (stream + 1) % CREATES_AT_ONCE == 0 || stream + 1 == count {
                self.barrier()?;
            }
        }
        Ok(())
    }

    fn append(&self, stream: u32, payload: &[u8]) -> SubjectResult<()> {
        let next = &self.next[usize::try_from(stream).expect("32 bits fit")];
        let index = next.fetch_add(1, Ordering::Relaxed);
        match self.persist {
            Persist::PerAppend => {
                self.insert(stream, index, payload)?;
                self.barrier()
            }
            Persist::Group => self.append_in_group(stream, index, payload),
        }
    }

    fn settle(&self) -> SubjectResult<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(failed)?;
        self.database.persist(PersistMode::SyncAll).map_err(failed)
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.counters.read())
    }

    fn close(self: Box<Self>) -> SubjectResult<()> {
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> SubjectError {
    SubjectError::Failed(error.to_string())
}
