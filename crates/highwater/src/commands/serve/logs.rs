//! Log lines of the server, to standard error, by a thread of their own: whoever reads them slowly,
//! or not at all, costs lines and not requests.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;
use std::panic::PanicHookInfo;

use anyhow::{Context, Result, bail};
#[cfg(feature = "otlp")]
use highwater_server::Traces;
use highwater_server::settings::{LogFormat, Settings};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
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

/// Has panics written as log lines are, whatever the filter: the system's own way waits for whoever
/// reads them, in the thread that panicked. They do not go the way of other lines, in which it may
/// have happened.
fn log_panics(lines: NonBlocking, format: LogFormat) {
    std::panic::set_hook(Box::new(move |panic| {
        // What finds no room is left out, as other lines are.
        lines.clone().write_all(panic_line(panic, format).as_bytes()).ok();
    }));
}

fn panic_line(panic: &PanicHookInfo<'_>, format: LogFormat) -> String {
    let mut timestamp = String::new();
    // Without a time it is worth as much.
    SystemTime.format_time(&mut Writer::new(&mut timestamp)).ok();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let payload = panic.payload();
    let literal = payload.downcast_ref::<&str>().copied();
    let message = literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or("it has no message");
    let trace = Backtrace::capture();
    let trace = match trace.status() {
        BacktraceStatus::Captured => trace.to_string(),
        _ => String::new(),
    };
    let line = match format {
        LogFormat::Text if trace.is_empty() => {
            format!("{timestamp} ERROR panic: {message:?} thread={thread:?} place={place:?}")
        }
        LogFormat::Text => format!(
            "{timestamp} ERROR panic: {message:?} thread={thread:?} place={place:?}\n{trace}"
        ),
        LogFormat::Json => serde_json::json!({
            "timestamp": timestamp,
            "level": "ERROR",
            "target": "panic",
            "message": message,
            "thread": thread,
            "place": place,
            "trace": trace,
        })
        .to_string(),
    };
    line + "\n"
}

/// Reads what is logged. A word alone is a level: the filter takes another one for a module and
/// logs nothing else, so that a level with a typing error would be a server without a log.
fn filter(text: &str) -> Result<EnvFilter> {
    let why = || format!("log={text:?} is not a level or a list of module=level");
    let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    let is_meant = |part: &str| part.contains('=') || is_level(part.trim());
    if !text.split(',').all(is_meant) {
        bail!("{}: off, error, warn, info, debug or trace", why());
    }
    EnvFilter::try_new(text).with_context(why)
}

/// Begins to write log lines, and to send spans, as the settings say.
pub fn start(settings: &Settings) -> Result<Logs> {
    let filter = filter(&settings.log)?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(MOST_LINES)
        .thread_name("log-lines")
        .finish(std::io::stderr());
    let left_out = writer.error_counter();
    log_panics(writer.clone(), settings.log_format);
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is written of a panic with a message that would break lines.
    fn written(format: LogFormat) -> String {
        let line = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&line);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            *into.lock().unwrap() = panic_line(panic, format);
        }));
        let body = || panic!("two\nlines and a \"quote\"");
        let thread = std::thread::Builder::new().name("breaks".to_owned()).spawn(body).unwrap();
        assert!(thread.join().is_err());
        std::panic::set_hook(before);
        line.lock().unwrap().clone()
    }

    #[test]
    fn a_level_with_a_typing_error_is_refused_instead_of_a_server_without_a_log() {
        for good in ["info", "WARN", "off", "warn,highwater_log=debug", "highwater_server=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for odd in ["inof", "warning", "", "info,highwater_log", "highwater_log=loud"] {
            let refused = filter(odd).unwrap_err().to_string();
            assert!(refused.contains("module=level"), "{odd}: {refused}");
        }
    }

    #[test]
    fn a_panic_is_a_line_that_can_be_read_as_all_others_are() {
        let json = written(LogFormat::Json);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        assert_eq!(value["message"], "two\nlines and a \"quote\"");
        assert_eq!(
            (value["level"].as_str(), value["thread"].as_str()),
            (Some("ERROR"), Some("breaks"))
        );
        assert!(value["place"].as_str().unwrap().contains("logs.rs:"), "{json}");
        let text = written(LogFormat::Text);
        assert!(text.contains(" ERROR panic: \"two\\nlines"), "{text}");
    }
}
