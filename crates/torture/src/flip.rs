//! A bit of every field of every file, and every file cut short: the store gives an error that
//! names the place, or exactly the right content.
//!
//! The store has everything that is ever written: several generations of the superblock, a
//! manifest, a table, home files with full and unfinished regions, segments full to the last block
//! and others, batches of several frames. Something vouches for every byte before bits are flipped:
//! the log is closed, so that its witness does, or opened once more, so that the new epoch's first
//! frame does. (What the very last batch of a process that was killed held cannot be told from a
//! batch that was torn.)

use std::collections::BTreeMap;

use highwater_disk::sim::{SimDisk, SimOptions};
use highwater_disk::{Access, Disk};
use highwater_log::Log;
use highwater_log::error::{LogError, OpenError};
use highwater_log::format::{BLOCK_BYTES, FrameHeader, Label, RecordHeader, Records, Verify};
use highwater_log::options::Options;
use highwater_log::request::{Append, Config, Create, End, Producer};

use crate::dice::Dice;
use crate::oracle::{Seen, look};
use crate::sim::{Setup, open};
use crate::verdict::{Layer, Verdict};

/// What readers have to see.
type Content = BTreeMap<String, Seen>;

/// Makes stores, and damages each at every field; `stride` leaves out all but one place in so many.
pub fn run(first: u64, stores: u64, stride: usize, mut progress: impl FnMut(u64)) -> Verdict {
    let mut verdict = Verdict::new(Layer::Flip);
    for seed in first..first.saturating_add(stores) {
        let mut dice = Dice::new(seed);
        let vouched = if seed.is_multiple_of(2) { Vouched::ByWitness } else { Vouched::ByEpoch };
        let store = Store::make(seed, vouched, &mut dice);
        for (path, len) in store.files() {
            let places = store.places(&path, len);
            let from = dice.index(stride.max(1)).min(places.len().saturating_sub(1));
            for byte in places.into_iter().skip(from).step_by(stride.max(1)) {
                let bit = u8::try_from(dice.below(8)).expect("below 8");
                let damaged = store.disk.fork();
                damaged.flip_bit(&path, byte, bit).expect("the file is there");
                store.judge(
                    &damaged,
                    &format!("bit {bit} of byte {byte} of {path}"),
                    seed,
                    &mut verdict,
                );
                progress(verdict.runs);
            }
            let cut = store.disk.fork();
            let file = cut.open(&path, Access::Buffered).expect("the file is there");
            file.truncate(len / 2).expect("no fault is planned");
            store.judge(&cut, &format!("{path} cut to {} bytes", len / 2), seed, &mut verdict);
        }
    }
    verdict
}

/// What vouches for a store's last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vouched {
    /// The witness of an orderly end.
    ByWitness,
    /// The first frame of the next epoch.
    ByEpoch,
}

/// A store to be damaged.
struct Store {
    disk: SimDisk,
    setup: Setup,
    content: Content,
}

impl Store {
    fn make(seed: u64, vouched: Vouched, dice: &mut Dice) -> Self {
        let options = Options {
            segment_bytes: 64 << 10,
            max_payload_bytes: 8 << 10,
            frame_bytes: 4 << 10,
            max_staged_bytes: 256 << 10,
            checkpoint_wal_bytes: 64 << 10,
            stream_lanes: 2,
            partition_streams: 2,
            ..Options::default()
        };
        let disk = SimOptions::seeded(seed);
        let setup = Setup::with(options, disk, None);
        let disk = setup.new_disk();
        let mut content = Content::new();
        for part in 0..4 {
            let opened = open(&disk, &setup, seed).expect("nothing fails");
            fill(&opened.log, dice, part);
            if part < 2 {
                opened.log.checkpoint().expect("nothing fails");
                opened.log.checkpoint().expect("nothing fails");
            }
            if part == 3 && vouched == Vouched::ByWitness {
                opened.log.close().expect("nothing fails");
                content = contents(&opened.log).expect("nothing fails");
            }
        }
        if vouched == Vouched::ByEpoch {
            let opened = open(&disk, &setup, seed).expect("nothing fails");
            content = contents(&opened.log).expect("nothing fails");
        }
        let disk = disk.crash_with(|_| true);
        Self { disk, setup, content }
    }

    fn files(&self) -> Vec<(String, u64)> {
        let mut files = Vec::new();
        for dir in ["", "manifest", "tables", "streams/0", "streams/1", "wal/0"] {
            for entry in self.disk.list(dir).expect("the store has it") {
                let path = format!("{dir}/{}", entry.name).trim_start_matches('/').to_owned();
                if !entry.is_dir {
                    let file = self.disk.open(&path, Access::Buffered).expect("it is listed");
                    files.push((path, file.len().expect("no fault is planned")));
                }
            }
        }
        files
    }

    /// Bytes of a file that stand for something, and some that stand for nothing.
    fn places(&self, path: &str, len: u64) -> Vec<u64> {
        let file = self.disk.open(path, Access::Buffered).expect("the file is there");
        let mut bytes = vec![0; usize::try_from(len).expect("a small file")];
        file.read_at(&mut bytes, 0).expect("no fault is planned");
        let is_label = path.ends_with(Label::NAME);
        let mut places: Vec<usize> = if path.starts_with("wal/") && !is_label {
            segment_places(&bytes)
        } else {
            let used = |block: &[u8]| block.iter().any(|byte| *byte != 0);
            let blocks = bytes.chunks(64).zip((0..).step_by(64)).filter(|(block, _)| used(block));
            let is_home = path.starts_with("streams/") && !is_label;
            let step = if is_home { 61 } else { 1 };
            let sums = if step == 1 { 0..0 } else { 0..64 };
            blocks
                .flat_map(|(block, at)| (at..at + block.len()).step_by(step))
                .chain(sums)
                .collect()
        };
        places.sort_unstable();
        places.dedup();
        places.retain(|place| *place < bytes.len());
        places.into_iter().map(|place| u64::try_from(place).expect("usize fits u64")).collect()
    }

    fn judge(&self, disk: &SimDisk, place: &str, seed: u64, verdict: &mut Verdict) {
        verdict.runs += 1;
        if let Err(what) = self.look_at(disk, verdict) {
            verdict.fail(format!("{place}: {what}"), &format!("--seeds 1 --seed {seed}"));
        }
    }

    fn look_at(&self, disk: &SimDisk, verdict: &mut Verdict) -> Result<(), String> {
        let opened = match open(disk, &self.setup, 1) {
            Ok(opened) => opened,
            Err(OpenError::Settings(why)) if !why.contains("superblock") => {
                return Err(format!("a wrong reason: {why}"));
            }
            Err(OpenError::Mismatch { .. } | OpenError::Locked) => {
                return Err("a wrong reason".to_owned());
            }
            Err(_) => {
                verdict.count("noticed at the opening", 1);
                return Ok(());
            }
        };
        let listed = opened.log.list("", None, 1000);
        if !self.content.keys().eq(&listed) {
            return Err(format!("the streams are {listed:?}"));
        }
        let mut noticed = false;
        for (name, expected) in &self.content {
            match look(&opened.log, name) {
                Ok(Some(seen)) if seen == *expected => {}
                Err(LogError::Damaged { .. } | LogError::Disk(_)) => noticed = true,
                Err(other) => return Err(format!("{name}: a wrong reason: {other}")),
                Ok(seen) => {
                    let len = seen.map_or(0, |seen| seen.content.len());
                    return Err(format!(
                        "{name} has {len} bytes or other ones, it should have {}",
                        expected.content.len()
                    ));
                }
            }
        }
        verdict.count(if noticed { "noticed by a reader" } else { "without effect" }, 1);
        Ok(())
    }
}

/// Bytes of a segment: its header's, each frame's, each record's, and some of payloads and padding.
fn segment_places(bytes: &[u8]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..72).chain([BLOCK_BYTES - 1]).collect();
    for at in (BLOCK_BYTES..bytes.len()).step_by(BLOCK_BYTES) {
        let Ok(frame) = FrameHeader::decode(&bytes[at..]) else {
            places.push(at);
            continue;
        };
        let body_len = usize::try_from(frame.body_len).expect("u32 fits usize");
        let body_at = at + FrameHeader::LEN;
        let Some(body) = bytes.get(body_at..body_at + body_len) else { continue };
        places.extend(at..body_at);
        places.push((body_at + body_len).next_multiple_of(BLOCK_BYTES) - 1);
        for record in Records::new(body, frame.record_count, Verify::Structure).flatten() {
            let start = body_at + record.at;
            let end = start + record.header.record_len();
            let fields = start..(start + RecordHeader::LEN + 24).min(end);
            places.extend(fields.chain([start.midpoint(end), end - 1]));
        }
    }
    places
}

fn fill(log: &Log, dice: &mut Dice, part: u64) {
    let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
    let own = format!("only/{part}");
    for name in ["a", "b", &own] {
        let create = Create { name, config: &config, payload: b"first", end: End::Open };
        log.create(&create).expect("nothing fails").wait().expect("nothing fails");
    }
    for number in 0..24_u64 {
        let len = dice.pick(&[3000, 4000 - 100, 8 << 10, 200]);
        let payload = dice.bytes(len);
        let name = dice.pick(&["a", "a", "a", "b", &own]);
        let id = format!("p{part}");
        let producer = (name == "b").then(|| Producer { id: &id, epoch: number, sequence: 0 });
        let append = Append {
            name,
            payload: &payload,
            end: End::Open,
            content_type: None,
            producer,
            sequence: None,
        };
        let ticket = log.append(&append).expect("nothing fails");
        // Several frames at once now and then.
        if dice.one_in(3) {
            drop(ticket);
        } else {
            ticket.wait().expect("nothing fails");
        }
    }
    if part > 0 {
        let gone = format!("only/{}", part - 1);
        log.delete(&gone).expect("nothing fails").wait().expect("nothing fails");
    }
    log.step();
}

fn contents(log: &Log) -> Result<Content, LogError> {
    let mut content = Content::new();
    for name in log.list("", None, 1000) {
        let seen = look(log, &name)?.expect("it is listed");
        content.insert(name, seen);
    }
    Ok(content)
}
