//! Each layer, small: fixed seeds, and a fresh one that is printed.

use std::io::BufReader;

use highwater_disk::Rng;
use highwater_disk::real::SystemRng;
use highwater_torture::kill::{self, Program};
use highwater_torture::sim::{self, Keep};
use highwater_torture::{Verdict, flip, planted, small};

/// Fails with a verdict unless everything held.
fn hold(verdict: &Verdict) {
    assert!(verdict.held(), "{verdict}");
}

#[test]
fn fixed_and_fresh_seeds_of_the_simulation_hold() {
    hold(&sim::run(0, 150, |_| {}));
    let fresh = SystemRng::new().next_u64() % 1_000_000_000;
    println!("fresh seeds from {fresh} on");
    hold(&sim::run(fresh, 100, |_| {}));
}

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    for seed in 0..12 {
        let run = || sim::retell(seed, None, Keep::Trace);
        let (actions, history) = run();
        assert_eq!((actions, history), run(), "seed {seed}");
    }
}

#[test]
fn every_history_of_one_letter_comes_back_after_every_crash() {
    let bounds = small::Bounds { letters: 1, pending: 8, sampled: 16 };
    hold(&small::run(0, u64::MAX, bounds, |_| {}));
}

#[test]
fn a_flipped_bit_is_an_error_or_without_effect() {
    hold(&flip::run(0, 1, 23, |_| {}));
}

#[test]
fn every_planted_bug_is_caught() {
    hold(&planted::run(0, 400, |_| {}));
}

#[test]
fn what_a_killed_process_acknowledged_is_there_once() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = std::env::current_exe().unwrap();
    let arguments = ["--ignored", "--exact", "child", "--nocapture"].map(str::to_owned).to_vec();
    let program = Program { path, arguments };
    hold(&kill::run(&program, dir.path(), (1, 12), |_| {}).unwrap());
}

#[test]
#[ignore = "it is what the test above kills"]
fn child() {
    let mut input = BufReader::new(std::io::stdin());
    let ended = kill::child::run(&mut input, &mut std::io::stdout());
    panic!("it runs until it is killed, and ended with {ended:?}");
}
