//! Models of a lane's threads, for loom: the lane itself, on the simulated disk, with two or three
//! threads that fall into every order (`RUSTFLAGS="--cfg loom"`, feature `planted`).
//!
//! Each model is run twice: as the lane is, which must hold, and with a bug planted into the order
//! of its steps, which must be caught, by a failed claim or since somebody waits for ever. Without
//! the second the first would show nothing.

mod rig;

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use highwater_disk::sim::{Fault, OperationKind};
use loom::thread::{Thread, current, park};

use crate::ids::Offset;
use crate::lane::waiters::Waiter;
use crate::lane::{Hold, Lane, Target};
use crate::planted::Planted;
use rig::{Rig, STREAM, append, create, explore, is_durable};

/// What a loom thread that polls is woken by.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The bytes that readers see of the stream, as far as they are in memory.
fn seen(lane: &Arc<Lane>) -> Vec<u8> {
    match lane.locate(Target::Name(STREAM), Offset(0), 1 << 20).expect("the stream is there") {
        crate::lane::Found::Here(located) => located.load().expect("it is in memory").to_vec(),
        crate::lane::Found::Inherited { .. } => panic!("it is no fork"),
    }
}

/// I1, I2: what a thread was told of is durable and can be read by then.
fn append_and_look(lane: &Arc<Lane>, disk: &highwater_disk::sim::SimDisk, payload: &[u8]) {
    append(lane, payload).wait().expect("the disk works");
    assert!(is_durable(disk, payload), "I1: acknowledged, and not durable");
    let seen = seen(lane);
    let is_seen = seen.windows(payload.len()).any(|window| window == payload);
    assert!(is_seen, "I1: acknowledged, and readers do not see it: {seen:?}");
}

/// Two threads append and wait; whichever comes first commits, perhaps for both, and what it leaves
/// is the committer's.
fn two_writers(rig: &Rig) {
    let committer = rig.spawn_committer();
    let other = rig.spawn_with(|lane, disk| append_and_look(lane, disk, b"other"));
    append_and_look(&rig.lane, &rig.disk, b"first");
    other.join().expect("what it claims holds");
    rig.stop(committer);
}

#[test]
fn loom_what_is_acknowledged_is_durable_and_readers_see_it() {
    explore(None, two_writers);
}

#[test]
#[should_panic(expected = "readers do not see it")]
fn loom_a_watermark_that_moves_before_the_frames_are_shown_is_caught() {
    explore(Some(Planted::MarkedBeforeShown), two_writers);
}

#[test]
#[should_panic(expected = "acknowledged, and not durable")]
fn loom_an_acknowledgement_before_the_barrier_is_caught() {
    explore(Some(Planted::AckBeforeBarrier), two_writers);
}

/// On a busy lane, threads wait behind gates for the committer.
fn writers_behind_gates(rig: &Rig) {
    // Two records in a commit: from here on, threads leave the next one to the committer.
    let (one, other) = (append(&rig.lane, b"a"), append(&rig.lane, b"b"));
    one.wait().expect("the disk works");
    other.wait().expect("the disk works");
    let committer = rig.spawn_committer();
    let other = rig.spawn(|lane| append(lane, b"other").wait().map(drop).expect("it works"));
    append(&rig.lane, b"first").wait().expect("the disk works");
    other.join().expect("what it claims holds");
    rig.stop(committer);
}

#[test]
fn loom_whoever_waits_behind_a_gate_is_let_through() {
    explore(None, writers_behind_gates);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_gate_joined_after_the_look_at_the_watermark_is_caught() {
    explore(Some(Planted::JoinedLate), writers_behind_gates);
}

/// A task waits for what a thread's commit left over: somebody has to call the committer.
fn task_beside_a_writer(rig: &Rig) {
    let committer = rig.spawn_committer();
    let writer = rig.spawn(|lane| append(lane, b"other").wait().map(drop).expect("it works"));
    let mut ticket = append(&rig.lane, b"first");
    let waker = Waker::from(Arc::new(Unpark(current())));
    while let Poll::Pending = std::pin::Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker))
    {
        park();
    }
    assert!(is_durable(&rig.disk, b"first"), "I1: acknowledged, and not durable");
    writer.join().expect("what it claims holds");
    rig.stop(committer);
}

#[test]
fn loom_a_task_is_woken_whoever_commits() {
    explore(None, task_beside_a_writer);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_committer_that_is_not_called_for_the_rest_is_caught() {
    explore(Some(Planted::CommitterForgotten), task_beside_a_writer);
}

/// A commit is under way for a stream whose slot becomes another's.
fn slot_used_again(rig: &Rig) {
    drop(append(&rig.lane, b"of the old"));
    let commits = rig.spawn(|lane| {
        lane.commit_step();
    });
    let renews = rig.spawn(|lane| {
        drop(lane.delete(STREAM).expect("it is there"));
        drop(create(lane, "new"));
    });
    if rig.lane.info("new").is_some() {
        assert!(is_durable(&rig.disk, b"new"), "I2: a stream is seen that may vanish");
    }
    commits.join().expect("the disk works");
    if rig.lane.info("new").is_some() {
        assert!(is_durable(&rig.disk, b"new"), "I2: a stream is seen that may vanish");
    }
    renews.join().expect("the disk works");
    while rig.lane.commit_step() {}
    assert!(rig.lane.info("new").is_some() && rig.lane.info(STREAM).is_none(), "I5");
}

#[test]
fn loom_a_slot_that_is_used_again_shows_nothing_of_its_new_stream_too_early() {
    explore(None, slot_used_again);
}

#[test]
#[should_panic(expected = "a stream is seen that may vanish")]
fn loom_a_slot_taken_for_the_stream_that_it_had_is_caught() {
    explore(Some(Planted::SlotMistaken), slot_used_again);
}

/// A reader waits for a stream's tail, or its end.
fn watcher(rig: &Rig, what: fn(&Arc<Lane>)) {
    let writer = rig.spawn(move |lane| {
        what(lane);
        while lane.commit_step() {}
    });
    while let Ok(Some(watch)) = rig.lane.watch(STREAM, Offset(0), Waiter::Thread(current())) {
        park();
        drop(watch);
    }
    writer.join().expect("the disk works");
}

fn watcher_of_bytes(rig: &Rig) {
    watcher(rig, |lane| drop(append(lane, b"bytes")));
    assert_eq!(seen(&rig.lane), b"bytes");
}

fn watcher_of_the_end(rig: &Rig) {
    watcher(rig, |lane| drop(lane.delete(STREAM).expect("it is there")));
}

#[test]
fn loom_watchers_are_woken_by_bytes_and_by_the_end() {
    explore(None, watcher_of_bytes);
    explore(None, watcher_of_the_end);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_watchers_of_what_ends_that_are_forgotten_are_caught() {
    explore(Some(Planted::WatchersForgotten), watcher_of_the_end);
}

/// A barrier fails while two threads wait: both hear of it, and nothing is acknowledged after it.
fn failed_barrier(rig: &Rig) {
    rig.disk.fail_next(OperationKind::SyncData, 1, Fault::FailedBarrierDropsPages);
    let fails = |lane: &Arc<Lane>, payload: &[u8]| {
        // It may come after the failure.
        let request = crate::request::Append {
            name: STREAM,
            payload,
            end: crate::request::End::Open,
            content_type: None,
            producer: None,
            sequence: None,
        };
        let done = lane.append(&request).and_then(crate::lane::commit::Ticket::wait);
        assert!(done.is_err(), "I10: acknowledged after a failed barrier");
    };
    let other = rig.spawn(move |lane| fails(lane, b"other"));
    fails(&rig.lane, b"first");
    other.join().expect("what it claims holds");
    assert!(seen(&rig.lane).is_empty(), "I2: seen, and not durable");
}

#[test]
fn loom_a_failed_barrier_is_told_to_all_who_wait() {
    explore(None, failed_barrier);
}

#[test]
#[should_panic(expected = "acknowledged after a failed barrier")]
fn loom_an_acknowledgement_in_spite_of_a_failed_barrier_is_caught() {
    explore(Some(Planted::AckBeforeBarrier), failed_barrier);
}

/// A thread whose record is durable waits until a checkpoint has made room.
fn held_back(rig: &Rig) {
    // From here on the next record's acknowledgement waits for a checkpoint.
    let mut state = rig.lane.lock();
    state.held.from = state.staging.next_record();
    drop(state);
    let keeper = rig.spawn(|lane| lane.hold(Hold::End));
    append(&rig.lane, b"held").wait().expect("the disk works");
    keeper.join().expect("what it claims holds");
}

#[test]
fn loom_whoever_waits_for_a_checkpoint_goes_on_after_it() {
    explore(None, held_back);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_wait_for_a_checkpoint_begun_after_the_look_is_caught() {
    explore(Some(Planted::JoinedLate), held_back);
}
