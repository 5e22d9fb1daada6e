//! Log lines that others can cause as often as they like: clients, and receivers of webhooks. Of
//! each kind there is one a second at most, which says how many were left out since the last one,
//! so that nobody fills a disk with them, or hides among them what else is said (I11).
//!
//! What a client does to itself is no line at all but for `--log debug`. Every warning and error of
//! `access`, `http`, `net` and `webhook` asks here first, or says why it need not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use highwater_disk::Clock;

/// Says whose turn it is. Kinds are few: none has a name that clients choose.
#[derive(Debug)]
pub struct Lines<K> {
    clock: Arc<dyn Clock>,
    kinds: Mutex<BTreeMap<K, Said>>,
}

/// A kind of the server's own lines: what is said, and the code of why.
pub(crate) type Kind = (&'static str, &'static str);

#[derive(Debug)]
struct Said {
    /// The last second that had a line.
    second: u64,
    /// Those since then that had none.
    left_out: u64,
}

impl<K: Ord> Lines<K> {
    /// Begins with nothing said.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kinds: Mutex::default() }
    }

    /// Gives how many lines of this kind were left out since the last one, if it is time for
    /// another; counts this one as left out where it is not.
    pub fn turn(&self, kind: K) -> Option<u64> {
        let second = self.clock.monotonic().as_secs();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(said) = kinds.get_mut(&kind) else {
            kinds.insert(kind, Said { second, left_out: 0 });
            return Some(0);
        };
        if said.second == second {
            said.left_out += 1;
            return None;
        }
        said.second = second;
        Some(std::mem::take(&mut said.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use std::path::Path;

    use highwater_disk::sim::SimClock;

    /// Lines that nobody can cause as often as they like, by their file.
    const RARE: [(&str, &str); 8] = [
        // The server's own affairs: once in its life.
        ("net/mod.rs", "connections that did not end in time are cut"),
        ("net/opening.rs", "nobody hears that the log is being opened"),
        ("net/opening.rs", "the thread that answers during the opening panicked"),
        // Who may have another key may as well.
        ("http/control.rs", "webhooks get another key"),
        // `webhook::trouble`: when it begins, and when it is over.
        ("webhook/mod.rs", "a subscription cannot be read again; it is tried on"),
        ("webhook/mod.rs", "some subscriptions cannot go on; it is tried on"),
        ("webhook/mod.rs", "subscriptions can be read again"),
        ("webhook/mod.rs", "all subscriptions go on"),
    ];

    /// Gives each line of a log that is written in a folder's files: file, and its macro's text.
    fn written(folder: &Path, root: &Path, into: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                written(&path, root, into);
                continue;
            }
            let file = path.strip_prefix(root).unwrap().display().to_string();
            let text = std::fs::read_to_string(&path).unwrap();
            for level in ["info", "warn", "error"] {
                let begin = format!("tracing::{level}!(");
                let calls = text.split(&begin).skip(1);
                let calls = calls.map(|call| call.split(')').next().unwrap().to_owned());
                into.extend(calls.map(|call| (file.clone(), call)));
            }
        }
    }

    /// I11.
    #[test]
    fn whatever_may_be_said_of_each_request_or_webhook_asks_whether_it_is_its_turn() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut all = Vec::new();
        for folder in ["access", "http", "net", "webhook"] {
            written(&root.join(folder), &root, &mut all);
        }
        assert!(all.len() > 10, "{all:?}");
        for (file, call) in all {
            let is_rare = RARE.iter().any(|(of, line)| *of == file && call.contains(line));
            assert!(call.contains("left_out") != is_rare, "{file}: {call}");
        }
    }

    /// I11.
    #[test]
    fn a_kind_of_line_is_said_once_a_second_with_how_many_were_left_out_and_hides_no_other() {
        let clock = Arc::new(SimClock::new());
        let lines = Lines::new(Arc::<SimClock>::clone(&clock));
        assert_eq!(lines.turn(("failed", "FULL")), Some(0));
        for _ in 0..1000 {
            assert_eq!(lines.turn(("failed", "FULL")), None);
        }
        assert_eq!(lines.turn(("failed", "DAMAGED")), Some(0));
        assert_eq!(lines.turn(("ended", "FULL")), Some(0));
        clock.advance(Duration::from_secs(1));
        assert_eq!(lines.turn(("failed", "FULL")), Some(1000));
        assert_eq!(lines.turn(("failed", "FULL")), None);
        clock.advance(Duration::from_secs(3600));
        assert_eq!(lines.turn(("failed", "FULL")), Some(1));
        assert_eq!(lines.turn(("failed", "DAMAGED")), Some(0));
    }
}
