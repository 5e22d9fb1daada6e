//! Lists of many streams, page by page.

use std::collections::BTreeSet;

use highwater_disk::sim::SimClock;
use highwater_log::Log;
use highwater_log::options::Options;
use highwater_log::request::Walk;

use crate::support::*;

/// Makes streams, many in one commit.
fn make(log: &Log, names: impl Iterator<Item = String>) {
    for name in names {
        drop(create(log, &name).unwrap());
    }
    while log.step() {}
}

/// Every name that begins so, page by page.
fn paged(log: &Log, prefix: &str, limit: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let page = log.list(prefix, all.last().map(String::as_str), limit);
        assert!(page.len() <= limit);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

#[test]
fn pages_give_every_stream_once_and_in_order_while_streams_come_and_go() {
    let log = open(&disk(81), &Options { lanes: 2, ..small() }).unwrap();
    let mut names = BTreeSet::new();
    for round in 0..6_u64 {
        let new: Vec<String> = (0..400)
            .map(|n| format!("{}/{:05}", n % 3, (n * 7919 + round * 131) % 90_000))
            .collect();
        make(&log, new.iter().filter(|name| !names.contains(*name)).cloned());
        names.extend(new);
        let gone: Vec<String> = names.iter().step_by(5).cloned().collect();
        for name in gone {
            drop(log.delete(&name).unwrap());
            names.remove(&name);
        }
        while log.step() {}
        log.checkpoint().unwrap();
        for limit in [1000, 77] {
            assert!(paged(&log, "", limit).iter().eq(&names), "round {round}, {limit}");
        }
        let of_one = names.iter().filter(|name| name.starts_with("1/"));
        assert!(paged(&log, "1/", 100).iter().eq(of_one), "round {round}");
        assert_eq!(log.list("1/", Some("0"), 3), paged(&log, "1/", 3)[..3]);
        assert_eq!(log.list("1/", Some("2"), 3), [""; 0]);
        assert_eq!(log.list("", Some("9"), 3), [""; 0]);
        assert_eq!(log.list("", None, 0), [""; 0]);
    }
    assert!(names.len() > 1000, "{}", names.len());
}

#[test]
fn an_order_that_nobody_uses_is_forgotten_and_made_again() {
    let clock = SimClock::new();
    let log = open_at(&disk(82), &small(), &clock).unwrap();
    make(&log, (0..1500).map(|n| format!("{:04}", n * 7 % 1500)));
    let all: Vec<String> = (0..1500).map(|n| format!("{n:04}")).collect();
    for limit in [10, 100, 7] {
        assert_eq!(paged(&log, "", limit), all);
        for _ in 0..20 {
            clock.advance(small().checkpoint_interval);
            log.maintain();
        }
    }
}

#[test]
fn a_page_costs_what_is_on_it_once_the_names_are_in_order() {
    // The first page looks at every stream, so that who lists little pays for no order.
    let log = open(&disk(83), &small()).unwrap();
    make(&log, (0..2000).map(|n| format!("{:04}", n * 7 % 2000)));
    assert_eq!(log.list("", None, 2), ["0000", "0001"]);
    for _ in 0..9 {
        assert_eq!(log.list("", Some("1000"), 2), ["1001", "1002"]);
    }
    make(&log, ["1001a".to_owned()].into_iter());
    log.delete("1002").unwrap().wait().unwrap();
    assert_eq!(log.list("", Some("1000"), 3), ["1001", "1001a", "1003"]);
    assert_eq!(log.list("", None, 2), ["0000", "0001"]);
}

/// Every name that begins so, in no order.
fn walked(log: &Log, prefix: &str, mut between: impl FnMut()) -> Vec<String> {
    let (mut all, mut walk) = (Vec::new(), Walk::default());
    loop {
        let (names, next) = log.walk(prefix, walk);
        all.extend(names);
        let Some(next) = next else { return all };
        assert!(next > walk);
        walk = next;
        between();
    }
}

#[test]
fn a_walk_gives_every_stream_once_that_is_there_all_the_while() {
    let log = open(&disk(84), &Options { lanes: 2, ..small() }).unwrap();
    let staying: BTreeSet<String> = (0..9000).map(|n| format!("a/{n}")).collect();
    for some in staying.iter().collect::<Vec<_>>().chunks(500) {
        make(&log, some.iter().map(|name| (*name).clone()));
    }
    make(&log, (0..500).map(|n| format!("b/{n}")));
    let (mut new, mut steps) = (0, 0);
    let found = walked(&log, "", || {
        drop(log.delete(&format!("b/{new}")).unwrap());
        make(&log, std::iter::once(format!("c/{new}")));
        (new, steps) = (new + 1, steps + 1);
    });
    assert!(steps > 1, "{steps}");
    let kept: Vec<&String> = found.iter().filter(|name| name.starts_with("a/")).collect();
    assert_eq!(kept.len(), staying.len(), "each once");
    assert!(kept.into_iter().collect::<BTreeSet<_>>().iter().all(|name| staying.contains(*name)));
    let all: BTreeSet<&String> = found.iter().collect();
    assert_eq!(all.len(), found.len());
    let of_one = walked(&log, "b/", || {});
    assert_eq!(of_one.len(), 500 - new, "those that are deleted are not there");
    assert!(of_one.iter().all(|name| name.starts_with("b/")));
}
