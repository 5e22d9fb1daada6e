//! Log lines of the server, to standard error, by a thread of their own: whoever reads them slowly,
//! or not at all, costs lines and not requests.

use anyhow::{Context, Result};
use highwater_server::settings::{LogFormat, Settings};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// Lines that wait to be written, at most; what comes then is left out.
const MOST_LINES: usize = 10_000;

/// The log; its last lines are written when this is dropped.
pub struct Logs {
    _guard: WorkerGuard,
    left_out: ErrorCounter,
}

impl Logs {
    /// Lines that were left out.
    pub fn left_out(&self) -> usize {
        self.left_out.dropped_lines()
    }
}

/// Begins to write log lines as the settings say.
pub fn start(settings: &Settings) -> Result<Logs> {
    let filter = EnvFilter::try_new(&settings.log).with_context(|| {
        format!("log={:?} is not a level or a list of module=level", settings.log)
    })?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(MOST_LINES)
        .thread_name("log-lines")
        .finish(std::io::stderr());
    let logs = Logs { _guard: guard, left_out: writer.error_counter() };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let started = match settings.log_format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot write a log: {error}"))?;
    Ok(logs)
}
