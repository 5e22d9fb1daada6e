use highwater_log::request::End;
use highwater_streams::error::Problem;
use highwater_streams::service::{Append, Taken};

use crate::support::*;

fn sent(body: &str, epoch: u64, sequence: u64) -> Append<'_> {
    produced(append(TEXT, body), "p", epoch, sequence)
}

/// Point 20.
#[test]
fn a_producer_is_met_with_every_answer_of_the_protocol_and_its_numbers() {
    let store = Store::new(40);
    store.put("a", &create(TEXT, "")).unwrap();
    let post = |epoch, sequence| store.post("a", &sent("x", epoch, sequence));
    assert_eq!(post(0, 1), Err(Problem::ProducerGap { expected: 0, received: 1 }));
    assert_eq!(post(7, 2), Err(Problem::ProducerGap { expected: 0, received: 2 }));
    for sequence in 0..3 {
        let taken = post(1, sequence).unwrap();
        assert_eq!((taken.taken, taken.producer), (Taken::Now, Some((1, sequence))));
    }
    for sequence in 0..3 {
        let again = post(1, sequence).unwrap();
        assert_eq!((again.taken, again.producer), (Taken::Before, Some((1, 2))), "the highest");
    }
    assert_eq!(post(1, 5), Err(Problem::ProducerGap { expected: 3, received: 5 }));
    assert_eq!(post(0, 3), Err(Problem::ProducerFenced { current: 1 }));
    assert_eq!(post(2, 1), Err(Problem::ProducerEpochStart));
    assert_eq!(post(2, 0).unwrap().producer, Some((2, 0)));
    assert_eq!(post(1, 3), Err(Problem::ProducerFenced { current: 2 }));
    assert_eq!(store.all("a"), "xxxx");
}

/// Point 21.
#[test]
fn a_failed_append_moves_no_state_and_producers_do_not_see_each_other() {
    let store = Store::new(41);
    store.put("a", &create(JSON, "")).unwrap();
    let json = |body, sequence| produced(append(JSON, body), "p", 0, sequence);
    store.post("a", &json("1", 0)).unwrap();
    assert_eq!(code(store.post("a", &json("{", 1))), "INVALID_JSON");
    assert_eq!(code(store.post("a", &json("[]", 1))), "EMPTY_ARRAY");
    assert_eq!(code(store.post("a", &sent("x", 0, 1))), "CONTENT_TYPE_MISMATCH");
    assert_eq!(code(store.post("a", &sent("", 0, 1))), "EMPTY_BODY");
    assert_eq!(store.post("a", &json("2", 1)).unwrap().taken, Taken::Now);
    let other = produced(append(JSON, "3"), "q", 9, 0);
    assert_eq!(store.post("a", &other).unwrap().taken, Taken::Now);
    assert_eq!(store.all("a"), "[1,\n2,\n3]");
}

/// Points 21 and 22: with the power cut at any moment and every append sent again, each stands
/// once.
#[test]
fn what_is_sent_again_after_a_crash_is_answered_and_stands_once() {
    const APPENDS: u64 = 4;
    let mut nth = 0;
    loop {
        let seed = 1000 + nth;
        let store = Store::new(seed);
        store.put("a", &create(TEXT, "")).unwrap();
        store.disk.crash_after_operations(nth);
        let bodies: Vec<String> = (0..APPENDS).map(|sequence| format!("<{sequence}>")).collect();
        let mut acked = 0;
        for (sequence, body) in (0..).zip(&bodies) {
            if store.disk.is_crashed() {
                break;
            }
            let path = path("a");
            let request = sent(body, 0, sequence);
            let mut future = Box::pin(store.streams.append(&path, &request));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            for _ in 0..3 {
                if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
                    acked += u64::from(done.is_ok());
                    break;
                }
                store.log.step();
            }
        }
        let is_over = !store.disk.is_crashed();
        let store = store.crash();
        let found = store.all("a");
        let whole = bodies.concat();
        assert!(whole.starts_with(&found), "seed {seed}: {found}");
        assert!(found.len() as u64 >= 3 * acked, "seed {seed}: acknowledged, and gone");
        for (sequence, body) in (0..).zip(&bodies) {
            let taken = store.post("a", &sent(body, 0, sequence)).unwrap().taken;
            let was_there = found.len() as u64 > 3 * sequence;
            assert_eq!(taken == Taken::Before, was_there, "seed {seed} sequence {sequence}");
        }
        assert_eq!(store.all("a"), whole, "seed {seed}");
        if is_over {
            assert_eq!(acked, APPENDS);
            return;
        }
        nth += 1;
    }
}

/// Point 22.
#[test]
fn a_duplicate_is_acknowledged_only_when_the_original_is_durable() {
    let store = Store::new(42);
    store.put("a", &create(TEXT, "")).unwrap();
    let (path, request) = (path("a"), sent("x", 0, 0));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut original = Box::pin(store.streams.append(&path, &request));
    let mut duplicate = Box::pin(store.streams.append(&path, &request));
    assert!(original.as_mut().poll(&mut context).is_pending());
    assert!(duplicate.as_mut().poll(&mut context).is_pending(), "nothing is durable yet");
    drop(original);
    store.log.step();
    let std::task::Poll::Ready(answer) = duplicate.as_mut().poll(&mut context) else {
        panic!("the original is durable, although nobody waits for it");
    };
    assert_eq!(answer.unwrap().taken, Taken::Before);
}

/// Point 23.
#[test]
fn a_stream_remembers_as_many_producers_as_documented_and_forgets_the_one_longest_unused() {
    let store = Store::new(43);
    store.put("a", &create(TEXT, "")).unwrap();
    let most = store.options.max_producers;
    let ids: Vec<String> = (0..=most).map(|number| format!("p{number}")).collect();
    for id in &ids {
        store.post("a", &produced(append(TEXT, "x"), id, 0, 0)).unwrap();
    }
    let again = |id| store.post("a", &produced(append(TEXT, "y"), id, 0, 1));
    assert_eq!(again(&ids[0]), Err(Problem::ProducerGap { expected: 0, received: 1 }));
    for id in &ids[1..] {
        assert_eq!(again(id).unwrap().taken, Taken::Now, "{id}");
    }
}

/// Point 20: it does not go on behind an end (section 5.2.1).
#[test]
fn behind_the_end_a_producer_is_told_of_the_end_whatever_it_sends() {
    let store = Store::new(44);
    store.put("a", &create(TEXT, "")).unwrap();
    store.post("a", &sent("x", 1, 0)).unwrap();
    store.post("a", &close()).unwrap();
    for (epoch, sequence) in [(1, 0), (1, 1), (1, 7), (0, 0), (2, 3)] {
        assert_eq!(code(store.post("a", &sent("x", epoch, sequence))), "STREAM_CLOSED");
    }
    store.put("b", &create(TEXT, "")).unwrap();
    let closing = Append { end: End::Close, ..sent("x", 1, 0) };
    store.post("b", &closing).unwrap();
    let again = store.post("b", &sent("x", 1, 0)).unwrap();
    assert_eq!((again.taken, again.is_closed), (Taken::Before, true), "what closed it is known");
}
