//! Open files: what the log and the server need comes first, connections have what is left (I11).
//!
//! Each connection is an open file, and the system allows a process only so many. Were they given
//! out as they are asked for, clients could take those that the log needs to go on.

use crate::error::ServeError;
use crate::http::cold;
use crate::net::reserve;
use crate::settings::{Runtime, Settings};
use crate::webhook::LOOKUPS;

/// Of a thread: its queue of events and what wakes it, and a copy of the listener, which are five,
/// and a connection that it accepts.
const OF_THREAD: u64 = 6;
/// Of the process: signals, files that are read again, lists of directories.
const OF_PROCESS: u64 = 16;
/// What is left alone, for what was not thought of.
const RESERVE: u64 = 32;
/// Connections that are worth a start.
const LEAST_CONNECTIONS: u64 = 8;

/// What the process may have open, and has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Open files at most.
    pub most: u64,
    /// Those that are open already.
    pub now: u64,
}

/// How open files are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Open files at most.
    pub most: u64,
    /// Connections at once.
    pub connections: u32,
    threads: u64,
    /// Why those are fewer than the settings ask for.
    pub cut: Option<String>,
}

impl Plan {
    /// Shares them out.
    ///
    /// # Errors
    /// [`ServeError::OpenFiles`] when next to nothing is left for connections.
    pub fn new(settings: &Settings, threads: usize, allowed: Allowed) -> Result<Self, ServeError> {
        let threads = u64::try_from(threads).unwrap_or(u64::MAX);
        let runtimes = if settings.runtime == Runtime::PerCore { threads } else { 1 };
        let readers = u64::try_from(cold::THREADS).unwrap_or(u64::MAX).saturating_mul(runtimes);
        let log = settings.log_options().open_files();
        let needed = [
            allowed.now,
            log,
            readers,
            threads.saturating_mul(OF_THREAD),
            u64::from(settings.webhook_deliveries.0),
            u64::try_from(LOOKUPS).unwrap_or(u64::MAX),
            OF_PROCESS,
            reserve::MOST_OPEN,
            RESERVE,
        ];
        let needed = needed.into_iter().fold(0, u64::saturating_add);
        let wanted = settings.max_connections.0;
        let left = allowed.most.saturating_sub(needed);
        if left < LEAST_CONNECTIONS.min(u64::from(wanted)) {
            return Err(ServeError::OpenFiles { most: allowed.most, needed, log });
        }
        let connections = u32::try_from(left).unwrap_or(u32::MAX).min(wanted);
        let cut = (connections < wanted).then(|| {
            format!(
                "{connections} connections at once, not {wanted} (max-connections): the system \
                 allows {} open files (ulimit -n), and {needed} are for the log and the server",
                allowed.most
            )
        });
        Ok(Self { most: allowed.most, connections, threads, cut })
    }

    /// Gives how many connections beyond the limit are open at most, with one for each thread that
    /// waits for another.
    pub fn most_beyond(&self) -> u64 {
        reserve::MOST_OPEN + self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::key;

    fn plan(most: u64, changes: &[(&str, &str)]) -> Result<Plan, ServeError> {
        let mut settings = Settings::default();
        for (name, text) in changes {
            key(name).unwrap().set(&mut settings, text).unwrap();
        }
        Plan::new(&settings, 2, Allowed { most, now: 3 })
    }

    #[test]
    fn connections_have_what_the_log_and_the_server_leave_and_it_is_said() {
        // I11
        let enough = plan(1 << 20, &[]).unwrap();
        assert_eq!((enough.connections, enough.cut), (20_000, None));
        let few = plan(1024, &[]).unwrap();
        assert!((400..900).contains(&few.connections), "{few:?}");
        assert!(few.cut.unwrap().contains("1024 open files"));
        let wide = plan(1024, &[("wal-lanes", "8")]).unwrap();
        assert!(wide.connections < few.connections, "lanes have files of their own");
        assert_eq!(plan(u64::MAX, &[("max-connections", "7")]).unwrap().connections, 7);
    }

    #[test]
    fn a_limit_that_the_log_does_not_fit_in_is_refused_with_what_would_do() {
        let refused = plan(256, &[]).unwrap_err().to_string();
        for word in ["256", "ulimit -n", "max-open-files", "max-wal-bytes"] {
            assert!(refused.contains(word), "{word} in {refused}");
        }
        let small =
            [("max-open-files", "16"), ("webhook-deliveries", "1"), ("max-wal-bytes", "256MiB")];
        assert!(plan(256, &small).unwrap().connections >= 8);
    }
}
