//! A process under torture, as its judge has it: started, heard, ended.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::lines::{Orders, Report};

/// How to start a process: the program, and what makes it call [`super::child::run`].
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What was heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A report.
    Report(Report),
    /// Nothing for so long.
    Nothing,
    /// The process has ended.
    End,
}

/// A process under way; killed when dropped.
#[derive(Debug)]
pub(crate) struct Life {
    child: Child,
    reports: mpsc::Receiver<Report>,
    /// The process itself, once it has told.
    pid: Option<u32>,
    /// Whether it was started by another program, which ends with it.
    is_through: bool,
}

impl Life {
    /// Starts a process, as the last arguments of another program if need be.
    pub(super) fn start(
        program: &Program,
        through: &[String],
        orders: &Orders,
    ) -> std::io::Result<Self> {
        let mut command = match through {
            [] => Command::new(&program.path),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&program.path);
                command
            }
        };
        let mut child = command
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C on a terminal is for the judge, who ends the process himself.
            .process_group(0)
            .spawn()?;
        let reports = listen(child.stdout.take().expect("it is piped"));
        let mut life = Self { child, reports, pid: None, is_through: !through.is_empty() };
        let line = serde_json::to_string(orders).map_err(std::io::Error::other)?;
        let mut stdin = life.child.stdin.take().expect("it is piped");
        match stdin.write_all(format!("{line}\n").as_bytes()) {
            // It was killed before it could listen.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            told => told?,
        }
        Ok(life)
    }

    /// Waits for a report.
    pub(crate) fn hear(&mut self, longest: Duration) -> Heard {
        match self.reports.recv_timeout(longest) {
            Ok(report) => {
                if let Report::Pid { pid } = report {
                    self.pid = Some(pid);
                }
                Heard::Report(report)
            }
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// Stops the process where it is: it reports nothing more.
    ///
    /// # Errors
    /// The machine's.
    pub(crate) fn suspend(&self) -> std::io::Result<()> {
        let pid = self.pid.unwrap_or(self.child.id());
        highwater_sys::process::suspend(pid).map_err(std::io::Error::other)
    }

    /// Kills the process, and gives what it still reported and how it ended.
    pub(super) fn end(mut self) -> std::io::Result<(Vec<Report>, ExitStatus)> {
        self.kill();
        let mut rest = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.hear(deadline.saturating_duration_since(Instant::now())) {
                Heard::Report(report) => {
                    // It may have said its number only now.
                    let is_pid = matches!(report, Report::Pid { .. });
                    rest.push(report);
                    if is_pid {
                        self.kill();
                    }
                }
                Heard::End => break,
                Heard::Nothing => return Err(std::io::Error::other("a killed process goes on")),
            }
        }
        let status = self.child.wait()?;
        Ok((rest, status))
    }

    fn kill(&mut self) {
        // One that has ended by itself cannot be killed: how it ended is seen later.
        match (self.is_through, self.pid) {
            (false, _) => drop(self.child.kill()),
            // Until the other program has been waited for, the number is not given again.
            (true, Some(pid)) if self.child.try_wait().is_ok_and(|ended| ended.is_none()) => {
                highwater_sys::process::kill(pid).ok();
            }
            (true, _) => {}
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.kill();
        // A process whose other end has gone ends by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads whole lines in a thread of their own, until the pipe ends.
fn listen(stdout: ChildStdout) -> mpsc::Receiver<Report> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|len| len > 0) {
            // A line that was cut off reports nothing.
            let report = Report::of_line(&line).filter(|_| line.ends_with('\n'));
            if report.is_some_and(|report| sender.send(report).is_err()) {
                return;
            }
            line.clear();
        }
    });
    receiver
}
