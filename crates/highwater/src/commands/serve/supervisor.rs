//! Tells whoever started the server how far it is, in the way of systemd's `Type=notify`: what is
//! ordered behind the server starts when the log has been opened, not when the process has.
//!
//! Nothing is said where `NOTIFY_SOCKET` names no socket.

use sd_notify::NotifyState;

use crate::output;

/// Says that requests are answered, and where.
pub fn ready(address: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("listening on {address}"))]);
}

/// Says that the server is on its way out, and why.
pub fn stopping(why: &str) {
    // A line is a message of its own.
    tell(&[NotifyState::Stopping, NotifyState::Status(&why.replace('\n', " "))]);
}

/// Sends it; a supervisor that cannot be reached stops no server.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        output::say_in_passing(&format!("highwater: cannot notify the supervisor: {error}"));
    }
}
