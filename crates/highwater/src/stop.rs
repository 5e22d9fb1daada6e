//! Ctrl-C: the first asks the run to end and keep what it has, the second ends it at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a program that a signal stopped.
const STOPPED: i32 = 130;

/// Sets a flag on the first SIGINT or SIGTERM, and exits on the second. SIGHUP is left as it is:
/// whoever starts the program with `nohup` wants it to go on.
pub fn on_signal() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Registered first, it sees the flag as the first signal left it: only the second exits.
        signal_hook::flag::register_conditional_shutdown(signal, STOPPED, Arc::clone(&flag))
            .context("cannot handle signals")?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}
