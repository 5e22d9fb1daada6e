//! Runs the built program and reads what it leaves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use highwater_report::data::{Outcome, RoundRow};
use highwater_report::results::{CaseResult, CaseStatus, Results};
use highwater_sys::time::sleep;
use tempfile::TempDir;

use crate::environment::system;

/// The built program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_highwater");

/// Longest wait for something that happens at once on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A new directory on the disk that holds the build.
pub fn temporary() -> TempDir {
    let prefix = tempfile::Builder::new().prefix("proof-").to_owned();
    prefix.tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory beside the build")
}

/// What a command said.
#[derive(Debug)]
pub struct Answer {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Answer {
    /// Asserts the exit code, showing what was said when it is another one.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Asserts that it ended with an error that holds these words.
    #[track_caller]
    pub fn expect_error(self, words: &[&str]) -> Self {
        let answer = self.expect_code(2);
        for word in words {
            assert!(answer.stderr.contains(word), "{word:?} is not in: {}", answer.stderr);
        }
        answer
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs the program with arguments separated by blanks.
pub fn highwater(arguments: &str) -> Answer {
    let output = Command::new(PROGRAM).args(arguments.split_whitespace()).output();
    output.expect("the program starts").into()
}

/// A directory to measure in and one for run directories.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    runs: PathBuf,
    _kept: Vec<TempDir>,
}

impl Place {
    /// Both new, on the disk that holds the build.
    pub fn new() -> Self {
        let (dir, runs) = (temporary(), temporary());
        let (dir_path, runs_path) = (dir.path().to_owned(), runs.path().to_owned());
        Self { dir: dir_path, runs: runs_path, _kept: vec![dir, runs] }
    }

    /// Measures in this directory; run directories are kept elsewhere.
    pub fn at(dir: &Path) -> Self {
        let runs = temporary();
        Self { dir: dir.to_owned(), runs: runs.path().to_owned(), _kept: vec![runs] }
    }

    /// Where is measured.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where run directories go.
    pub fn runs(&self) -> &Path {
        &self.runs
    }

    /// All arguments of a run: `bench --block 4K` and the places.
    pub fn arguments(&self, words: &str) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        arguments.extend(["--json", "--quiet", "--runs"].map(OsString::from));
        arguments.extend([self.runs.clone().into_os_string(), self.dir.clone().into_os_string()]);
        arguments
    }

    /// Runs `bench` or `probe` here.
    pub fn run(&self, words: &str) -> Answer {
        let output = Command::new(PROGRAM).args(self.arguments(words)).output();
        output.expect("the program starts").into()
    }

    /// Runs and reads what was left; the exit code must be 0.
    #[track_caller]
    pub fn measure(&self, words: &str) -> Measured {
        self.run(words).expect_code(0);
        Measured::read(&self.newest_run())
    }

    /// Starts `bench` or `probe` here and goes on.
    pub fn start(&self, words: &str) -> Started {
        let child = Command::new(PROGRAM)
            .args(self.arguments(words))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Started { child: Some(child) }
    }

    /// Run directories, oldest first.
    pub fn run_dirs(&self) -> Vec<PathBuf> {
        let mut found = entries(&self.runs);
        found.sort_by_key(|path| path.metadata().and_then(|meta| meta.created()).ok());
        found
    }

    /// The run directory made last.
    #[track_caller]
    pub fn newest_run(&self) -> PathBuf {
        self.run_dirs().pop().expect("a run directory")
    }

    /// Working directories in the measured directory.
    pub fn work_dirs(&self) -> Vec<PathBuf> {
        let name =
            |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let ours = |path: &PathBuf| name(path).is_some_and(|n| n.starts_with("highwater-work."));
        entries(&self.dir).into_iter().filter(ours).collect()
    }

    /// Working directories of one process.
    pub fn work_dirs_of(&self, pid: u32) -> Vec<PathBuf> {
        let prefix = format!("highwater-work.{pid}.");
        let of = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        entries(&self.dir).into_iter().filter(of).collect()
    }
}

/// The program under way; killed when dropped.
#[derive(Debug)]
pub struct Started {
    child: Option<Child>,
}

impl From<Child> for Started {
    fn from(child: Child) -> Self {
        Self { child: Some(child) }
    }
}

impl Started {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it has not been waited for").id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        let child = self.child.as_mut().expect("it has not been waited for");
        child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits until something holds; panics with what it said when it ends before that: there was no
    /// room for it, say.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, holds: impl FnMut() -> bool) {
        let mut holds = holds;
        wait_until(what, || holds() || !self.is_running());
        if !holds() {
            let answer = self.end();
            let code = answer.code.map_or("a signal".to_owned(), |code| format!("code {code}"));
            panic!("the run ended with {code} before {what}: {}", answer.stderr.trim_end());
        }
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        // The shell's own kill: the program of that name is not installed everywhere.
        let sent = system("sh", &["-c", &format!("kill -{name} {}", self.pid())]);
        sent.expect("a child can be sent a signal");
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(mut self) {
        self.stop();
    }

    /// Waits for its end.
    pub fn answer(mut self) -> Answer {
        self.end()
    }

    fn end(&mut self) -> Answer {
        let child = self.child.take().expect("it has not been waited for");
        child.wait_with_output().expect("a child can be waited for").into()
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a run left.
#[derive(Debug)]
pub struct Measured {
    pub results: Results,
    pub rounds: Vec<RoundRow>,
    pub outcome: Option<Outcome>,
}

impl Measured {
    /// Reads `results.json`, `rounds.csv` and `outcome.json` of a run.
    #[track_caller]
    pub fn read(run: &Path) -> Self {
        let text = read(&run.join("results.json"));
        let results = serde_json::from_str(&text).expect("results.json is what it says");
        let outcome = std::fs::read_to_string(run.join("outcome.json")).ok();
        let outcome =
            outcome.map(|text| serde_json::from_str(&text).expect("outcome.json is what it says"));
        Self { results, rounds: rounds(run), outcome }
    }

    /// Rows of one case.
    pub fn rounds_of<'m>(&'m self, case: &CaseResult) -> Vec<&'m RoundRow> {
        self.rounds.iter().filter(|row| row.case_id == case.id).collect()
    }

    /// Asserts that every case was measured.
    #[track_caller]
    pub fn expect_all_measured(&self) {
        for case in &self.results.cases {
            assert_eq!(case.status, CaseStatus::Measured, "{}: {:?}", case.label, case.reason);
        }
    }

    /// The only case.
    #[track_caller]
    pub fn only_case(&self) -> &CaseResult {
        assert_eq!(self.results.cases.len(), 1);
        &self.results.cases[0]
    }
}

/// Reads the rows of a run; none when it ended before the first.
#[track_caller]
pub fn rounds(run: &Path) -> Vec<RoundRow> {
    let Ok(mut reader) = csv::Reader::from_path(run.join("rounds.csv")) else { return Vec::new() };
    reader.deserialize().map(|row| row.expect("rounds.csv is what it says")).collect()
}

/// Reads a text file.
#[track_caller]
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is in a directory, in order of names; nothing where it has gone.
pub fn entries(dir: &Path) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = listing.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Waits until something holds; panics when that takes longer than any machine needs.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        sleep(Duration::from_millis(5));
    }
}
