//! raft-engine: a region per stream, an entry per append, `write` with `sync` on.

use std::io::{Result as IoResult, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use highwater_engine_bench::case::{Ack, Case};
use highwater_engine_bench::counting::Counters;
use highwater_engine_bench::subject::{Counts, Store, Subject, SubjectError, SubjectResult};
use protobuf::descriptor::UninterpretedOption;
use raft_engine::env::{DefaultFileSystem, FileSystem, Handle, Permission, WriteExt};
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

/// Streams whose first records go into one batch.
const CREATES_AT_ONCE: u32 = 1000;

/// raft-engine as a subject.
pub struct RaftEngine;

struct RaftStore {
    engine: Engine<CountingFileSystem, Log>,
    /// Index of each stream's next entry, which has to follow the one before.
    next: Vec<Mutex<u64>>,
    counters: Arc<Counters>,
}

type Log = raft_engine::internals::FilePipeLog<CountingFileSystem>;
type RealHandle = <DefaultFileSystem as FileSystem>::Handle;
type RealReader = <DefaultFileSystem as FileSystem>::Reader;
type RealWriter = <DefaultFileSystem as FileSystem>::Writer;

/// An entry: a protobuf message that has a number and bytes will do.
struct Entry;

impl MessageExt for Entry {
    type Entry = UninterpretedOption;

    fn index(entry: &UninterpretedOption) -> u64 {
        entry.get_positive_int_value()
    }
}

impl Subject for RaftEngine {
    fn name(&self) -> &'static str {
        "raft-engine"
    }

    fn refuses(&self, case: &Case) -> Option<String> {
        (case.ack != Ack::Barrier).then(|| "measured with a barrier only".to_owned())
    }

    fn open(&self, dir: &Path, case: &Case) -> SubjectResult<Box<dyn Store>> {
        let counters = Arc::new(Counters::default());
        let config = Config {
            dir: dir.join("raft").to_string_lossy().into_owned(),
            // Payloads are random: nothing to gain.
            batch_compression_threshold: ReadableSize(0),
            // Files that are really written, so that a barrier has no metadata to carry.
            target_file_size: ReadableSize::mb(64),
            enable_log_recycle: true,
            prefill_for_recycle: true,
            prefill_limit: Some(ReadableSize::mb(256)),
            ..Config::default()
        };
        let file_system = Arc::new(CountingFileSystem { counters: Arc::clone(&counters) });
        let engine = Engine::open_with_file_system(config, file_system).map_err(failed)?;
        let next = (0..case.streams).map(|_| Mutex::new(1)).collect();
        Ok(Box::new(RaftStore { engine, next, counters }))
    }
}

impl RaftStore {
    fn add(batch: &mut LogBatch, stream: u32, index: u64, payload: &[u8]) -> SubjectResult<()> {
        let mut entry = UninterpretedOption::new();
        entry.set_positive_int_value(index);
        entry.set_string_value(payload.to_vec());
        // Region 0 is raft-engine's own.
        batch.add_entries::<Entry>(u64::from(stream) + 1, &[entry]).map_err(failed)
    }
}

impl Store for RaftStore {
    fn create_streams(&self, count: u32) -> SubjectResult<()> {
        let mut batch = LogBatch::default();
        for stream in 0..count {
            // A key with nothing in it: the region is known from then on.
            let region = u64::from(stream) + 1;
            batch.put(region, b"stream".to_vec(), Vec::new()).map_err(failed)?;
            if (stream + 1) % CREATES_AT_ONCE == 0 || stream + 1 == count {
                self.engine.write(&mut batch, true).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn append(&self, stream: u32, payload: &[u8]) -> SubjectResult<()> {
        let next = &self.next[usize::try_from(stream).expect("32 bits fit")];
        // Held until it is written: entries of a region follow each other.
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = LogBatch::with_capacity(1);
        Self::add(&mut batch, stream, *next, payload)?;
        self.engine.write(&mut batch, true).map_err(failed)?;
        *next += 1;
        Ok(())
    }

    fn settle(&self) -> SubjectResult<()> {
        self.engine.sync().map_err(failed)
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

/// raft-engine's own file system, with a count of what it is asked for.
struct CountingFileSystem {
    counters: Arc<Counters>,
}

struct CountingHandle {
    handle: Arc<RealHandle>,
    counters: Arc<Counters>,
}

struct CountingWriter {
    writer: RealWriter,
    counters: Arc<Counters>,
}

impl CountingFileSystem {
    fn counted(&self, handle: RealHandle) -> CountingHandle {
        CountingHandle { handle: Arc::new(handle), counters: Arc::clone(&self.counters) }
    }
}

impl FileSystem for CountingFileSystem {
    type Handle = CountingHandle;
    type Reader = RealReader;
    type Writer = CountingWriter;

    fn create<P: AsRef<Path>>(&self, path: P) -> IoResult<CountingHandle> {
        Ok(self.counted(DefaultFileSystem.create(path)?))
    }

    fn open<P: AsRef<Path>>(&self, path: P, permission: Permission) -> IoResult<CountingHandle> {
        Ok(self.counted(DefaultFileSystem.open(path, permission)?))
    }

    fn delete<P: AsRef<Path>>(&self, path: P) -> IoResult<()> {
        DefaultFileSystem.delete(path)
    }

    fn rename<P: AsRef<Path>>(&self, from: P, to: P) -> IoResult<()> {
        DefaultFileSystem.rename(from, to)
    }

    fn new_reader(&self, handle: Arc<CountingHandle>) -> IoResult<RealReader> {
        DefaultFileSystem.new_reader(Arc::clone(&handle.handle))
    }

    fn new_writer(&self, handle: Arc<CountingHandle>) -> IoResult<CountingWriter> {
        let writer = DefaultFileSystem.new_writer(Arc::clone(&handle.handle))?;
        Ok(CountingWriter { writer, counters: Arc::clone(&self.counters) })
    }
}

impl Handle for CountingHandle {
    fn truncate(&self, offset: usize) -> IoResult<()> {
        self.handle.truncate(offset)
    }

    fn file_size(&self) -> IoResult<usize> {
        self.handle.file_size()
    }

    fn sync(&self) -> IoResult<()> {
        let begun = Instant::now();
        let answer = self.handle.sync();
        self.counters.commit_barrier(begun.elapsed());
        answer
    }
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        let begun = Instant::now();
        let written = self.writer.write(bytes)?;
        self.counters.commit_write(written, begun.elapsed());
        Ok(written)
    }

    fn flush(&mut self) -> IoResult<()> {
        self.writer.flush()
    }
}

impl Seek for CountingWriter {
    fn seek(&mut self, to: SeekFrom) -> IoResult<u64> {
        self.writer.seek(to)
    }
}

impl WriteExt for CountingWriter {
    fn truncate(&mut self, offset: usize) -> IoResult<()> {
        self.writer.truncate(offset)
    }

    fn allocate(&mut self, offset: usize, size: usize) -> IoResult<()> {
        self.writer.allocate(offset, size)
    }
}
