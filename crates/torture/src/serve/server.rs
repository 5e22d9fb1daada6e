//! A server under torture: `highwater serve` with settings from a seed, killed in the end.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use highwater_disk::Access;
use highwater_log::options::{Durability, FileBarrier, WriteBarrier, WritePathChoice};

use super::http::Client;
use crate::campaign::{CampaignError, CampaignResult};
use crate::real::settings::{Nature, options};
use crate::real::{PATIENCE, Program};

/// A process under way; killed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    address: mpsc::Receiver<SocketAddr>,
    errors: std::thread::JoinHandle<String>,
}

/// How a server ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// What it had to say.
    pub(super) said: String,
}

impl Server {
    /// Starts one on a store.
    ///
    /// # Errors
    /// The machine's.
    pub(super) fn start(program: &Program, dir: &Path, nature: Nature) -> CampaignResult<Self> {
        let started = Command::new(&program.path)
            .args(&program.arguments)
            .arg(format!("--data-dir={}", dir.display()))
            .args(flags(nature))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on a terminal is for the judge, who ends the process himself.
            .process_group(0)
            .spawn();
        let mut child = started.map_err(|error| CampaignError::machine("a server", &error))?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut stderr = child.stderr.take().expect("it is piped");
        let (sender, address) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let found = address_in(&line).map(|address| sender.send(address));
                if found.is_some_and(|sent| sent.is_err()) {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut said = Vec::new();
            // What was read up to a failure is all there is to tell.
            stderr.read_to_end(&mut said).ok();
            String::from_utf8_lossy(&said).into_owned()
        });
        Ok(Self { child, address, errors })
    }

    /// Waits until it listens, or for so long.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn address(&self, longest: Duration) -> Result<Option<SocketAddr>, String> {
        match self.address.recv_timeout(longest) {
            Ok(address) => Ok(Some(address)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err("the server ended".to_owned()),
        }
    }

    /// Kills it.
    ///
    /// # Errors
    /// The machine's.
    pub(super) fn end(mut self) -> CampaignResult<Ended> {
        let failed = |error: &dyn std::fmt::Display| CampaignError::machine("a kill", error);
        self.child.kill().map_err(|error| failed(&error))?;
        let status = self.child.wait().map_err(|error| failed(&error))?;
        let errors = std::mem::replace(&mut self.errors, std::thread::spawn(String::new));
        let said = errors.join().map_err(|_| failed(&"a thread that reads panicked"))?;
        Ok(Ended { status, said })
    }

    /// Waits until it listens; a client for it.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn ready(&self) -> Result<Client, String> {
        let begun = Instant::now();
        let address = self.address(PATIENCE)?;
        let address = address.ok_or_else(|| format!("no start within {:?}", begun.elapsed()))?;
        Ok(Client::new(address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Finds the address in what a server says when it has started.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on http://")?;
    rest.split(',').next()?.parse().ok()
}

/// Settings of a store as flags.
pub(super) fn flags(nature: Nature) -> Vec<String> {
    let options = options(nature);
    let durability = match options.durability {
        Durability::Wal => "wal".to_owned(),
        Durability::Memory => "memory".to_owned(),
        Durability::Relaxed { within } => format!("relaxed={}ms", within.as_millis()),
    };
    let barrier = match options.file_barrier {
        FileBarrier::Syncfs => "syncfs",
        FileBarrier::Files => "files",
    };
    let write_path = match options.write_path {
        WritePathChoice::Fixed(path) => {
            let access = if path.access == Access::Direct { "direct" } else { "buffered" };
            let is_dsync = path.barrier == WriteBarrier::Dsync;
            format!("{access}-{}", if is_dsync { "rwf_dsync" } else { "fdatasync" })
        }
        WritePathChoice::Measured => "measured".to_owned(),
    };
    let size = |name: &str, bytes: u64| format!("--{name}={bytes}");
    vec![
        "--listen=127.0.0.1:0".to_owned(),
        "--webhook-localhost=true".to_owned(),
        "--long-poll-timeout=100ms".to_owned(),
        "--webhook-timeout=1s".to_owned(),
        "--threads=2".to_owned(),
        format!("--durability={durability}"),
        format!("--wal-lanes={}", options.lanes),
        format!("--stream-lanes={}", options.stream_lanes),
        format!("--checkpoint-barrier={barrier}"),
        format!("--checkpoint-interval={}ms", options.checkpoint_interval.as_millis()),
        format!("--write-path={write_path}"),
        format!("--max-open-files={}", options.max_open_files),
        size("segment-bytes", options.segment_bytes),
        size("max-body-bytes", options.max_payload_bytes),
        size("max-staged-bytes", options.max_staged_bytes),
        size("checkpoint-wal-bytes", options.checkpoint_wal_bytes),
        size("max-wal-bytes", options.max_wal_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_what_a_server_says() {
        let line = "highwater is listening on http://127.0.0.1:4437, with its data in x";
        assert_eq!(address_in(line), Some("127.0.0.1:4437".parse().unwrap()));
        assert_eq!(address_in("durability=wal"), None);
    }
}
