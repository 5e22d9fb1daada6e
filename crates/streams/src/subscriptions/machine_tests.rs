//! Claims about what happens to a subscription, without a log.

use highwater_log::ids::Offset;
use proptest::prelude::*;

use super::*;
use crate::subscriptions::state::Room;
use crate::subscriptions::state::tests::{seen, subscription};

fn at(now_ms: u64) -> Turn {
    Turn {
        now_ms,
        wake_id: format!("w{now_ms}"),
        random: 20,
        room_bytes: u64::MAX,
        events: Vec::new(),
    }
}

fn webhook() -> Subscription {
    subscription(Delivery::Webhook { url: "https://worker.example/".to_owned() })
}

fn pull() -> Subscription {
    subscription(Delivery::PullWake { wake_stream: "wake".to_owned() })
}

fn tick(subscription: &mut Subscription, now_ms: u64) -> Option<Task> {
    let mut turn = at(now_ms);
    subscription.tick(&mut turn);
    let task = subscription.take_task(&turn)?;
    if let Task::Deliver { attempt } = task {
        assert_eq!(subscription.begin(&mut turn), Some(attempt));
    }
    Some(task)
}

fn sent(subscription: &Subscription, attempt: u32) -> Sent {
    let tails =
        subscription.links.iter().map(|(path, link)| (path.to_string(), link.tail)).collect();
    Sent { wake: subscription.wake().unwrap(), attempt, tails }
}

fn acks(tail: u64) -> Vec<(String, Offset)> {
    vec![("events/a".to_owned(), Offset(tail))]
}

/// Point 52.
#[test]
fn pending_work_wakes_once_with_a_new_generation() {
    let mut subscription = webhook();
    assert_eq!(tick(&mut subscription, 10), None, "nothing is pending");
    subscription.observe("events/a", seen(1, 5), Room::Free);
    assert_eq!(tick(&mut subscription, 20), Some(Task::Deliver { attempt: 0 }));
    assert_eq!((subscription.generation, subscription.wake().unwrap().wake_id), (1, "w20".into()));
    subscription.observe("events/a", seen(1, 9), Room::Free);
    assert_eq!(tick(&mut subscription, 30), None, "one wake is under way");
    assert_eq!(subscription.generation, 1);
}

/// Point 52.
#[test]
fn done_acknowledges_what_the_webhook_had_and_what_came_since_wakes_again() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 20);
    let first = sent(&subscription, 0);
    subscription.observe("events/a", seen(1, 9), Room::Free);
    subscription.delivered(&first, Delivered::Done, &mut at(30)).unwrap();
    assert_eq!((subscription.links["events/a"].acked, subscription.wake()), (Offset(5), None));
    assert_eq!(tick(&mut subscription, 31), Some(Task::Deliver { attempt: 0 }));
    assert_eq!((subscription.generation, subscription.wake().unwrap().wake_id), (2, "w31".into()));
    let second = sent(&subscription, 0);
    subscription.delivered(&first, Delivered::Done, &mut at(32)).unwrap();
    assert_eq!(subscription.generation, 2, "an old answer means nothing");
    subscription.delivered(&second, Delivered::Done, &mut at(33)).unwrap();
    assert_eq!((subscription.phase.clone(), subscription.due_ms()), (Phase::Idle, None));
}

/// Points 52 and 53.
#[test]
fn a_clock_that_is_set_back_makes_no_lease_and_no_pause_last() {
    let (later, lease_ms) = (365 * 86_400_000, 1000);
    let mut called = webhook();
    called.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut called, later);
    let first = sent(&called, 0);
    assert_eq!(tick(&mut called, later - 1000), None, "a second is nothing");
    called.delivered(&first, Delivered::Accepted, &mut at(later - 900)).unwrap();
    assert!(matches!(called.phase, Phase::Leased { .. }));
    assert_eq!(tick(&mut called, 1000), Some(Task::Deliver { attempt: 0 }), "its lease is over");
    let second = sent(&called, 0);
    called.delivered(&second, Delivered::Failed, &mut at(later)).unwrap();
    assert_eq!(tick(&mut called, later - 1000), None);
    assert_eq!(tick(&mut called, 5000), Some(Task::Deliver { attempt: 1 }), "nor is that pause");

    let mut pulled = pull();
    pulled.observe("events/a", seen(1, 5), Room::Free);
    pulled.claim("one", &mut at(later)).unwrap();
    let wake = pulled.wake().unwrap();
    assert!(pulled.claim("other", &mut at(later + lease_ms - 1)).is_err());
    pulled.claim("other", &mut at(1000)).unwrap();
    let fenced = pulled.release(&wake, &mut at(1000));
    assert_eq!(fenced, Err(Refusal::Fenced), "the first one's lease is over");
}

/// Point 52.
#[test]
fn a_webhook_that_fails_is_sent_again_later_and_later_as_the_same_wake() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 0);
    let wake = subscription.wake();
    let mut now_ms = 0;
    for (attempt, delay_ms) in
        [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000].into_iter().enumerate()
    {
        let attempt = u32::try_from(attempt).unwrap();
        let sent = sent(&subscription, attempt);
        subscription.delivered(&sent, Delivered::Failed, &mut at(now_ms)).unwrap();
        assert_eq!(subscription.due_ms(), Some(now_ms + delay_ms));
        assert_eq!(tick(&mut subscription, now_ms + delay_ms - 1), None);
        now_ms += delay_ms;
        let next = Task::Deliver { attempt: attempt + 1 };
        assert_eq!(tick(&mut subscription, now_ms), Some(next));
        assert_eq!(subscription.wake(), wake);
    }
}

/// Point 52: however short the lease is, and however late the outcome is told.
#[test]
fn a_receiver_that_lets_its_lease_end_has_failed_and_is_called_later_and_later_as_another_wake() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 0);
    let mut now_ms = 0;
    for (attempt, delay_ms) in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000].iter().enumerate() {
        let attempt = u32::try_from(attempt).unwrap();
        let (sent, wake) = (sent(&subscription, attempt), subscription.wake().unwrap());
        now_ms += 1000;
        assert_eq!(tick(&mut subscription, now_ms), None, "its lease is over");
        assert!(matches!(subscription.phase, Phase::Retrying { .. }), "it has failed");
        assert_eq!(subscription.due_ms(), Some(now_ms + delay_ms));
        subscription.delivered(&sent, Delivered::Failed, &mut at(now_ms)).unwrap();
        let late = subscription.ack(&wake, &acks(5), Progress::Done, &mut at(now_ms));
        assert_eq!((late, subscription.generation), (Err(Refusal::Fenced), u64::from(attempt) + 2));
        now_ms += delay_ms;
        let next = Task::Deliver { attempt: attempt + 1 };
        assert_eq!(tick(&mut subscription, now_ms), Some(next));
    }
}

/// Point 52.
#[test]
fn who_calls_back_in_time_is_heard_even_when_the_answer_was_lost() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 0);
    let (sent, wake) = (sent(&subscription, 0), subscription.wake().unwrap());
    subscription.delivered(&sent, Delivered::Failed, &mut at(10)).unwrap();
    let heard = subscription.ack(&wake, &acks(3), Progress::GoesOn, &mut at(20));
    assert_eq!(heard, Ok(false));
    assert_eq!(subscription.due_ms(), Some(1020), "a lease, and no other attempt");
    let done = subscription.ack(&wake, &acks(5), Progress::Done, &mut at(900));
    assert_eq!(done, Ok(false));
    assert_eq!(subscription.phase, Phase::Idle);
    let stale = subscription.ack(&wake, &acks(5), Progress::Done, &mut at(901));
    assert_eq!(stale, Err(Refusal::Fenced));
}

/// Point 52.
#[test]
fn a_receiver_that_calls_back_before_it_answers_keeps_its_lease() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 0);
    let (sent, wake) = (sent(&subscription, 0), subscription.wake().unwrap());
    subscription.ack(&wake, &[], Progress::GoesOn, &mut at(500)).unwrap();
    assert_eq!(tick(&mut subscription, 600), None, "it is not sent twice");
    subscription.delivered(&sent, Delivered::Accepted, &mut at(700)).unwrap();
    assert_eq!(subscription.due_ms(), Some(1500));
    assert_eq!(tick(&mut subscription, 1500), Some(Task::Deliver { attempt: 0 }));
    assert_eq!(subscription.generation, 2, "nobody was done with it in time");
    let late = subscription.ack(&wake, &acks(5), Progress::Done, &mut at(1501));
    assert_eq!(late, Err(Refusal::Fenced));
    assert_eq!(subscription.links["events/a"].acked, Offset(0));
}

/// Point 52.
#[test]
fn a_request_of_another_wake_or_after_the_lease_is_fenced_and_moves_nothing() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 0);
    let wake = subscription.wake().unwrap();
    let other_id = WakeRef { wake_id: "x".to_owned(), ..wake.clone() };
    let other_generation = WakeRef { generation: 2, ..wake.clone() };
    let before = subscription.clone();
    for (wake, now_ms) in [(&other_id, 1), (&other_generation, 1), (&wake, 1000)] {
        let mut turn = at(now_ms);
        let refused = subscription.ack(wake, &acks(5), Progress::Done, &mut turn);
        assert_eq!(refused, Err(Refusal::Fenced));
        assert_eq!(subscription.release(wake, &mut turn), Err(Refusal::Fenced));
        assert!(turn.events.is_empty());
    }
    let beyond = subscription.ack(&wake, &acks(6), Progress::Done, &mut at(1));
    assert!(matches!(beyond, Err(Refusal::BadRequest(_))));
    assert_eq!(subscription, before);
}

/// Point 53.
#[test]
fn a_wake_is_announced_claimed_by_one_worker_and_done() {
    let mut subscription = pull();
    assert_eq!(subscription.claim("one", &mut at(1)), Err(Refusal::NothingPending));
    subscription.observe("events/a", seen(1, 5), Room::Free);
    assert_eq!(tick(&mut subscription, 10), Some(Task::Announce { attempt: 0 }));
    let wake = subscription.wake().unwrap();
    subscription.announced(&wake, Ok(()), &mut at(11));
    assert_eq!((tick(&mut subscription, 5000), subscription.due_ms()), (None, None));
    subscription.claim("one", &mut at(6000)).unwrap();
    assert_eq!(subscription.wake().unwrap(), wake, "the wake that was announced");
    let busy = subscription.claim("two", &mut at(6999));
    assert_eq!(busy, Err(Refusal::AlreadyClaimed { holder: "one".to_owned(), generation: 1 }));
    subscription.ack(&wake, &acks(2), Progress::GoesOn, &mut at(6500)).unwrap();
    assert!(subscription.claim("two", &mut at(7499)).is_err(), "a heartbeat extends the lease");
    assert_eq!(subscription.ack(&wake, &acks(5), Progress::Done, &mut at(7499)), Ok(false));
    assert_eq!(subscription.links["events/a"].acked, Offset(5));
}

/// Point 53.
#[test]
fn what_is_released_or_runs_out_wakes_again_and_the_old_worker_is_fenced() {
    for releases in [true, false] {
        let mut subscription = pull();
        subscription.observe("events/a", seen(1, 5), Room::Free);
        subscription.claim("one", &mut at(0)).unwrap();
        let wake = subscription.wake().unwrap();
        if releases {
            subscription.release(&wake, &mut at(10)).unwrap();
        }
        assert_eq!(tick(&mut subscription, 1000), Some(Task::Announce { attempt: 0 }));
        assert_eq!(subscription.generation, 2);
        subscription.claim("two", &mut at(1001)).unwrap();
        let late = subscription.ack(&wake, &acks(5), Progress::Done, &mut at(1002));
        assert_eq!(late, Err(Refusal::Fenced));
    }
}

/// Point 53.
#[test]
fn a_lease_that_ran_out_can_be_claimed_before_anybody_has_noticed() {
    let mut subscription = pull();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    subscription.claim("one", &mut at(0)).unwrap();
    subscription.claim("two", &mut at(1000)).unwrap();
    assert_eq!(subscription.generation, 2);
    let holder = subscription.claim("three", &mut at(1001)).unwrap_err();
    assert_eq!(holder, Refusal::AlreadyClaimed { holder: "two".to_owned(), generation: 2 });
    assert_eq!(webhook().claim("x", &mut at(0)), Err(Refusal::WrongType("pull-wake")));
}

/// Point 53.
#[test]
fn a_wake_event_that_cannot_be_written_is_tried_again_and_can_be_claimed_meanwhile() {
    let mut subscription = pull();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 0);
    let wake = subscription.wake().unwrap();
    subscription.announced(&wake, Err(()), &mut at(5));
    assert_eq!(subscription.due_ms(), Some(1005));
    assert_eq!(tick(&mut subscription, 1004), None);
    assert_eq!(tick(&mut subscription, 1005), Some(Task::Announce { attempt: 1 }));
    subscription.claim("one", &mut at(1006)).unwrap();
    subscription.announced(&wake, Ok(()), &mut at(1007));
    assert!(matches!(subscription.phase, Phase::Leased { .. }), "claimed before it was written");
}

/// Point 54.
#[test]
fn a_restart_sends_again_what_was_on_its_way_and_keeps_leases_and_schedules() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    tick(&mut subscription, 0);
    let wake = subscription.wake();
    let restart = |subscription: &Subscription, now_ms: u64| {
        let mut again = Subscription::replay(&subscription.snapshot()).unwrap();
        again.observe("events/a", seen(1, 5), Room::Free);
        again.resume(&mut at(now_ms));
        again
    };
    let mut again = restart(&subscription, 100);
    assert_eq!((again.wake(), again.due_ms()), (wake.clone(), Some(1100)));
    assert_eq!(tick(&mut again, 1100), Some(Task::Deliver { attempt: 0 }));
    subscription.delivered(&sent(&subscription, 0), Delivered::Failed, &mut at(50)).unwrap();
    assert_eq!(restart(&subscription, 100).due_ms(), Some(1050), "the schedule is kept");
    let mut subscription = pull();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    subscription.claim("one", &mut at(0)).unwrap();
    let mut again = restart(&subscription, 100);
    assert!(again.claim("two", &mut at(999)).is_err(), "the lease is kept");
    let wake = subscription.wake().unwrap();
    assert_eq!(again.ack(&wake, &acks(5), Progress::Done, &mut at(999)), Ok(false));
}

/// Points 49 and 52: cursors never go back.
#[test]
fn an_older_acknowledgement_moves_nothing() {
    let mut subscription = pull();
    subscription.observe("events/a", seen(1, 9), Room::Free);
    subscription.claim("one", &mut at(0)).unwrap();
    let wake = subscription.wake().unwrap();
    for tail in [7, 3] {
        subscription.ack(&wake, &acks(tail), Progress::GoesOn, &mut at(1)).unwrap();
    }
    assert_eq!(subscription.links["events/a"].acked, Offset(7));
    let unknown = vec![("other".to_owned(), Offset(99))];
    subscription.ack(&wake, &unknown, Progress::GoesOn, &mut at(1)).unwrap();
    assert_eq!(subscription.links.len(), 1, "what is not followed is not looked at");
}

#[derive(Debug, Clone)]
enum Step {
    Append(u64),
    Tick,
    Begin,
    Outcome(Delivered),
    Announced(bool),
    Claim,
    Ack(u64, bool),
    Release,
    Restart,
    /// What was changed could not be written.
    Reread,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u64).prop_map(Step::Append),
        Just(Step::Tick),
        Just(Step::Begin),
        prop_oneof![Just(Delivered::Done), Just(Delivered::Accepted), Just(Delivered::Failed)]
            .prop_map(Step::Outcome),
        any::<bool>().prop_map(Step::Announced),
        Just(Step::Claim),
        (0..20_u64, any::<bool>()).prop_map(|(tail, done)| Step::Ack(tail, done)),
        Just(Step::Release),
        Just(Step::Restart),
        Just(Step::Reread),
    ]
}

proptest! {
    /// Points 52 to 54, in any order of what can happen: the generation never goes back, a wake has
    /// one id, cursors never go back nor beyond the tail, whatever is pending is under way or can
    /// be woken, and the journal makes the same subscription.
    #[test]
    fn in_any_order_of_events_nothing_is_lost_and_nothing_goes_back(
        steps in prop::collection::vec((step(), 0..1500_u64), 1..60), is_pull: bool
    ) {
        let mut subscription = if is_pull { pull() } else { webhook() };
        let mut journal = subscription.snapshot();
        let (mut now_ms, mut tail, mut acked) = (0, 0, Offset(0));
        let mut wakes: Vec<WakeRef> = Vec::new();
        for (number, (step, passed_ms)) in steps.into_iter().enumerate() {
            now_ms += passed_ms;
            let mut turn = Turn { wake_id: format!("w{number}"), ..at(now_ms) };
            let none = WakeRef { generation: 0, wake_id: String::new() };
            let wake = wakes.last().cloned().unwrap_or(none);
            match step {
                Step::Append(bytes) => {
                    tail += bytes;
                    subscription.observe("events/a", seen(1, tail), Room::Free);
                }
                Step::Tick => {
                    subscription.tick(&mut turn);
                    subscription.take_task(&turn);
                }
                Step::Begin => drop(subscription.begin(&mut turn)),
                Step::Outcome(outcome) => {
                    let attempt = match subscription.phase {
                        Phase::Delivering { attempt, .. } => attempt,
                        _ => 0,
                    };
                    let sent = Sent { wake, attempt, tails: acks(tail) };
                    subscription.delivered(&sent, outcome, &mut turn).unwrap();
                }
                Step::Announced(is_written) => {
                    let written = if is_written { Ok(()) } else { Err(()) };
                    subscription.announced(&wake, written, &mut turn);
                }
                Step::Claim => drop(subscription.claim("one", &mut turn)),
                Step::Ack(to, done) => {
                    let progress = if done { Progress::Done } else { Progress::GoesOn };
                    drop(subscription.ack(&wake, &acks(to), progress, &mut turn));
                }
                Step::Release => drop(subscription.release(&wake, &mut turn)),
                Step::Reread => {
                    subscription = Subscription::replay(&journal).unwrap();
                    subscription.observe("events/a", seen(1, tail), Room::Free);
                }
                Step::Restart => {
                    subscription = Subscription::replay(&journal).unwrap();
                    subscription.observe("events/a", seen(1, tail), Room::Free);
                    subscription.resume(&mut turn);
                }
            }
            journal.extend(turn.events);
            if let Some(wake) = subscription.wake() {
                match wakes.last() {
                    Some(last) if last.generation == wake.generation => {
                        prop_assert_eq!(last, &wake);
                    }
                    Some(last) => prop_assert!(wake.generation > last.generation),
                    None => {}
                }
                if wakes.last() != Some(&wake) {
                    prop_assert!(wakes.iter().all(|old| old.wake_id != wake.wake_id));
                    wakes.push(wake);
                }
            }
            if let Some(link) = subscription.links.get("events/a") {
                prop_assert!(link.acked >= acked && link.acked <= Offset(tail));
                acked = link.acked;
            }
            let mut again = Subscription::replay(&journal).unwrap();
            again.observe("events/a", seen(1, tail), Room::Free);
            again.flight = subscription.flight;
            if tail > 0 {
                prop_assert_eq!(&again, &subscription);
            }
        }
        subscription.flight = Flight::Grounded;
        let mut reread = subscription.clone();
        reread.tick(&mut Turn { wake_id: "again".to_owned(), ..at(now_ms) });
        // A lease ends, and then a pause.
        subscription.tick(&mut Turn { wake_id: "end".to_owned(), ..at(now_ms + 10_000_000) });
        let mut later = Turn { wake_id: "last".to_owned(), ..at(now_ms + 20_000_000) };
        subscription.tick(&mut later);
        let is_woken = subscription.take_task(&later).is_some()
            || matches!(subscription.phase, Phase::Waiting { announce_ms: None, .. });
        prop_assert_eq!(is_woken, Offset(tail) > acked, "{:?}", subscription);
        if is_woken && !is_pull {
            prop_assert!(subscription.begin(&mut later).is_some(), "{:?}", subscription);
        }
        // What is on its way and could not be noted is sent again.
        let mut turn = Turn { wake_id: "again".to_owned(), ..at(now_ms) };
        if let Some(Task::Deliver { attempt }) = reread.take_task(&turn) {
            prop_assert_eq!(reread.begin(&mut turn), Some(attempt), "{:?}", reread);
        }
    }

    /// Point 52.
    #[test]
    fn delays_double_to_60_s_with_a_fifth_of_jitter(attempt in 0..200_u32, random: u64) {
        let delay_ms = delay_ms(attempt, random);
        let exact = 1000_u64.saturating_mul(1 << attempt.min(10)).min(60_000);
        prop_assert!(delay_ms >= exact * 4 / 5 && delay_ms <= (exact * 6 / 5).min(60_000));
    }
}
