//! A running server: its log, its listener, its threads, and how it ends.

use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Context;
use std::thread::JoinHandle;
use std::time::Duration;

use highwater_disk::real::{OpenFiles, RealDisk, SystemClock, SystemRng};
use highwater_disk::{Clock, Rng};
use highwater_log::error::LogError;
use highwater_log::lane::reactor::attend;
use highwater_log::{Driver, Log, Machine};
use highwater_streams::error::Problem;
use highwater_streams::live::relay;
use highwater_streams::path::Mount;
use highwater_streams::service::{Around, Limits, Streams};
use highwater_streams::subscriptions::keys::Entropy;
use highwater_streams::subscriptions::{self, SubscriptionLimits, Subscriptions, open_keys};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::app::App;
use crate::error::ServeError;
use crate::files::{Allowed, Plan};
use crate::http::budget::Budget;
use crate::http::cold;
use crate::http::cors::Cors;
use crate::lines::Lines;
use crate::metrics::Metrics;
use crate::net::Door;
use crate::net::opening::{Opening, Silent};
use crate::net::origin::Origins;
use crate::net::tls::Identity;
use crate::rate::Limiter;
use crate::settings::{self, Settings, SettingsError};
use crate::watched::Watched;
use crate::webhook;

/// A running server.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    tls: Option<Arc<Identity>>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
    has_ended: bool,
}

impl Server {
    /// Opens the log, listens, and begins to serve.
    ///
    /// # Errors
    /// [`ServeError`]; nothing is left running then.
    pub fn start(settings: Settings) -> Result<Self, ServeError> {
        settings.check()?;
        let allowed = OpenFiles::of_this_process();
        let allowed = Allowed { most: allowed.most, now: allowed.now };
        let files = Plan::new(&settings, threads_of(&settings), allowed)?;
        let watched = Watched::of(&settings);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let lines = Arc::new(Lines::new(Arc::clone(&clock)));
        let access = Access::load(&settings, &lines)?;
        let tls = Identity::load(&settings)?;
        let acceptor = match &tls {
            Some(identity) => Some(TlsAcceptor::from(identity.config()?)),
            None => None,
        };
        let mount = Mount::new(&settings.stream_root)
            .map_err(|problem| SettingsError::Refused(format!("stream-root: {problem}")))?;
        let listener = listen(settings.listen)?;
        let address = listener.local_addr().map_err(system("the listener's address"))?;
        // Until there is something to ask: replaying a log takes time.
        let opening = Opening::begin(&settings, mount.clone(), (&listener, acceptor.clone()))?;
        let log = Arc::new(open(&settings, &clock)?);
        let around = Around {
            log: Arc::clone(&log),
            clock: Arc::clone(&clock),
            rng: Box::new(SystemRng::new()),
        };
        let runtimes = runtimes(&settings)?;
        let failed = |problem: Problem| data_error(&settings, problem.to_string());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        // On a thread of its own: whoever starts a server may be within a runtime.
        let open = || runtimes[0].block_on(open_keys(&log, &*entropy));
        let opened = std::thread::scope(|scope| scope.spawn(open).join());
        let keys = opened.expect("keys are opened without a panic").map_err(failed)?;
        let streams = Streams::new(around, limits(&settings), keys.store_tag());
        let about = subscriptions::Settings {
            keys,
            entropy,
            policy: settings.webhook_policy(),
            limits: SubscriptionLimits {
                subscriptions: settings.max_subscriptions.get(),
                links_bytes: settings.max_links_bytes.0,
            },
        };
        let subscriptions = Subscriptions::open(streams.clone(), about).map_err(failed)?;
        let app = Arc::new(App {
            metrics: Metrics::new(&log, &files, &subscriptions),
            streams,
            subscriptions,
            making: Arc::new(Semaphore::new(1)),
            files,
            log,
            mount,
            origins: Origins::new(&settings, address),
            access,
            cors: Cors::new(&settings),
            limiter: Limiter::new(&settings),
            bodies: Arc::new(Budget::new(settings.max_bodies_bytes.0)),
            requests: Arc::new(Budget::new(settings.max_requests_bytes.0)),
            clock,
            lines,
            stopping: CancellationToken::new(),
            connections: AtomicU64::new(0),
            settings,
        });
        if let Some(cut) = &app.files.cut {
            tracing::warn!("there are {cut}");
        }
        let mut server = Self { app, tls, address, threads: Vec::new(), has_ended: false };
        let silent = opening.finish();
        server.start_threads(runtimes, acceptor, (&listener, silent), watched)?;
        Ok(server)
    }

    /// Gives the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the settings it runs with.
    pub fn settings(&self) -> &Settings {
        &self.app.settings
    }

    /// Says that fewer connections are accepted than the settings ask for, and why, if so.
    pub fn cut_short(&self) -> Option<&str> {
        self.app.files.cut.as_deref()
    }

    /// Says how the log is written, a line for each way that a lane has.
    pub fn write_paths(&self) -> String {
        let lanes = self.app.log.write_paths();
        let mut lines: Vec<String> = lanes
            .iter()
            .map(|chosen| format!("log written by {} ({})\n", chosen.path, chosen.reason))
            .collect();
        lines.dedup();
        lines.concat()
    }

    /// Reads files of tokens, keys and certificates again. What cannot be read leaves the old state
    /// in place, and is said in the log.
    pub fn reload(&self) {
        reload(&self.app, self.tls.as_deref());
    }

    /// Says whether the log has failed: then the server should end and be started again.
    pub fn has_failed(&self) -> Option<String> {
        self.app.log.check().err().map(|error| error.to_string())
    }

    /// Says why the log takes no changes any more, if so: reads go on, and mending it needs
    /// somebody.
    pub fn read_only(&self) -> Option<String> {
        self.app.log.usage().into_iter().find_map(|lane| lane.read_only)
    }

    /// Stops: accepts nothing more, lets requests end, cuts what does not end in time, and closes
    /// the log.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when the log could not be made durable: what was acknowledged before
    /// its barrier may be lost.
    pub fn stop(mut self) -> Result<(), LogError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LogError> {
        self.app.stopping.cancel();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the server panicked");
            }
        }
        self.has_ended = true;
        self.app.log.close().inspect_err(|error| {
            tracing::error!(%error, "the log could not be closed in order");
        })
    }

    fn start_threads(
        &mut self,
        runtimes: Vec<Runtime>,
        acceptor: Option<TlsAcceptor>,
        (listener, mut silent): (&TcpListener, Vec<Silent>),
        watched: Watched,
    ) -> Result<(), ServeError> {
        let door = Arc::new(Door::new(Arc::clone(&self.app), acceptor));
        // The first one also does what is done for all.
        let app = Arc::clone(&self.app);
        runtimes[0].spawn(watch_files(Arc::clone(&app), self.tls.clone(), watched));
        runtimes[0].spawn(webhook::drive(app));
        runtimes[0].spawn(Arc::clone(&door).keep());
        for (number, runtime) in runtimes.into_iter().enumerate() {
            let listener = listener.try_clone().map_err(system("a copy of the listener"))?;
            let door = Arc::clone(&door);
            if self.app.settings.runtime == settings::Runtime::PerCore {
                // Waiting for commits, and waking live readers, is a matter of the thread, not of
                // each request.
                runtime.spawn(attend(after_a_look_for_events));
                runtime.spawn(relay());
            }
            // The first one gets them all.
            let silent = std::mem::take(&mut silent);
            let body = move || {
                if let Err(error) = runtime.block_on(door.serve(listener, silent)) {
                    tracing::error!(%error, "a worker ended");
                }
                // Connections that did not end in time are dropped here.
                runtime.shutdown_timeout(Duration::from_secs(1));
            };
            let thread = std::thread::Builder::new().name(format!("serve-{number}")).spawn(body);
            self.threads.push(thread.map_err(system("a thread"))?);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.has_ended {
            // Whoever does not ask how it ended reads it in the log.
            self.end().ok();
        }
    }
}

/// Has a task polled again when the runtime has asked the system for events and polled who they
/// are for.
fn after_a_look_for_events(context: &mut Context<'_>) {
    let again = pin!(tokio::task::yield_now());
    assert!(again.poll(context).is_pending(), "who yields is polled again");
}

/// Number of threads that serve.
fn threads_of(settings: &Settings) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if settings.threads.0 == 0 { cores() } else { settings.threads.get() }
}

/// Makes the runtimes that the settings ask for: one for each thread, or one for all.
fn runtimes(settings: &Settings) -> Result<Vec<Runtime>, ServeError> {
    let threads = threads_of(settings);
    let mut builders = match settings.runtime {
        settings::Runtime::PerCore => {
            (0..threads).map(|_| Builder::new_current_thread()).collect::<Vec<_>>()
        }
        settings::Runtime::Shared => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads).thread_name("serve");
            vec![builder]
        }
    };
    let set_up =
        |builder: &mut Builder| builder.enable_all().max_blocking_threads(cold::THREADS).build();
    let built = builders.iter_mut().map(set_up);
    built.map(|runtime| runtime.map_err(system("a runtime"))).collect()
}

/// Randomness that nobody can guess.
#[derive(Debug)]
struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let random = ring::default_provider().secure_random;
        random.fill(bytes).expect("the system gives random bytes");
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        chunk_bytes: settings.chunk_bytes.0,
        append_bytes: settings.max_body_bytes.0,
        answers_bytes: settings.max_answers_bytes.0,
        ..Limits::default()
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).map_err(failed)?;
    // A server that is started again must not wait for connections of the one before.
    socket.set_reuse_address(true).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(4096).map_err(failed)?;
    Ok(socket.into())
}

/// Opens the data directory, made if need be.
fn open(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Log, ServeError> {
    let failed = |why: String| data_error(settings, why);
    let disk = RealDisk::open_or_make(&settings.data_dir).map_err(|e| failed(e.to_string()))?;
    let machine = Machine {
        disk: Arc::new(disk),
        clock: Arc::clone(clock),
        rng: Box::new(SystemRng::new()) as Box<dyn Rng>,
    };
    let opened = Log::open(machine, &settings.log_options(), Driver::Threads);
    opened.map_err(|error| failed(settings::as_settings(error).to_string()))
}

fn data_error(settings: &Settings, why: String) -> ServeError {
    ServeError::Data { place: settings.data_dir.display().to_string(), why }
}

fn reload(app: &App, tls: Option<&Identity>) {
    let errors = app.access.reload();
    for error in &errors {
        tracing::error!(%error, "what stood in this access file before stays in force");
    }
    if errors.is_empty() {
        tracing::info!("access files read");
    }
    match tls.map(Identity::reload) {
        None => {}
        Some(Ok(())) => tracing::info!("certificate read"),
        Some(Err(error)) => tracing::error!(%error, "certificate kept as it was"),
    }
}

/// Reads files again when they have changed.
async fn watch_files(app: Arc<App>, tls: Option<Arc<Identity>>, mut watched: Watched) {
    loop {
        tokio::select! {
            () = watched.changed() => reload(&app, tls.as_deref()),
            () = app.stopping.cancelled() => return,
        }
    }
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> ServeError {
    move |source| ServeError::System { what, source }
}

#[cfg(test)]
#[path = "panic_tests.rs"]
mod panic_tests;
