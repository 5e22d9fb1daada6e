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
    // Before the server starts: a signal that comes meanwhile must not be lost.
    let signals = signals()?;
    let server = Server::start(merged.settings)?;
    let started = announce::started(&server);
    // Where nobody reads it, the server serves all the same.
    output::within_a_moment(move || output::print(&started)).transpose()?;
    supervisor::ready(&server.address().to_string());
    let ending = attend(&server, &signals);
    server.stop();
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

/// Waits for what ends the server.
fn attend(server: &Server, signals: &Receiver<i32>) -> Ending {
    loop {
        match signals.recv_timeout(LOOK_EVERY) {
            Ok(SIGHUP) => server.reload(),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                supervisor::stopping("waiting for requests to end");
                output::say_in_passing("highwater: stopping");
                return Ending::Done;
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(why) = server.has_failed() {
                    supervisor::stopping(&why);
                    output::say_in_passing(&format!("highwater: {why}"));
                    return Ending::Failed;
                }
            }
        }
    }
}
