//! Drives subscriptions: does what is due, and sends webhooks.
//!
//! `queue` says whose turn it is, `names` looks up hosts, `sender` sends one. What is to be sent
//! and what an answer means is decided by `highwater-streams`, and is durable before it is sent.
//! `trouble` says what of that fails, once.

mod names;
mod queue;
mod sender;
mod trouble;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use highwater_streams::error::{Outcome, Problem};
use highwater_streams::subscriptions::{Delivered, Due, Refusal};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

pub(crate) use self::names::LOOKUPS;
use self::queue::{Places, Queue};
use self::sender::Sender;
use self::trouble::{Change, Trouble};
use crate::app::App;
use crate::http::cold;
use crate::http::failure::Failure;
use crate::metrics::Limit;

/// Drives the subscriptions until the server stops.
pub(crate) async fn drive(app: Arc<App>) {
    let sender = Arc::new(Sender::new(&app.settings));
    let all = app.settings.webhook_deliveries.get();
    let each = app.settings.webhook_deliveries_per_host.get().min(all);
    let mut queue = Queue::new(Places { all, each });
    let (mut sending, mut places) = (JoinSet::new(), HashMap::new());
    let mut searching: Option<JoinHandle<()>> = None;
    let mut troubles = Troubles::default();
    while !app.stopping.is_cancelled() {
        let is_stale = app.subscriptions.has_stale();
        let read = if is_stale { cold::refresh(&app.subscriptions).await } else { Ok(()) };
        let (due_now, outcome) = app.subscriptions.turn().await;
        // Those that fail are due again after a pause; nobody else waits for them.
        troubles.note(&read, &outcome);
        for due in due_now {
            queue.push(due);
        }
        if searching.is_none() && app.subscriptions.wants_search() {
            searching = Some(tokio::spawn(search(Arc::clone(&app))));
        }
        while let Some(place) = queue.next() {
            let (app, sender, due) = (Arc::clone(&app), Arc::clone(&sender), place.due.clone());
            let task = sending.spawn(async move { deliver(&app, &sender, &due).await });
            places.insert(task.id(), place);
        }
        tokio::select! {
            () = due(&app) => {}
            () = troubles.over() => {}
            () = app.subscriptions.changed() => {}
            () = ended(&app, &mut searching) => searching = None,
            Some(sent) = sending.join_next_with_id() => {
                let id = sent.map_or_else(|error| error.id(), |(id, ())| id);
                if let Some(place) = places.remove(&id) {
                    queue.done(&place);
                }
            }
            () = app.stopping.cancelled() => {}
        }
    }
    // What is not answered by now is sent again after the restart.
    sending.detach_all();
}

/// What may be wrong with some subscriptions.
#[derive(Debug, Default)]
struct Troubles {
    reading: Trouble,
    going_on: Trouble,
}

impl Troubles {
    /// Says what has begun or is over.
    fn note(&mut self, read: &Outcome<()>, went_on: &Outcome<()>) {
        let now = Instant::now();
        match (self.reading.note(read, now), read) {
            (Some(Change::Begins), Err(problem)) => {
                tracing::error!(%problem, "a subscription cannot be read again; it is tried on");
            }
            (Some(Change::IsOver), _) => tracing::info!("subscriptions can be read again"),
            _ => {}
        }
        match (self.going_on.note(went_on, now), went_on) {
            (Some(Change::Begins), Err(problem)) => {
                tracing::error!(%problem, "some subscriptions cannot go on; it is tried on");
            }
            (Some(Change::IsOver), _) => tracing::info!("all subscriptions go on"),
            _ => {}
        }
    }

    /// Is done when one is over, if it is not met again.
    async fn over(&self) {
        match self.reading.ends().into_iter().chain(self.going_on.ends()).min() {
            Some(end) => tokio::time::sleep_until(end).await,
            None => std::future::pending().await,
        }
    }
}

/// Looks for streams that wait, while others are told.
async fn search(app: Arc<App>) {
    if let Err(problem) = cold::search(&app.subscriptions).await {
        let what = "what is pending is not looked for";
        if let Some(left_out) = app.lines.turn((what, problem.code())) {
            tracing::error!(%problem, left_out, "{what}");
        }
    }
}

/// Is done when a search is.
async fn ended(app: &App, searching: &mut Option<JoinHandle<()>>) {
    let Some(task) = searching else { return std::future::pending().await };
    if let Err(error) = task.await {
        let what = "a search has ended";
        if let Some(left_out) = app.lines.turn((what, "")) {
            tracing::error!(%error, left_out, "{what}");
        }
    }
}

/// Is done when something is due.
async fn due(app: &App) {
    let Some(due_ms) = app.subscriptions.due_ms() else {
        return std::future::pending().await;
    };
    let now_ms = u64::try_from(app.clock.wall().as_millis()).unwrap_or(u64::MAX);
    tokio::time::sleep(Duration::from_millis(due_ms.saturating_sub(now_ms))).await;
}

/// Sends a webhook, and reports what became of it.
async fn deliver(app: &App, sender: &Sender, due: &Due) {
    // Its lease begins when there is a place for that, too: it is not over before it is tried.
    let lookup = tokio::select! {
        lookup = sender.look_up(&due.url) => lookup,
        () = app.stopping.cancelled() => return,
    };
    let webhook = match app.subscriptions.begin(due).await {
        Ok(Some(webhook)) => webhook,
        // There is nothing to send any more.
        Ok(None) => return,
        Err(refusal) => {
            // It is due again.
            tracing::debug!(subscription = due.id, %refusal, "a webhook is not sent");
            return;
        }
    };
    let sent = async { sender.send(&webhook, lookup?).await };
    let sent = tokio::time::timeout(webhook.lease, sent);
    let outcome = tokio::select! {
        sent = sent => sent.unwrap_or_else(|_| Err("its lease has ended".to_owned())),
        () = app.stopping.cancelled() => return,
    };
    let delivered = match outcome {
        Ok(delivered) => {
            app.metrics.webhooks_done.inc();
            delivered
        }
        Err(why) => {
            app.metrics.webhooks_failed.inc();
            let (what, id, url) = ("webhook failed", &webhook.id, &webhook.url);
            if let Some(left_out) = app.lines.turn((what, "")) {
                tracing::info!(subscription = id, url, why, left_out, "{what}");
            } else {
                tracing::debug!(subscription = id, url, why, "{what}");
            }
            Delivered::Failed
        }
    };
    if let Err(refusal) = app.subscriptions.delivered(&webhook, delivered).await {
        if matches!(refusal, Refusal::Streams(Problem::Full(_))) {
            app.metrics.hit(Limit::Full);
        }
        let (what, id) = ("a webhook's outcome is not noted", &webhook.id);
        let failure = Failure::from(refusal);
        // That it is deleted, or its lease over, is no trouble.
        if failure.is_of_the_server()
            && let Some(left_out) = app.lines.turn((what, failure.code()))
        {
            tracing::error!(subscription = id, ?failure, left_out, "{what}");
        } else {
            tracing::debug!(subscription = id, ?failure, "{what}");
        }
    }
}
