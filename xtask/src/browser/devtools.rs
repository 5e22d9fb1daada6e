//! Drives Chromium over its debugging pipe: JSON messages that end in a zero byte.
//!
//! The pipe needs no port, no extra package and no network: the shell that starts the browser
//! gives it our two pipes as descriptors 3 (to it) and 4 (from it).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// How long the browser may take for any one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names under which Debian and others install it.
const PROGRAMS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"];

const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// Finds the browser.
pub(crate) fn find_program() -> Option<PathBuf> {
    PROGRAMS.iter().find_map(|name| crate::ci::tools::find(name))
}

/// A running browser; dropped, it is ended and its profile removed.
pub(super) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    profile: PathBuf,
    last_id: u64,
    events: Vec<Value>,
}

impl Browser {
    /// Starts the browser with a new profile below `folder`.
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self> {
        let profile = folder.join(format!("browser-profile-{}", std::process::id()));
        std::fs::create_dir_all(&profile).context("cannot create the browser's profile")?;
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]);
        command.arg(program).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the browser")?;
        let to = child.stdin.take().context("no pipe to the browser")?;
        let out = child.stdout.take().context("no pipe from the browser")?;
        Ok(Self { child, to, from: read_messages(out), profile, last_id: 0, events: Vec::new() })
    }

    /// Calls a method, of the browser or of a page's session, and returns its result.
    pub(super) fn call(&mut self, session: &str, method: &str, params: &Value) -> Result<Value> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let sent = write!(self.to, "{message}\0").and_then(|()| self.to.flush());
        sent.with_context(|| format!("{method}: the browser is gone"))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.receive(deadline).with_context(|| method.to_owned())?;
            if answer["id"] != json!(self.last_id) {
                self.events.push(answer);
            } else if answer["error"].is_object() {
                bail!("{method}: the browser refused: {}", answer["error"]);
            } else {
                return Ok(answer["result"].clone());
            }
        }
    }

    /// Waits until an event of the session satisfies the condition; it stays among the events.
    pub(super) fn wait_for(
        &mut self,
        session: &str,
        what: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.events.iter().any(|event| event["sessionId"] == session && is_it(event)) {
            let event = self.receive(deadline).with_context(|| what.to_owned())?;
            self.events.push(event);
        }
        Ok(())
    }

    /// Takes the session's events so far; those of others are dropped.
    pub(super) fn take_events(&mut self, session: &str) -> Vec<Value> {
        let events = std::mem::take(&mut self.events);
        events.into_iter().filter(|event| event["sessionId"] == session).collect()
    }

    /// Waits for the next message.
    fn receive(&self, deadline: Instant) -> Result<Value> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.from.recv_timeout(left).context("the browser gave no answer in time, or has ended")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Nothing can be done about a browser or profile that does not go; both are temporary.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.profile));
    }
}

/// Reads messages on a thread of its own, so that waiting for one can end.
fn read_messages(out: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut message = Vec::new();
        while out.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            let Ok(value) = serde_json::from_slice(&message) else { break };
            if sender.send(value).is_err() {
                break;
            }
            message.clear();
        }
    });
    receiver
}
