//! Ctrl-C: the first asks the run to end and keep what it has, the second ends it at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit code of a program that a signal stopped.
const STOPPED: i32 = 130;

/// Sets a flag on the first SIGINT, SIGTERM or SIGHUP, and exits on the second.
pub fn on_signal() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Registered first, it sees the flag as the first signal left it: only the second exits.
        signal_hook::flag::register_conditional_shutdown(signal, STOPPED, Arc::clone(&flag))
            .context("cannot handle signals")?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}
