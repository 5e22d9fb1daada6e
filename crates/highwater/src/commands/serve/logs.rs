//! Log lines of the server, to standard error.

use anyhow::{Context, Result};
use highwater_server::settings::{LogFormat, Settings};
use tracing_subscriber::EnvFilter;

/// Begins to write log lines as the settings say.
pub fn start(settings: &Settings) -> Result<()> {
    let filter = EnvFilter::try_new(&settings.log).with_context(|| {
        format!("log={:?} is not a level or a list of module=level", settings.log)
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.log_format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot write a log: {error}"))
}
