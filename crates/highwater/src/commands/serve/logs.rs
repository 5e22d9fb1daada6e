//! Log lines of the server, to standard error, by a thread of their own: whoever reads them slowly,
//! or not at all, costs lines and not requests.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use highwater_disk::real::SystemClock;
use highwater_server::Lines;
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

/// What the names of the server's own modules begin with.
const OWN: &str = "highwater";

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
/// have happened. Who finds a request that panics may send it again and again: of each place there
/// is one line a second.
fn log_panics(lines: NonBlocking, format: LogFormat) {
    let turns = Lines::new(Arc::new(SystemClock::new()));
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(line) = panic_line(panic, &turns, format) {
            // What finds no room is left out, as other lines are.
            lines.clone().write_all(line.as_bytes()).ok();
        }
    }));
}

/// Gives the line of a panic, if it is its turn.
fn panic_line(
    panic: &PanicHookInfo<'_>,
    turns: &Lines<String>,
    format: LogFormat,
) -> Option<String> {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let left_out = turns.turn(place.clone())?;
    let mut timestamp = String::new();
    // Without a time it is worth as much.
    SystemTime.format_time(&mut Writer::new(&mut timestamp)).ok();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
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
            format!(
                "{timestamp} ERROR panic: {message:?} thread={thread:?} place={place:?} \
                 left_out={left_out}"
            )
        }
        LogFormat::Text => format!(
            "{timestamp} ERROR panic: {message:?} thread={thread:?} place={place:?} \
             left_out={left_out}\n{trace}"
        ),
        LogFormat::Json => serde_json::json!({
            "timestamp": timestamp,
            "level": "ERROR",
            "target": "panic",
            "message": message,
            "thread": thread,
            "place": place,
            "left_out": left_out,
            "trace": trace,
        })
        .to_string(),
    };
    Some(line + "\n")
}

/// Reads what is logged. A word alone is a level: the filter takes another one for a module and
/// logs nothing else, so that a level with a typing error would be a server without a log.
///
/// A level is for the server's own lines. Of libraries there are errors at most, unless they are
/// named: their warnings are about what clients send, and as many as clients like.
fn filter(text: &str) -> Result<EnvFilter> {
    let why = || format!("log={text:?} is not a level or a list of module=level");
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        if part.contains('=') {
            all.push(part.to_owned());
            continue;
        }
        let level = if part.is_empty() { None } else { part.parse::<LevelFilter>().ok() };
        let Some(level) = level else { bail!("{}: off, error, warn, info, debug or trace", why()) };
        let of_libraries = level.min(LevelFilter::ERROR);
        // First: what is said of a module of the server's holds against it.
        all.insert(0, format!("{of_libraries},{OWN}={level}"));
    }
    EnvFilter::try_new(all.join(",")).with_context(why)
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
    use std::sync::Mutex;
    use std::time::Duration;

    use highwater_disk::sim::SimClock;

    use super::*;

    /// What is written of a panic with a message that would break lines, twice in a second and once
    /// in the next.
    fn written(format: LogFormat) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let clock = Arc::new(SimClock::new());
        let turns = Lines::new(Arc::<SimClock>::clone(&clock));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            into.lock().unwrap().extend(panic_line(panic, &turns, format));
        }));
        let body = || panic!("two\nlines and a \"quote\"");
        for passed in [0, 0, 1] {
            clock.advance(Duration::from_secs(passed));
            let thread = std::thread::Builder::new().name("breaks".to_owned());
            assert!(thread.spawn(body).unwrap().join().is_err());
        }
        std::panic::set_hook(before);
        lines.lock().unwrap().clone()
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

    /// What comes through of a warning of each kind of module, under a filter.
    fn heard(text: &str) -> Vec<&'static str> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Listener(Arc::clone(&heard)).with_filter(filter(text).unwrap());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(listener), || {
            tracing::warn!(target: "highwater_server::http", "of the server");
            tracing::warn!(target: "h2::proto::ping_pong", "of a library");
            tracing::error!(target: "h2::proto::ping_pong", "an error of a library");
        });
        let heard = heard.lock().unwrap();
        heard.iter().map(|metadata| metadata.target()).collect()
    }

    struct Listener(Arc<Mutex<Vec<&'static tracing::Metadata<'static>>>>);

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Listener {
        fn on_event(
            &self,
            event: &tracing::Event<'_>,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            self.0.lock().unwrap().push(event.metadata());
        }
    }

    #[test]
    fn a_level_is_for_the_servers_own_lines_and_libraries_warn_only_where_they_are_named() {
        let (own, library) = ("highwater_server::http", "h2::proto::ping_pong");
        for level in ["info", "warn", "debug", "trace", "debug,highwater_log=trace"] {
            assert_eq!(heard(level), [own, library], "{level}: of libraries, errors");
        }
        assert_eq!(heard("error"), [library]);
        assert_eq!(heard("off"), [""; 0]);
        assert_eq!(heard("info,h2=warn"), [own, library, library]);
        assert_eq!(heard("highwater_server=error,info"), [library], "whatever comes first");
    }

    #[test]
    fn a_panic_is_a_line_that_can_be_read_as_all_others_are_and_one_a_second_where_there_are_many()
    {
        let lines = written(LogFormat::Json);
        assert_eq!(lines.len(), 2);
        let json = &lines[1];
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        assert_eq!(value["message"], "two\nlines and a \"quote\"");
        assert_eq!(
            (value["level"].as_str(), value["thread"].as_str()),
            (Some("ERROR"), Some("breaks"))
        );
        assert!(value["place"].as_str().unwrap().contains("logs.rs:"), "{json}");
        assert_eq!(value["left_out"], 1);
        let text = &written(LogFormat::Text)[0];
        assert!(text.contains(" ERROR panic: \"two\\nlines"), "{text}");
    }
}
