//! Log lines of the server, to standard error, by a thread of their own: whoever reads them slowly,
//! or not at all, costs lines and not requests.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;

use anyhow::{Context, Result};
#[cfg(feature = "otlp")]
use highwater_server::Traces;
use highwater_server::settings::{LogFormat, Settings};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// Lines that wait to be written, at most; what comes then is left out.
const MOST_LINES: usize = 10_000;

/// The log; its last lines are written when this is dropped.
pub struct Logs {
    // First: it may have something to say at the end.
    #[cfg(feature = "otlp")]
    _traces: Option<Traces>,
    _guard: WorkerGuard,
    left_out: ErrorCounter,
}

impl Logs {
    /// Lines that were left out.
    pub fn left_out(&self) -> usize {
        self.left_out.dropped_lines()
    }
}

/// Has panics written as log lines are: the system's own way waits for whoever reads them, in the
/// thread that panicked.
fn log_panics(lines: NonBlocking) {
    std::panic::set_hook(Box::new(move |panic| {
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        // What finds no room is left out, as other lines are.
        lines.clone().write_all(format!("{panic}{trace}\n").as_bytes()).ok();
    }));
}

/// Begins to write log lines, and to send spans, as the settings say.
pub fn start(settings: &Settings) -> Result<Logs> {
    let filter = EnvFilter::try_new(&settings.log).with_context(|| {
        format!("log={:?} is not a level or a list of module=level", settings.log)
    })?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(MOST_LINES)
        .thread_name("log-lines")
        .finish(std::io::stderr());
    let left_out = writer.error_counter();
    log_panics(writer.clone());
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    let lines = match settings.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let all = tracing_subscriber::registry().with(lines.with_filter(filter));
    #[cfg(feature = "otlp")]
    let traces = Traces::start(settings)?;
    #[cfg(feature = "otlp")]
    let all = all.with(traces.as_ref().map(Traces::layer));
    all.try_init().context("cannot write a log")?;
    Ok(Logs {
        #[cfg(feature = "otlp")]
        _traces: traces,
        _guard: guard,
        left_out,
    })
}
