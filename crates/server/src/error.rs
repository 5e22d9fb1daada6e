//! Why a server does not start, or stops.

use std::net::SocketAddr;

use crate::settings::SettingsError;

/// Why a server does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// A file of tokens or keys cannot be used.
    #[error("access: {0}")]
    Access(String),
    /// The system allows fewer open files than the log and the server need.
    #[error(
        "{needed} open files are needed, {log} of them for the log, and a few for connections; the \
         system allows {most}: allow more (ulimit -n, LimitNOFILE), or set max-open-files or \
         max-wal-bytes lower"
    )]
    OpenFiles {
        /// Allowed.
        most: u64,
        /// Needed without a connection.
        needed: u64,
        /// Of these, the log's.
        log: u64,
    },
    /// The data directory cannot be used.
    #[error("{place}: {why}")]
    Data {
        /// The directory.
        place: String,
        /// Why not.
        why: String,
    },
    /// The system refused something.
    #[error("{what}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}
