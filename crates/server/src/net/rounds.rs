//! Rounds: all connections are looked at once a second, by one task for all of them; so are the
//! streams that are followed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::watch::{Order, Patience, Verdict, Watch};
use crate::app::App;
use crate::metrics::Limit;

/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often streams that are followed are kept from ending.
const KEEP_EVERY: Duration = Duration::from_millis(250);

/// The connections there are, by number.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    connections: Mutex<HashMap<u64, (SocketAddr, Arc<Watch>)>>,
}

/// A connection's place in the rounds.
#[derive(Debug)]
pub(crate) struct Visited {
    rounds: Arc<Rounds>,
    number: u64,
}

impl Rounds {
    /// Takes a connection in, until what is returned is dropped.
    pub fn visit(
        self: &Arc<Self>,
        number: u64,
        address: SocketAddr,
        watch: &Arc<Watch>,
    ) -> Visited {
        self.lock().insert(number, (address, Arc::clone(watch)));
        Visited { rounds: Arc::clone(self), number }
    }

    /// Goes the rounds for as long as it is polled. When the server stops, all are asked to end.
    pub async fn walk(&self, app: &App, patience: &Patience) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut keep = tokio::time::interval(KEEP_EVERY);
        for interval in [&mut look, &mut keep] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let mut is_stopping = false;
        loop {
            tokio::select! {
                _ = keep.tick() => {
                    app.streams.keep_followed();
                    continue;
                }
                _ = look.tick() => {}
                () = app.stopping.cancelled(), if !is_stopping => is_stopping = true,
            }
            self.look(app, patience, is_stopping.then_some(Order::Stop));
            app.streams.nudge();
        }
    }

    /// Has all end: whoever accepts no more says so itself, since who walks may be gone before.
    pub fn stop(&self) {
        for (_, watch) in self.lock().values() {
            watch.give(Order::Stop);
        }
    }

    /// Looks at each once; `all` is an order for everybody.
    fn look(&self, app: &App, patience: &Patience, all: Option<Order>) {
        for (address, watch) in self.lock().values() {
            match watch.judge(patience) {
                Verdict::Cut(why) => {
                    if watch.give(Order::Close) {
                        app.metrics.hit(Limit::Cut);
                        tracing::debug!(%address, why, "connection cut");
                    }
                }
                Verdict::AskToEnd => drop(watch.give(all.unwrap_or(Order::End))),
                Verdict::Fine => drop(all.map(|order| watch.give(order))),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (SocketAddr, Arc<Watch>)>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visited {
    fn drop(&mut self) {
        let gone = self.rounds.lock().remove(&self.number);
        drop(gone);
    }
}
