//! `highwater torture` where it needs a real machine: a few cycles of each such layer, with a fixed
//! seed and a fresh one; what is kept, what is taken down, and what is said where it cannot run.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::environment::{not_run, root, tool};
use crate::image::{BTRFS, Image};
use crate::program::{Answer, PROGRAM, Started, entries, highwater, read, temporary, wait_until};

/// Exit code of what cannot run here.
const NOT_RUN: Option<i32> = Some(4);

fn torture(words: &str, dir: &Path) -> Answer {
    highwater(&format!("torture {words} --dir {}", dir.display()))
}

/// Runs a few cycles with a fixed seed and as many with a fresh one, or says what is lacking here.
#[expect(clippy::print_stderr, reason = "people watching the tests must see the seed")]
fn smoke(claim: &str, words: &str, cycles: u64) {
    let dir = temporary();
    for seed in [" --seed 1", ""] {
        let answer = torture(&format!("{words} --cycles {cycles}{seed}"), dir.path());
        if answer.code == NOT_RUN {
            return not_run(claim, answer.stdout.trim_start_matches("NOT RUN: "));
        }
        // With the seed that was drawn.
        eprintln!("{}", answer.stderr.trim());
        answer.expect_code(0);
        assert_eq!(entries(dir.path()), Vec::<std::path::PathBuf>::new(), "{words}");
    }
}

#[test]
fn what_was_acknowledged_is_there_after_ext4_lost_power() {
    smoke("lost power on ext4", "--layer shutdown --fs ext4", 5);
}

#[test]
fn what_was_acknowledged_is_there_after_xfs_lost_power() {
    smoke("lost power on XFS", "--layer shutdown --fs xfs", 5);
}

#[test]
fn what_was_acknowledged_is_there_after_btrfs_lost_power() {
    smoke("lost power on btrfs", "--layer shutdown --fs btrfs", 5);
}

#[test]
fn after_calls_that_fail_nothing_that_was_acknowledged_is_lost() {
    smoke("failing system calls", "--layer syscall", 8);
}

#[test]
fn a_full_file_system_refuses_and_goes_on_with_room() {
    smoke("a full file system", "--layer full --fs ext4", 3);
}

#[test]
fn segments_on_btrfs_are_overwritten_in_place() {
    let claim = "segments on btrfs";
    let (image, lsattr) = match (Image::new(BTRFS), tool("lsattr")) {
        (Ok(image), Ok(lsattr)) => (image, lsattr),
        (Err(reason), _) | (_, Err(reason)) => return not_run(claim, &reason),
    };
    // A campaign that is stopped leaves its store until it has been looked at.
    let started = under_way_at(image.path(), "--layer kill");
    let segments = || -> Vec<std::path::PathBuf> {
        let stores = entries(image.path()).into_iter().flat_map(|yard| entries(&yard));
        let all = stores.flat_map(|store| entries(&store.join("wal/0")));
        all.filter(|file| file.extension().is_some_and(|kind| kind == "seg")).collect()
    };
    wait_until("there is a segment", || {
        segments().first().is_some_and(|segment| {
            let said = Command::new(&lsattr).arg(segment).output().expect("lsattr starts");
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            said.split(' ').next().is_some_and(|flags| flags.contains('C'))
        })
    });
    started.signal("INT");
    started.answer().expect_code(130);
}

#[test]
fn a_killed_process_has_lost_nothing_that_was_acknowledged() {
    smoke("killed processes", "--layer kill", 6);
}

#[test]
fn a_killed_server_has_lost_nothing_that_it_answered() {
    smoke("a killed server", "--layer serve", 6);
}

/// Runs servers through a script that gets their arguments; gives what was found wrong.
fn servers_through(script: &str) -> String {
    let dir = temporary();
    let path = dir.path().join("server");
    let text = format!("#!/bin/sh\n{script}\nexec {PROGRAM} serve \"$@\"\n");
    std::fs::write(&path, text).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let mut campaign = highwater_torture::Campaign {
        program: &highwater_torture::Program { path, arguments: Vec::new() },
        dir: dir.path(),
        seed: 1,
        cycles: 60,
        planted: None,
        stop: &std::sync::atomic::AtomicBool::new(false),
        progress: &mut |_| {},
    };
    let verdict = highwater_torture::serve::run(&mut campaign).expect("the machine works");
    assert!(!verdict.held(), "{script}: {verdict}");
    verdict.to_string()
}

#[test]
fn servers_that_answer_too_early_or_forget_are_noticed_when_they_are_killed() {
    let early = "for a; do case $a in --durability=*) a=--durability=relaxed=10s ;; esac; \
                 shift; set -- \"$@\" \"$a\"; done";
    servers_through(early);
    let forgets = "for a; do case $a in --data-dir=*) rm -rf \"${a#*=}\"/* ;; esac; done";
    let found = servers_through(forgets);
    assert!(["the keys were", "I1"].iter().any(|word| found.contains(word)), "{found}");
    let few = servers_through("set -- \"$@\" --max-producers=1");
    assert!(few.contains("which is "), "{few}");
}

#[test]
fn a_kept_verdict_tells_seed_counts_and_machine_and_no_path() {
    let (runs, dir) = (temporary(), temporary());
    let keep = format!("--runs {} --name", runs.path().display());
    highwater(&format!("torture --layer sim --seeds 3 --seed 7 {keep} small")).expect_code(0);
    torture(&format!("--layer kill --cycles 2 {keep} killed"), dir.path()).expect_code(0);
    let kept = entries(runs.path());
    let [killed, small] = &kept[..] else { panic!("{kept:?}") };
    let file = |run: &Path| -> (String, Value) {
        let text = read(&run.join("torture.json"));
        let value = serde_json::from_str(&text).expect("JSON");
        (text, value)
    };
    let (text, value) = file(small);
    assert!(text.contains("\"kernel\""), "{text}");
    assert_eq!(value["verdict"]["layer"], "sim");
    assert_eq!((&value["seed"], &value["verdict"]["runs"]), (&7.into(), &3.into()));
    assert_eq!(value["command"], "highwater torture --layer sim --seeds 3 --seed 7");
    assert_eq!((&value["held"], &value["stopped_early"]), (&true.into(), &false.into()));
    let (text, value) = file(killed);
    assert!(value["verdict"]["counts"]["steps acknowledged"].as_u64() > Some(0), "{text}");
    for path in [dir.path(), runs.path()] {
        assert!(!text.contains(&path.display().to_string()), "{text}");
    }
}

#[test]
fn settings_that_do_not_fit_a_layer_are_errors() {
    let dir = temporary();
    torture("--layer kill --seeds 3", dir.path()).expect_error(&["--cycles"]);
    highwater("torture --layer sim --cycles 3").expect_error(&["--seeds"]);
    highwater("torture --layer shutdown --cycles 3").expect_error(&["--dir"]);
    torture("--layer full --fs fat", dir.path()).expect_error(&["ext4", "btrfs"]);
    torture("--layer kill", &dir.path().join("absent")).expect_error(&["absent"]);
    highwater("torture --layer sim --name x").expect_error(&["--runs"]);
}

/// Mount points below a directory.
fn mounts(dir: &Path) -> usize {
    let dir = dir.display().to_string();
    let table = read(Path::new("/proc/self/mountinfo"));
    table.lines().filter(|line| line.contains(&dir)).count()
}

/// Starts a long campaign, and waits until its file systems are mounted.
fn under_way(dir: &TempDir) -> Started {
    let started = under_way_at(dir.path(), "--layer shutdown --fs ext4");
    wait_until("both file systems are mounted", || mounts(dir.path()) == 2);
    started
}

/// Starts a long campaign.
fn under_way_at(dir: &Path, words: &str) -> Started {
    let words = format!("torture {words} --cycles 100000 --seed 3 --dir");
    let words: Vec<OsString> = words.split_whitespace().map(Into::into).collect();
    let child = Command::new(PROGRAM)
        .args(words)
        .arg(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    Started::from(child)
}

#[test]
fn ctrl_c_ends_a_campaign_and_leaves_nothing_mounted() {
    if let Err(reason) = root().and_then(|()| tool("mkfs.ext4").map(drop)) {
        return not_run("Ctrl-C in a campaign", &reason);
    }
    let dir = temporary();
    let started = under_way(&dir);
    started.signal("INT");
    let answer = started.answer().expect_code(130);
    assert!(answer.stdout.contains("0 failed"), "{}", answer.stdout);
    assert_eq!((mounts(dir.path()), entries(dir.path()).len()), (0, 0));
}

#[test]
fn what_a_killed_campaign_left_is_taken_down_by_the_next() {
    if let Err(reason) = root().and_then(|()| tool("mkfs.ext4").map(drop)) {
        return not_run("mounts that a killed campaign left", &reason);
    }
    let dir = temporary();
    under_way(&dir).kill();
    // The upper one comes and goes with each cycle.
    assert_ne!(mounts(dir.path()), 0, "the file system below is left");
    torture("--layer kill --cycles 1", dir.path()).expect_code(0);
    assert_eq!((mounts(dir.path()), entries(dir.path()).len()), (0, 0));
}

#[test]
fn a_layer_that_cannot_run_says_so_and_is_no_success() {
    let dir = temporary();
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir.path(), everybody).expect("our own directory");
    let words = format!("torture --layer syscall --dir {}", dir.path().display());
    let without = Command::new(PROGRAM)
        .args(words.split_whitespace())
        .env("PATH", "/absent")
        .output()
        .expect("the program starts");
    assert_not_run(without.into(), "strace");
    for layer in ["shutdown", "full"] {
        let command = match (root(), tool("setpriv")) {
            (Err(_), _) => Ok(Command::new(PROGRAM)),
            (Ok(()), setpriv) => setpriv.map(|setpriv| {
                let mut command = Command::new(setpriv);
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups", PROGRAM]);
                command
            }),
        };
        let mut command = match command {
            Ok(command) => command,
            Err(reason) => return not_run("layers without root", &reason),
        };
        let words = format!("torture --layer {layer} --dir {}", dir.path().display());
        let answer =
            Answer::from(command.args(words.split_whitespace()).output().expect("it starts"));
        if answer.stderr.contains("Permission denied") {
            return not_run("layers without root", "the build directory is not open to others");
        }
        assert_not_run(answer, "root");
    }
}

fn assert_not_run(answer: Answer, word: &str) {
    let (code, said) = (answer.code, answer.stdout + &answer.stderr);
    assert_eq!(code, NOT_RUN, "{said}");
    assert!(said.contains("NOT RUN: ") && said.contains(word), "{said}");
}
