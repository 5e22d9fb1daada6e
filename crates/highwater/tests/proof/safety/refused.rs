//! Places that cannot be measured are refused in words, before anything is made.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::environment::{not_run, root, tool};
use crate::image::{EXT4, Image, Recipe};
use crate::program::{Answer, PROGRAM, Place, entries, temporary};

#[test]
fn a_directory_that_does_not_exist_or_is_none_is_refused() {
    let place = Place::new();
    let absent = Place::at(&place.dir().join("absent"));
    for word in ["bench", "probe"] {
        absent.run(word).expect_error(&["absent", "No such file", "name a directory that exists"]);
        assert!(!absent.dir().exists() && absent.run_dirs().is_empty());
    }
    let file = place.dir().join("file");
    std::fs::write(&file, "mine").expect("a file");
    Place::at(&file).run("bench").expect_error(&["file", "not a directory"]);
}

#[test]
fn a_read_only_file_system_is_refused() {
    let image = match Image::new(Recipe { mib: 256, ..EXT4 }) {
        Ok(image) => image,
        Err(reason) => return not_run("a read-only file system", &reason),
    };
    image.make_read_only().expect("a mounted image can be remounted");
    let place = Place::at(image.path());
    for words in ["bench --iterations 5", "probe --seconds 2"] {
        place.run(words).expect_error(&["read-only", "writable"]);
    }
}

#[test]
fn a_directory_that_may_not_be_written_to_is_refused() {
    let claim = "a directory without permission";
    let nobody = match Nobody::new() {
        Ok(nobody) => nobody,
        Err(reason) => return not_run(claim, &reason),
    };
    let place = Place::new();
    for path in [place.dir(), place.runs()] {
        let mode = if path == place.dir() { 0o755 } else { 0o777 };
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("the mode of our own directory");
    }
    let answer = nobody.run(&place, "bench --iterations 5");
    answer.expect_error(&["no permission", "choose one that you may write to"]);
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
}

/// Runs a copy of the program as a user who owns nothing.
struct Nobody {
    program: PathBuf,
    _kept: tempfile::TempDir,
}

impl Nobody {
    fn new() -> Result<Self, String> {
        root()?;
        tool("setpriv")?;
        let kept = temporary();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(kept.path(), open).expect("the mode of our own directory");
        let program = kept.path().join("highwater");
        std::fs::copy(PROGRAM, &program).expect("a copy of the program");
        let nobody = Self { program, _kept: kept };
        let answer = nobody.answer(&["--version".into()]);
        // A build directory below somebody's home may be closed to everybody else.
        if answer.code == Some(0) { Ok(nobody) } else { Err(answer.stderr) }
    }

    fn run(&self, place: &Place, words: &str) -> Answer {
        self.answer(&place.arguments(words))
    }

    fn answer(&self, arguments: &[std::ffi::OsString]) -> Answer {
        let mut command = Command::new(tool("setpriv").expect("asked for before"));
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
        let output = command.arg(&self.program).args(arguments).output();
        output.expect("setpriv starts").into()
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused_before_anything_is_made() {
    let place = Place::new();
    for (words, say) in [
        ("bench --rounds 0", "at least 1"),
        ("bench --iterations 0", "at least 1"),
        ("bench --max-bytes 1MiB --block 1MiB --iterations 5", "--max-bytes"),
        ("bench --name a/b", "not allowed"),
        ("bench --state allocated --iterations 100 --capacity 4K", "--capacity"),
        ("bench --barrier o_dsync --every 4", "cannot end a batch"),
        ("bench --barrier o_dsync --every never", "--every never"),
        ("bench --barrier uring --every never", "--every never"),
        ("bench --files 1 --writers 4 --barrier fdatasync", "2 or more"),
        ("bench --iterations 100000000 --block 512 --max-bytes 1024TiB", "memory"),
        ("bench --writers 4 --sharing shared --every 4", "group commit"),
        ("bench --writers 0", "writers"),
        ("probe --seconds 0.5", "--seconds"),
    ] {
        place.run(words).expect_error(&[say]);
        assert_eq!(entries(place.dir()), Vec::<PathBuf>::new(), "{words}");
        assert_eq!(place.run_dirs(), Vec::<PathBuf>::new(), "{words}");
    }
}

/// Runs the program with a limit of open files, `-S` of which it may raise, `-H` of which not.
fn with_open_files(place: &Place, limit: &str, words: &str) -> Answer {
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, PROGRAM]).args(place.arguments(words));
    command.output().expect("a shell starts").into()
}

#[test]
fn writers_open_as_many_files_as_the_system_allows_and_no_more_are_begun() {
    let words = "bench --barrier fdatasync --writers 90 --sharing own --iterations 90 --rounds 1 \
                 --warmup 0";
    let place = Place::new();
    // Ninety writers and what the program itself has open are more than 80.
    with_open_files(&place, "-Sn 80", words).expect_code(0);
    let place = Place::new();
    let answer = with_open_files(&place, "-n 80", words);
    answer.expect_error(&["90 writers", "open files", "ulimit", "--writers"]);
    assert_eq!(place.run_dirs(), Vec::<PathBuf>::new());
}
