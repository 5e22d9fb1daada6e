//! Drives subscriptions: does what is due, and sends webhooks.
//!
//! `sender` sends one. What is to be sent and what an answer means is decided by
//! `highwater-streams`, and is durable before it is sent.

mod sender;

use std::sync::Arc;
use std::time::Duration;

use highwater_streams::subscriptions::{Delivered, Webhook};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use self::sender::Sender;
use crate::app::App;
use crate::http::cold;

/// How long to wait after a turn that failed.
const BREATHER: Duration = Duration::from_secs(1);

/// Drives the subscriptions until the server stops.
pub(crate) async fn drive(app: Arc<App>) {
    let sender = Arc::new(Sender::new(&app.settings));
    let slots = Arc::new(Semaphore::new(app.settings.webhook_deliveries.get().max(1)));
    let sending = TaskTracker::new();
    let mut searching: Option<JoinHandle<()>> = None;
    while !app.stopping.is_cancelled() {
        if app.subscriptions.has_stale()
            && let Err(problem) = cold::refresh(&app.subscriptions).await
        {
            tracing::error!(%problem, "a subscription cannot be read again");
        }
        match app.subscriptions.turn().await {
            Ok(webhooks) => {
                for webhook in webhooks {
                    let (app, sender) = (Arc::clone(&app), Arc::clone(&sender));
                    let slots = Arc::clone(&slots);
                    sending.spawn(async move { deliver(&app, &sender, &slots, webhook).await });
                }
            }
            Err(problem) => {
                tracing::error!(%problem, "subscriptions cannot go on");
                tokio::time::sleep(BREATHER).await;
            }
        }
        if searching.is_none() && app.subscriptions.wants_search() {
            searching = Some(tokio::spawn(search(Arc::clone(&app))));
        }
        tokio::select! {
            () = due(&app) => {}
            () = app.subscriptions.changed() => {}
            () = ended(&mut searching) => searching = None,
            () = app.stopping.cancelled() => {}
        }
    }
    // What is not answered by now is sent again after the restart.
    sending.close();
}

/// Looks for streams that wait, while others are told.
async fn search(app: Arc<App>) {
    if let Err(problem) = cold::search(&app.subscriptions).await {
        tracing::error!(%problem, "what is pending is not looked for");
    }
}

/// Is done when a search is.
async fn ended(searching: &mut Option<JoinHandle<()>>) {
    let Some(task) = searching else { return std::future::pending().await };
    if let Err(error) = task.await {
        tracing::error!(%error, "a search has ended");
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

/// Sends a webhook when there is a place for it, and reports what became of it.
async fn deliver(app: &App, sender: &Sender, slots: &Semaphore, webhook: Webhook) {
    let sent = async {
        let _slot = slots.acquire().await.expect("the semaphore is never closed");
        sender.send(&webhook).await
    };
    let outcome = tokio::select! {
        sent = tokio::time::timeout(webhook.lease, sent) => {
            sent.unwrap_or_else(|_| Err("its lease has ended".to_owned()))
        }
        () = app.stopping.cancelled() => return,
    };
    let delivered = match outcome {
        Ok(delivered) => {
            app.metrics.webhooks_done.inc();
            delivered
        }
        Err(why) => {
            app.metrics.webhooks_failed.inc();
            tracing::info!(subscription = webhook.id, url = webhook.url, why, "webhook failed");
            Delivered::Failed
        }
    };
    if let Err(refusal) = app.subscriptions.delivered(&webhook, delivered).await {
        tracing::warn!(subscription = webhook.id, %refusal, "a webhook's outcome is not noted");
    }
}
