//! Claims about the home of one file per stream.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use highwater_disk::PublishedWriter;
use highwater_disk::sim::{
    Fault, OperationKind, PlannedFault, SimClock, SimDisk, SimOptions, TraceMode, When,
};
use proptest::prelude::*;

use super::*;
use crate::lane::Slice;
use crate::lane::segment::to_usize;

fn home(disk: &SimDisk, barrier: FileBarrier) -> Files {
    home_at(disk, barrier, &SimClock::new())
}

fn home_at(disk: &SimDisk, barrier: FileBarrier, clock: &SimClock) -> Files {
    let recheck_after = Duration::from_secs(10);
    let settings = FilesSettings { stream_lanes: 3, barrier, max_open_files: 4, recheck_after };
    Files::open(Arc::new(disk.clone()), Arc::new(clock.clone()), settings).unwrap()
}

/// Reads bytes `from..to`.
fn read(home: &Files, extent: Extent, from: Offset, to: Offset) -> LogResult<Vec<u8>> {
    let mut bytes = vec![0; to_usize(to.0 - from.0)];
    home.read(extent, from, &mut bytes)?;
    Ok(bytes)
}

/// Sends bytes from where they lie; nothing where they have to be read.
fn send(home: &Files, extent: Extent, from: Offset, to: Offset) -> LogResult<Option<Vec<u8>>> {
    let (here, mut there) = UnixStream::pair().unwrap();
    let Some(mut lent) = home.lend(extent, from, to)? else { return Ok(None) };
    let sender = std::thread::spawn(move || {
        while !lent.is_empty() {
            lent.send(here.as_fd()).unwrap();
        }
    });
    let mut bytes = Vec::new();
    there.read_to_end(&mut bytes).unwrap();
    sender.join().unwrap();
    Ok(Some(bytes))
}

/// Absorbs pieces one after the other, and gives what the home has.
fn fill(home: &Files, stream: StreamId, pieces: &[usize]) -> (Extent, Vec<u8>) {
    fill_from(home, stream, Offset(0), pieces)
}

fn fill_from(home: &Files, stream: StreamId, start: Offset, pieces: &[usize]) -> (Extent, Vec<u8>) {
    let mut whole: Vec<u8> = Vec::new();
    let mut crc = 0;
    for (number, len) in pieces.iter().enumerate() {
        let bytes: Vec<u8> =
            (0..*len).map(|at| u8::try_from((at * 7 + number) % 251).unwrap()).collect();
        let from = Offset(start.0 + to_u64(whole.len()));
        let slices = bytes.chunks(1 + bytes.len() / 3).map(|part| {
            // Such as a log's images have them.
            let mut image = PublishedWriter::new(part.len() + 5, 1);
            image.unpublished()[5..].copy_from_slice(part);
            image.publish(part.len() + 5);
            Slice::Image { image: image.reader(), range: 5..part.len() + 5 }
        });
        let absorb = Absorb { stream, from, slices: slices.collect(), region_crc: crc };
        assert_eq!((absorb.len(), absorb.is_empty()), (to_u64(bytes.len()), bytes.is_empty()));
        crc = home.absorb(&[absorb]).unwrap()[0];
        whole.extend(bytes);
    }
    let end = Offset(start.0 + to_u64(whole.len()));
    (Extent { stream, start, end, region_crc: crc }, whole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_range_reads_back_as_it_was_absorbed_in_whatever_pieces(
        pieces in prop::collection::vec(1..90_000_usize, 1..6),
        a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
        start in 0..200_000_u64,
    ) {
        let home = home(&SimDisk::new(SimOptions::seeded(3)), FileBarrier::Syncfs);
        let (extent, whole) = fill_from(&home, StreamId(9), Offset(start), &pieces);
        let (a, b) = (a.index(whole.len()), b.index(whole.len()));
        let (from, to) = (a.min(b), a.max(b) + 1);
        let at = |index| Offset(start + to_u64(index));
        let read = read(&home, extent, at(from), at(to)).unwrap();
        prop_assert_eq!(&read[..], &whole[from..to]);
        let sent = send(&home, extent, at(from), at(to)).unwrap().unwrap();
        prop_assert!(whole[from..to].starts_with(&sent) && !sent.is_empty());
    }
}

#[test]
fn what_a_barrier_covered_survives_a_crash_whichever_barrier_it_is() {
    for barrier in [FileBarrier::Syncfs, FileBarrier::Files] {
        for seed in 0..20 {
            let disk = SimDisk::new(SimOptions::seeded(seed));
            let home_before = home(&disk, barrier);
            let filled: Vec<_> =
                (1..8).map(|id| fill(&home_before, StreamId(id), &[70_000, 3, 9_000])).collect();
            home_before.barrier().unwrap();
            let after = home(&disk.crash(), barrier);
            for (extent, whole) in filled {
                let read = read(&after, extent, Offset(0), extent.end).unwrap();
                assert_eq!(&read[..], &whole[..], "{barrier:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_and_never_wrong_bytes() {
    // I6
    let disk = SimDisk::new(SimOptions::seeded(5));
    let files = home(&disk, FileBarrier::Syncfs);
    let (extent, _) = fill(&files, StreamId(2), &[150_000]);
    files.barrier().unwrap();
    let path = files.path(StreamId(2));
    for at in [4096, 4096 + 70_000, 4096 + 149_999, sum_position(1)] {
        let damaged = disk.fork();
        damaged.flip_bit(&path, at, 1).unwrap();
        let files = home(&damaged, FileBarrier::Syncfs);
        let read = read(&files, extent, Offset(0), extent.end);
        assert!(matches!(read, Err(LogError::Damaged { .. })), "byte {at}");
        let lent = files.lend(extent, Offset(0), extent.end);
        assert!(matches!(lent, Err(LogError::Damaged { .. })), "byte {at}");
    }
}

#[test]
fn a_failed_barrier_is_final_for_everything_that_was_absorbed() {
    // R1: the lane that asks next has lost bytes too.
    for barrier in [FileBarrier::Syncfs, FileBarrier::Files] {
        let disk = SimDisk::new(SimOptions::seeded(7));
        let files = home(&disk, barrier);
        fill(&files, StreamId(1), &[10]);
        let kind = match barrier {
            FileBarrier::Syncfs => OperationKind::SyncAll,
            FileBarrier::Files => OperationKind::SyncData,
        };
        disk.fail_next(kind, 1, Fault::FailedBarrierDropsPages);
        assert!(files.barrier().is_err());
        fill(&files, StreamId(2), &[10]);
        assert!(files.barrier().is_err(), "{barrier:?}");
    }
}

#[test]
fn a_reader_of_a_removed_stream_gets_an_error_and_leaves_nothing_behind() {
    // I11
    let disk = SimDisk::new(SimOptions::seeded(8));
    let files = home(&disk, FileBarrier::Files);
    let (extent, _) = fill(&files, StreamId(4), &[10]);
    files.remove(StreamId(4)).unwrap();
    assert!(read(&files, extent, extent.start, extent.end).is_err());
    assert!(files.lend(extent, extent.start, extent.end).is_err());
    files.barrier().unwrap();
    assert!(files.streams().unwrap().is_empty());
}

#[test]
fn a_removed_stream_is_gone_and_its_file_is_closed() {
    let disk = SimDisk::new(SimOptions::seeded(6));
    let files = home(&disk, FileBarrier::Syncfs);
    fill(&files, StreamId(4), &[10]);
    fill(&files, StreamId(5), &[10]);
    files.remove(StreamId(4)).unwrap();
    files.remove(StreamId(4)).unwrap();
    assert_eq!(files.streams().unwrap(), [StreamId(5)]);
}

#[test]
fn bytes_of_many_slices_take_one_write_and_full_regions_one_more() {
    let options = SimOptions { trace: TraceMode::Kept, ..SimOptions::seeded(9) };
    let disk = SimDisk::new(options);
    let files = home(&disk, FileBarrier::Syncfs);
    let writes = |pieces: &[usize]| {
        let before = disk.trace().len();
        fill(&files, StreamId(to_u64(before)), pieces);
        disk.trace()[before..].iter().filter(|line| line.contains(" write_at ")).count()
    };
    assert_eq!(writes(&[200]), 1);
    assert_eq!(writes(&[10_000, 200]), 2);
    assert_eq!(writes(&[200_000]), 2, "three regions are full");
    assert_eq!(writes(&[1_000_000]), 4, "a long slice is written from where it stands");
}

#[test]
fn what_was_checked_lately_is_sent_unread_and_checked_again_after_a_while() {
    // I6
    let options = SimOptions { trace: TraceMode::Kept, ..SimOptions::seeded(10) };
    let (disk, clock) = (SimDisk::new(options), SimClock::new());
    let files = home_at(&disk, FileBarrier::Syncfs, &clock);
    let (extent, whole) = fill(&files, StreamId(1), &[200_000]);
    let reads = || disk.trace().iter().filter(|line| line.contains(" read_at ")).count();
    let lend = || files.lend(extent, Offset(70_000), Offset(150_000));
    assert_eq!(lend().unwrap().unwrap().len(), 80_000);
    let once = reads();
    assert_eq!(once, 4, "two regions and their checksums");
    assert_eq!(lend().unwrap().unwrap().len(), 80_000);
    assert_eq!(reads(), once);
    disk.flip_bit(&files.path(StreamId(1)), 4096 + 80_000, 1).unwrap();
    assert!(read(&files, extent, Offset(70_000), Offset(150_000)).is_err(), "a copy is checked");
    clock.advance(Duration::from_secs(11));
    assert!(matches!(lend(), Err(LogError::Damaged { .. })));
    let (from, to) = (Offset(0), Offset(60_000));
    assert_eq!(send(&files, extent, from, to).unwrap().unwrap(), whole[..60_000]);
}

#[test]
fn bytes_that_a_stream_has_got_since_are_checked_before_they_are_sent() {
    // I6
    let disk = SimDisk::new(SimOptions::seeded(11));
    let files = home(&disk, FileBarrier::Syncfs);
    let (short, _) = fill(&files, StreamId(1), &[1000]);
    assert!(files.lend(short, Offset(0), Offset(1000)).unwrap().is_some());
    let (extent, _) = fill(&files, StreamId(1), &[1000, 1000]);
    disk.flip_bit(&files.path(StreamId(1)), 4096 + 1500, 1).unwrap();
    assert!(files.lend(extent, Offset(0), Offset(2000)).is_err());
}

#[test]
fn as_many_files_as_may_be_are_lent_and_no_more() {
    // I11
    let disk = SimDisk::new(SimOptions::seeded(12));
    let files = home(&disk, FileBarrier::Syncfs);
    let (one, _) = fill(&files, StreamId(1), &[1000]);
    let (two, _) = fill(&files, StreamId(2), &[1000]);
    let lent = files.lend(one, Offset(0), Offset(1000)).unwrap();
    assert!(lent.is_some());
    assert!(files.lend(two, Offset(0), Offset(1000)).unwrap().is_none(), "it has to be read");
    drop(lent);
    assert!(files.lend(two, Offset(0), Offset(1000)).unwrap().is_some());
}

#[test]
fn a_file_that_could_not_be_opened_for_a_barrier_is_covered_by_the_next_one() {
    // R1
    let disk = SimDisk::new(SimOptions::seeded(13));
    let files = home(&disk, FileBarrier::Files);
    let filled: Vec<_> = (1..8).map(|id| fill(&files, StreamId(id), &[5000])).collect();
    let (kind, path_prefix) = (OperationKind::Open, "streams/".to_owned());
    disk.plan(PlannedFault { kind, path_prefix, when: When::Nth(2), fault: Fault::Eio });
    assert!(files.barrier().is_err());
    files.barrier().unwrap();
    let after = home(&disk.crash_with(|_| false), FileBarrier::Files);
    for (extent, whole) in filled {
        assert_eq!(read(&after, extent, Offset(0), extent.end).unwrap(), whole);
    }
}
