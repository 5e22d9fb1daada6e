//! A table comes back exactly as it was, whatever happened to its streams before, between and after
//! the sections of a checkpoint, and whether it succeeded or not.

use std::collections::{BTreeMap, BTreeSet};

use highwater_disk::sim::{SimDisk, SimOptions};
use highwater_disk::{Access, Disk};
use proptest::prelude::*;

use super::section;
use super::tables::{Choose, Sections, write_all};
use crate::catalog::{Place, TABLES, path};
use crate::error::{Full, LogError, LogResult};
use crate::format::{
    Expiry, Extensions, ForkParent, Producer, RecordHeader, RecordKind, Section, SectionKind,
    SectionWriter, SnapshotHeader, StoreId,
};
use crate::ids::{LaneId, Lsn, Offset, StreamId};
use crate::lane::apply::{Effect, apply};
use crate::lane::segment::to_u64;
use crate::recover::{Loader, partitions};
use crate::table::files::to_empty;
use crate::table::slot::Flags;
use crate::table::stored::entry;
use crate::table::{SlotNo, Table};

const STORE: StoreId = StoreId(*b"a store of tests");
const LANE: LaneId = LaneId(3);

/// What a record says, owned.
#[derive(Debug, Clone)]
struct Record {
    at: Lsn,
    header: RecordHeader,
    name: Option<String>,
    expiry: Option<Expiry>,
    parent: Option<ForkParent>,
    producer: Option<(String, u64)>,
    sequence: Option<Vec<u8>>,
    touched_ms: Option<u64>,
}

impl Record {
    fn apply(&self, table: &mut Table) {
        let producer = self.producer.as_ref();
        let fields = Extensions {
            name: self.name.as_deref(),
            content_type: self.name.as_ref().map(|_| "text/plain"),
            expiry: self.expiry,
            fork_parent: self.parent,
            producer: producer.map(|(id, seq)| Producer { id: id.as_bytes(), epoch: 1, seq: *seq }),
            sequence: self.sequence.as_deref(),
            touched_ms: self.touched_ms.or(Some(self.at.0 / 7)),
            metadata: None,
        };
        let (at, header) = (self.at, &self.header);
        let effect = Effect { at, header, fields: &fields, max_producers: 3 };
        apply(table, &effect).unwrap_or_else(|error| panic!("{self:?}: {error}"));
    }
}

/// Something that happens to a table: which, to which stream, and how.
type Step = (u8, u8, u8);

/// A lane without a log: a table, its records, and a disk with its snapshots.
struct Bench {
    table: Table,
    limit: u32,
    disk: SimDisk,
    records: Vec<Record>,
    next_stream: u64,
    next_file: u64,
    published: Vec<Section>,
    /// Records from here on are replayed.
    replay_from: usize,
    /// What the home has of each stream, as the published sections say.
    absorbed: BTreeMap<StreamId, (Offset, u32)>,
    most_files: usize,
}

impl Bench {
    fn new(limit: u32) -> Self {
        let disk = SimDisk::new(SimOptions::seeded(1));
        disk.create_dir(TABLES).unwrap();
        let mut table = Table::unnamed(limit);
        table.index_names().unwrap();
        let (records, published) = (Vec::new(), Vec::new());
        let (next_stream, next_file, replay_from) = (0, 1, 0);
        let (absorbed, most_files) = (BTreeMap::new(), 0);
        Self {
            table,
            limit,
            disk,
            records,
            next_stream,
            next_file,
            published,
            replay_from,
            absorbed,
            most_files,
        }
    }

    fn stamp(&self) -> Lsn {
        Lsn(4096 + 64 * to_u64(self.records.len()))
    }

    fn streams(&self) -> Vec<SlotNo> {
        let mut all: Vec<_> = self.table.iter().map(|(at, slot)| (slot.id, at)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, at)| at).collect()
    }

    /// Does something to a stream that it can be done to, or makes another.
    fn step(&mut self, (what, which, how): Step) {
        let all = self.streams();
        let chosen = all.get(usize::from(which) % all.len().max(1)).copied();
        let Some(at) = chosen.filter(|_| what % 8 > 1) else { return self.create(chosen, how) };
        let closed = self.table.slot(at).flags.has(Flags::CLOSED);
        let kind = match what % 8 {
            2..=4 if !closed => RecordKind::Append,
            5 if !closed => RecordKind::Close,
            6 if how.is_multiple_of(4) => RecordKind::SoftDelete,
            6 => RecordKind::Touch,
            _ => RecordKind::Delete,
        };
        let slot = self.table.slot(at);
        let mut record = self.record(kind, slot.id, slot.tail);
        if kind == RecordKind::Append {
            record.header.payload_len = u32::from(how);
            record.header.closes = how > 240;
        }
        if matches!(kind, RecordKind::Append | RecordKind::Close) {
            record.producer =
                how.is_multiple_of(3).then(|| (format!("p{}", how % 5), u64::from(which)));
            record.sequence = how.is_multiple_of(7).then(|| vec![how, which]);
        }
        record.touched_ms = (kind == RecordKind::Touch).then(|| u64::from(how) * 1000);
        self.log(record);
    }

    /// Makes a stream, a fork sometimes; its name may be one that was free just now.
    fn create(&mut self, source: Option<SlotNo>, how: u8) {
        let name = format!("s{}", how / 2);
        if self.table.by_name(&name).is_some() {
            return;
        }
        let parent = source.filter(|_| how.is_multiple_of(3)).map(|at| self.table.slot(at));
        let parent = parent.map(|slot| ForkParent { stream: slot.id, offset: slot.tail });
        let kind = if parent.is_some() { RecordKind::Fork } else { RecordKind::Create };
        let start = parent.map_or(Offset(0), |parent| parent.offset);
        let mut record = self.record(kind, StreamId::new(LANE, self.next_stream), start);
        record.header.payload_len = u32::from(how % 2) * 50;
        let expiry = Expiry::Sliding { ttl_ms: u64::from(how) };
        (record.name, record.parent) = (Some(name), parent);
        record.expiry = how.is_multiple_of(5).then_some(expiry);
        self.next_stream += 1;
        self.log(record);
    }

    fn record(&self, kind: RecordKind, stream: StreamId, offset: Offset) -> Record {
        let (closes, ext_len, payload_len, payload_crc, prev) = (false, 0, 0, 0, 0);
        let header =
            RecordHeader { kind, closes, ext_len, payload_len, stream, offset, payload_crc, prev };
        Record {
            at: self.stamp(),
            header,
            name: None,
            expiry: None,
            parent: None,
            producer: None,
            sequence: None,
            touched_ms: None,
        }
    }

    fn log(&mut self, record: Record) {
        record.apply(&mut self.table);
        self.records.push(record);
    }

    /// Runs a checkpoint; `between` happens between its sections, one step after each. It fails
    /// after so many sections, if it is told to.
    fn checkpoint(&mut self, between: &[Step], fails_after: Option<usize>) {
        let replay_from = self.records.len();
        let mut absorbed = self.absorb(usize::from(between.first().map_or(1, |step| step.1)));
        let number = self.next_file;
        self.next_file += 1;
        let header = SnapshotHeader { store_id: STORE, lane: LANE, number };
        let bytes = header.encode().0.to_vec();
        let chain = header.encode().1;
        let out = SectionWriter::default();
        let (between, left) = (between.iter(), fails_after);
        let mut writing = Writing { bench: self, number, chain, bytes, out, between, left };
        let done = write_all(&mut writing);
        let bytes = std::mem::take(&mut writing.bytes);
        if done.is_err() {
            self.table.partitions_mut().give_up();
            return;
        }
        let file = self.disk.create(&path(TABLES, number), Access::Buffered).unwrap();
        file.write_at(&bytes, 0).unwrap();
        self.published = self.table.partitions().sections().copied().collect();
        let files = &mut self.table.partitions_mut().files;
        files.insert(number, to_u64(bytes.len()));
        self.table.partitions_mut().settle();
        self.replay_from = replay_from;
        absorbed.retain(|stream, _| self.table.by_id(*stream).is_some());
        self.absorbed = absorbed;
        let used: BTreeSet<u64> = self.published.iter().map(|section| section.number).collect();
        for number in 1..self.next_file {
            if !used.contains(&number) {
                self.disk.remove(&path(TABLES, number)).ok();
            }
        }
        self.most_files = self.most_files.max(used.len());
        self.keeps_its_bounds();
    }

    /// The home has the bytes of every n-th stream; gives what it has of each.
    fn absorb(&mut self, every: usize) -> BTreeMap<StreamId, (Offset, u32)> {
        let mut absorbed = BTreeMap::new();
        for (at, number) in self.streams().into_iter().zip(0_usize..) {
            let slot = self.table.slot_mut(at);
            if number.is_multiple_of(every.max(1)) && slot.absorbed < slot.tail {
                slot.absorbed = slot.tail;
                slot.region_crc = u32::try_from(slot.tail.0).unwrap() ^ 0x5a5a;
                self.table.note_change(at);
            }
            let slot = self.table.slot(at);
            absorbed.insert(slot.id, (slot.absorbed, slot.region_crc));
        }
        absorbed
    }

    /// Neither partitions nor their sections pile up, and no file is kept for nothing.
    fn keeps_its_bounds(&self) {
        let parts = self.table.partitions();
        let limit = usize::try_from(self.limit).unwrap();
        let live = usize::try_from(self.table.len()).unwrap();
        let numbers = usize::try_from(self.next_stream).unwrap();
        let count = partitions(&self.published).count();
        assert!(count <= 1 + numbers.div_ceil(limit), "{count} partitions of {numbers} numbers");
        let base_bytes = |section: &&Section| section.kind == SectionKind::Base;
        let bases: u32 = parts.sections().filter(base_bytes).map(|section| section.entries).sum();
        assert!(usize::try_from(bases).unwrap() <= 4 * live + 4 * limit, "{bases} for {live}");
        for part in partitions(&self.published) {
            let entries: Vec<u32> = part.sections.iter().map(|section| section.entries).collect();
            let (base, deltas) = entries.split_first().unwrap();
            assert!(deltas.iter().sum::<u32>() * 2 <= *base, "deltas are half a base: {entries:?}");
            assert!(
                deltas.windows(2).all(|pair| pair[0] > pair[1]),
                "they get smaller: {entries:?}"
            );
        }
    }

    /// The table as the next opening makes it.
    fn recovered(&self) -> Table {
        let table = Table::unnamed(self.limit);
        let mut loader = Loader::new(&self.disk, (STORE, LANE), table);
        for part in partitions(&self.published) {
            loader.begin(&part);
            for section in part.sections {
                loader.section(section, &part).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        let mut table = loader.finish().unwrap();
        for record in &self.records[self.replay_from..] {
            if record.at >= table.stamp(record.header.stream) {
                record.apply(&mut table);
            }
        }
        table.index_names().unwrap_or_else(|twice| panic!("one name: {twice:?}"));
        table
    }

    /// Compares the table with the one that the next opening makes, stream by stream; gives that.
    fn check(&self) -> Table {
        let recovered = self.recovered();
        assert_eq!(recovered.len(), self.table.len());
        for at in self.streams() {
            let id = self.table.slot(at).id;
            let found = recovered.by_id(id).unwrap_or_else(|| panic!("stream {id} is lost"));
            let mut expected = entry(&self.table, at);
            let start = expected.fork_parent.map_or(Offset(0), |parent| parent.offset);
            let absorbed = self.absorbed.get(&id).copied().unwrap_or((start, 0));
            (expected.absorbed, expected.region_crc) = absorbed;
            assert_eq!(entry(&recovered, found), expected);
            assert_eq!(recovered.by_name(self.table.name(at)), Some(found));
        }
        recovered
    }

    /// The process ends, and another opens what is there.
    fn restart(&mut self) {
        self.table = self.check();
    }
}

/// A checkpoint under way.
struct Writing<'a> {
    bench: &'a mut Bench,
    number: u64,
    chain: u32,
    bytes: Vec<u8>,
    out: SectionWriter,
    between: std::slice::Iter<'a, Step>,
    left: Option<usize>,
}

impl Sections for Writing<'_> {
    fn write(&mut self, choose: Choose<'_>) -> LogResult<Option<u64>> {
        if self.left == Some(0) {
            return Err(LogError::Full(Full::of_all("the disk")));
        }
        self.left = self.left.map(|left| left - 1);
        let stamp = self.bench.stamp();
        let table = &mut self.bench.table;
        let Some(chosen) = choose(table.partitions()) else { return Ok(None) };
        let (number, chain, position) = (self.number, self.chain, to_u64(self.bytes.len()));
        let place = Place { number, position, lane: LANE, chain };
        let next = section::write(table, chosen, (stamp, &place), &mut self.out).unwrap();
        self.bytes.extend_from_slice(self.out.bytes());
        if let Some(step) = self.between.next() {
            self.bench.step(*step);
        }
        Ok(Some(next))
    }

    fn len(&self) -> u64 {
        to_u64(self.bytes.len())
    }

    fn to_empty(&self) -> BTreeSet<u64> {
        let parts = self.bench.table.partitions();
        to_empty(&parts.files, parts.sections())
    }
}

/// A part of a history: steps, and how they end.
#[derive(Debug, Clone)]
enum Chapter {
    Steps(Vec<Step>),
    Checkpoint(Vec<Step>, Option<usize>),
    Restart,
}

fn chapters() -> impl Strategy<Value = Vec<Chapter>> {
    let steps = |most| prop::collection::vec(any::<Step>(), 0..most);
    let chapter = prop_oneof![
        4 => steps(30).prop_map(Chapter::Steps),
        4 => steps(8).prop_map(|between| Chapter::Checkpoint(between, None)),
        1 => (steps(8), 0..6_usize).prop_map(|(between, n)| Chapter::Checkpoint(between, Some(n))),
        1 => Just(Chapter::Restart),
    ];
    prop::collection::vec(chapter, 1..120)
}

/// Appends to the stream of this place.
const fn append(place: u8) -> Step {
    (2, place, 1)
}

/// Makes a stream with this number in its name, 127 at most.
const fn create(number: u8) -> Step {
    (1, 0, number * 2)
}

#[test]
fn files_and_sections_stay_few_and_small_however_many_checkpoints_change_a_little() {
    let mut bench = Bench::new(4);
    (0..60).for_each(|number| bench.step(create(number)));
    bench.checkpoint(&[], None);
    let len_of = |bench: &Bench| bench.table.partitions().files[&(bench.next_file - 1)];
    let whole = len_of(&bench);
    let mut written = 0;
    for round in 0..600_u16 {
        bench.step(append(u8::try_from(round * 7 % 60).unwrap()));
        bench.checkpoint(&[], None);
        written += len_of(&bench);
    }
    bench.check();
    assert!(bench.most_files <= 26, "{} files", bench.most_files);
    let header = to_u64(SnapshotHeader::LEN);
    let mean = written / 600 - header;
    assert!(mean < (whole - header) / 4, "{mean} bytes a time, {whole} for all");
}

#[test]
fn a_partition_begun_while_files_are_emptied_gets_its_section_too() {
    let mut bench = Bench::new(2);
    (0..108).for_each(|number| bench.step(create(number)));
    bench.checkpoint(&[], None);
    for pair in 1..25 {
        // In two partitions; first of all in the last one.
        bench.step(append(4 * pair));
        bench.step(append(if pair == 1 { 107 } else { 4 * pair + 2 }));
        bench.checkpoint(&[], None);
    }
    // One partition is written because it changed. Then the first file is emptied: the partition
    // behind its last one has no section when that one gets its stamp.
    bench.step(append(2));
    bench.checkpoint(&[append(2), create(108), create(109)], None);
    assert_eq!(bench.table.len(), 110);
    bench.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_table_is_recovered_exactly_whatever_happens_amid_checkpoints(
        chapters in chapters(), limit in 2..9_u32,
    ) {
        let mut bench = Bench::new(limit);
        for chapter in &chapters {
            match chapter {
                Chapter::Steps(steps) => steps.iter().for_each(|step| bench.step(*step)),
                Chapter::Checkpoint(between, fails) => bench.checkpoint(between, *fails),
                Chapter::Restart => bench.restart(),
            }
            bench.check();
        }
    }
}
