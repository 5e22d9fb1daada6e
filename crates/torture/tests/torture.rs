//! Each layer, small: fixed seeds, and a fresh one that is printed.

use std::io::{BufReader, Write as _};
use std::sync::atomic::AtomicBool;

use highwater_disk::Rng;
use highwater_disk::real::SystemRng;
use highwater_torture::planted::Planted;
use highwater_torture::sim::{self, Keep};
use highwater_torture::{
    Campaign, CampaignError, FileSystem, Layer, Program, Verdict, flip, kill, planted, real,
    shutdown, small,
};

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
fn a_write_that_the_device_lies_about_is_noticed_or_has_no_effect() {
    hold(&sim::run_lies(0, 1600, None));
    let fresh = SystemRng::new().next_u64() % 1_000_000_000;
    println!("fresh seeds from {fresh} on");
    hold(&sim::run_lies(fresh, 800, None));
}

#[test]
fn lies_find_a_log_that_ignores_evidence() {
    caught(&sim::run_lies(0, 1000, Some(Planted::EvidenceIgnored)));
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
    hold(&flip::run(0, 2, 23, |_| {}));
}

#[test]
fn every_planted_bug_is_caught() {
    hold(&planted::run(0, 1500, |_| {}));
}

/// Runs a campaign of a layer in a new directory, with this test program as what dies.
fn campaign(
    run: impl Fn(&mut Campaign<'_>) -> Result<Verdict, CampaignError>,
    (seed, cycles): (u64, u64),
    planted: Option<Planted>,
) -> Verdict {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = std::env::current_exe().expect("this program");
    let arguments = ["--ignored", "--exact", "child", "--nocapture"].map(str::to_owned).to_vec();
    let mut campaign = Campaign {
        program: &Program { path, arguments },
        dir: dir.path(),
        seed,
        cycles,
        planted,
        stop: &AtomicBool::new(false),
        progress: &mut |_| {},
    };
    match run(&mut campaign) {
        Err(CampaignError::NotRun(why)) => Verdict::not_run(Layer::Shutdown, why),
        ran => ran.expect("the machine works"),
    }
}

#[test]
fn what_a_killed_process_acknowledged_is_there_once() {
    hold(&campaign(kill::run, (1, 20), None));
}

#[test]
fn forgotten_producers_are_noticed_when_a_process_is_killed() {
    caught(&campaign(kill::run, (1, 100), Some(Planted::ProducersForgotten)));
}

#[test]
fn barriers_that_are_missing_or_come_too_late_are_noticed_when_power_is_lost() {
    for planted in [Planted::BarrierSkipped, Planted::HomeBarrierSkipped, Planted::AckBeforeBarrier]
    {
        for kind in [FileSystem::Ext4, FileSystem::Btrfs] {
            let run = |campaign: &mut Campaign<'_>| shutdown::run(campaign, kind);
            let verdict = campaign(run, (1, 1000), Some(planted));
            if let Some(reason) = &verdict.not_run {
                return not_run("planted bugs when power is lost", reason);
            }
            caught(&verdict);
        }
    }
}

/// Fails unless the planted bug was noticed.
fn caught(verdict: &Verdict) {
    assert!(!verdict.held(), "{verdict}");
}

/// Notes that a test did not run here, and why: one line.
#[expect(clippy::print_stderr, reason = "people watching the tests must see it")]
fn not_run(what: &str, reason: &str) {
    let line = format!("NOT RUN: {what}: {}\n", reason.replace('\n', "; "));
    eprint!("{line}");
    let Some(notes) = std::env::var_os("HIGHWATER_NOT_RUN_FILE") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file can be written");
}

#[test]
#[ignore = "it is what the tests above end"]
fn child() {
    let mut input = BufReader::new(std::io::stdin());
    real::child::run(&mut input, std::io::stdout()).unwrap();
}
