//! Paths that are no text, readers that have gone, and signals that are ignored.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use crate::program::{Answer, Measured, PROGRAM, Place, wait_until};

#[test]
fn a_path_that_is_no_text_is_measured_and_kept_as_far_as_it_is_one() {
    let place = Place::new();
    let odd = place.dir().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&odd).expect("a directory of any name");
    let inner = Place::at(&odd);
    for words in ["bench --iterations 3 --rounds 1", "probe --seconds 2"] {
        inner.run(words).expect_code(0);
        let manifest = crate::program::read(&inner.newest_run().join("manifest.json"));
        assert!(manifest.contains("caf\u{fffd}"), "{manifest}");
    }
    let words = format!("bench --csv {}/absent/x.csv", place.dir().display());
    inner.run(&words).expect_error(&["absent"]);
}

/// Runs the program with nobody reading what it says on standard error.
fn unheard(arguments: &[std::ffi::OsString]) -> Answer {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stderr.take());
    child.wait_with_output().expect("a child can be waited for").into()
}

#[test]
fn with_nobody_reading_standard_error_every_word_ends_as_it_should() {
    let place = Place::new();
    for words in ["bench --iterations 3 --rounds 1", "probe --seconds 2"] {
        unheard(&place.arguments(words)).expect_code(0);
        Measured::read(&place.newest_run());
    }
    unheard(&place.arguments("bench --rounds 0")).expect_code(2);
    let words = |words: &str| -> Vec<_> { words.split_whitespace().map(Into::into).collect() };
    let run = place.newest_run();
    unheard(&words(&format!("report {}", run.display()))).expect_code(0);
    unheard(&words(&format!("man {}", place.dir().display()))).expect_code(0);
    unheard(&words("compare /absent /absent")).expect_code(2);
}

#[test]
fn a_hang_up_that_was_ignored_at_the_start_stays_ignored() {
    let place = Place::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", PROGRAM]);
    shell.args(place.arguments("bench --iterations 20 --rounds 1000000 --max-bytes 1024TiB"));
    shell.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = shell.spawn().expect("a shell");
    let pid = child.id();
    let send = |signal: &str| {
        let kill = format!("kill -{signal} {pid}");
        let sent = Command::new("sh").args(["-c", &kill]).status().expect("a shell");
        assert!(sent.success());
    };
    let rows = || place.run_dirs().pop().map_or(0, |run| crate::program::rounds(&run).len());
    wait_until("a round is measured", || rows() > 0);
    send("HUP");
    send("HUP");
    let before = rows();
    wait_until("it goes on after the hang-up", || rows() > before + 2);
    send("INT");
    let answer: Answer = child.wait_with_output().expect("a child can be waited for").into();
    answer.expect_code(130);
}
