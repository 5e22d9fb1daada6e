//! `highwater serve`: a server for durable streams, until a signal or a failed disk ends it.

mod announce;
mod flags;
mod logs;
mod merge;
mod profile;
mod supervisor;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use highwater_server::Server;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub use self::flags::ServeArgs;

use super::Ending;
use crate::output;

/// How often the log is asked whether it still takes appends.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Serves, or prints the settings.
pub fn run(args: &ServeArgs) -> Result<Ending> {
    // First of all: a signal that comes while the server starts must not be lost, nor kill it.
    let signals = signals()?;
    let mut merged = merge::merge(args, std::env::vars_os())?;
    for warning in &merged.warnings {
        output::say_in_passing(&format!("highwater: {warning}"));
    }
    if args.print_config {
        output::print(&announce::configuration(&merged))?;
        merged.settings.check()?;
        return Ok(Ending::Done);
    }
    profile::follow(&mut merged.settings)?;
    // Each connection is an open file.
    highwater_sys::process::raise_open_file_limit();
    let logs = logs::start(&merged.settings)?;
    let server = Server::start(merged.settings)?;
    let started = announce::started(&server);
    // Where nobody reads it, the server serves all the same.
    output::within_a_moment(move || output::print(&started)).transpose()?;
    supervisor::ready(&server.address().to_string());
    // Reading settings, keys and a log takes code that serving does not.
    if let Err(error) = highwater_sys::memory::unmap_program() {
        output::say_in_passing(&format!("highwater: the start's code stays in memory: {error}"));
    }
    let mut ending = attend(&server, &signals);
    if let Err(error) = server.stop() {
        output::say_in_passing(&format!("highwater: {error}"));
        ending = Ending::Failed;
    }
    if logs.left_out() > 0 {
        output::say_in_passing(&format!("highwater: {} log lines were left out", logs.left_out()));
    }
    Ok(ending)
}

/// Passes signals on from a thread of its own; a second one that ends the program ends it at once.
fn signals() -> Result<Receiver<i32>> {
    let (sender, receiver) = channel();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot handle signals")?;
    let body = move || {
        let mut is_ending = false;
        for signal in signals.forever() {
            if signal != SIGHUP && is_ending {
                std::process::exit(130);
            }
            is_ending |= signal != SIGHUP;
            if sender.send(signal).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).context("a thread")?;
    Ok(receiver)
}

/// What signals ask for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Reload,
    Stop,
}

/// Waits for signals, a moment at most. All that have come count at once: however often files are
/// to be read again, the end is not kept waiting.
fn asked(signals: &Receiver<i32>) -> Asked {
    let first = match signals.recv_timeout(LOOK_EVERY) {
        Ok(signal) => signal,
        Err(RecvTimeoutError::Timeout) => return Asked::Nothing,
        Err(RecvTimeoutError::Disconnected) => return Asked::Stop,
    };
    let is_end = |signal| signal != SIGHUP;
    if is_end(first) || signals.try_iter().any(is_end) { Asked::Stop } else { Asked::Reload }
}

/// Waits for what ends the server.
fn attend(server: &Server, signals: &Receiver<i32>) -> Ending {
    let mut is_known = false;
    loop {
        match asked(signals) {
            Asked::Nothing => {}
            Asked::Reload => server.reload(),
            Asked::Stop => {
                supervisor::stopping("waiting for requests to end");
                output::say_in_passing("highwater: stopping");
                return Ending::Done;
            }
        }
        if let Some(why) = server.has_failed() {
            supervisor::stopping(&why);
            output::say_in_passing(&format!("highwater: {why}"));
            return Ending::Failed;
        }
        if !is_known && let Some(why) = server.read_only() {
            is_known = true;
            output::say_in_passing(&format!(
                "highwater: {why}; changes are refused until the disk is mended and the server is \
                 started anew, reads go on"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_have_come_count_at_once_and_an_end_among_them_is_the_end() {
        let (sender, receiver) = channel();
        for _ in 0..1000 {
            sender.send(SIGHUP).unwrap();
        }
        assert_eq!(asked(&receiver), Asked::Reload);
        assert_eq!(asked(&receiver), Asked::Nothing, "a thousand are one");
        for signal in [SIGHUP, SIGHUP, SIGTERM, SIGHUP] {
            sender.send(signal).unwrap();
        }
        assert_eq!(asked(&receiver), Asked::Stop);
        sender.send(SIGINT).unwrap();
        assert_eq!(asked(&receiver), Asked::Stop);
        drop(sender);
        assert_eq!(asked(&receiver), Asked::Stop, "nobody could end it any more");
    }
}
