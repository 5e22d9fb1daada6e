//! What subscriptions do by themselves: begin and end wakes, write wake events, and say which
//! webhooks are to be sent. Whoever drives them calls [`Subscriptions::turn`] whenever
//! [`Subscriptions::due_ms`] has come, sends, and reports with [`Subscriptions::delivered`].

use std::time::Duration;

use bytes::Bytes;
use highwater_log::request::End;

use super::config::Delivery;
use super::entry::Entry;
use super::hub::{PAUSE_MS, Subscriptions};
use super::machine::{Delivered, Sent, Task, WakeRef};
use super::refusal::Refusal;
use super::settling::Breath;
use super::state::Phase;
use super::wire;
use crate::content::ContentType;
use crate::error::{Outcome, Problem};
use crate::path::StreamPath;
use crate::service::Append;

/// A webhook to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The subscription.
    pub id: String,
    /// Where to: to be judged again by the addresses that its host has.
    pub url: String,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// Body, exactly as it was signed.
    pub body: Bytes,
    /// How long its lease is: an answer after that means nothing.
    pub lease: Duration,
    incarnation: u64,
    sent: Sent,
}

impl Subscriptions {
    /// Does what is due, and gives the webhooks that are to be sent now: each once, and what they
    /// say is durable. Not to be dropped before it is done.
    ///
    /// # Errors
    /// [`Problem::Failed`] when the log has failed.
    pub async fn turn(&self) -> Outcome<Vec<Webhook>> {
        self.settle().await;
        let (mut staged, mut tasks) = (Vec::new(), Vec::new());
        let mut breath = Breath::default();
        for (id, entry) in self.take_due() {
            breath.take().await;
            let changed = self.stage_change(&id, &entry, |_, subscription, turn| {
                self.observe_pending(subscription);
                subscription.tick(turn);
                Ok(subscription.take_task(turn).zip(subscription.wake()))
            });
            match changed {
                Ok((task, ticket)) => {
                    staged.extend(ticket);
                    tasks.extend(task.map(|(task, wake)| (id, entry, task, wake)));
                }
                Err(Refusal::Streams(failed @ Problem::Failed(_))) => return Err(failed),
                Err(Refusal::NotFound) => {}
                Err(_) => self.look_again(id, self.now_ms() + PAUSE_MS),
            }
        }
        for ticket in staged {
            ticket.await?;
        }
        let mut webhooks = Vec::new();
        for (id, entry, task, wake) in tasks {
            match task {
                Task::Deliver { attempt } => {
                    webhooks.extend(self.webhook(&entry, (&wake, attempt)));
                }
                Task::Announce { .. } => self.announce(&id, &entry, &wake).await?,
            }
        }
        Ok(webhooks)
    }

    /// Takes what became of a webhook.
    ///
    /// # Errors
    /// What the log gives.
    pub async fn delivered(&self, webhook: &Webhook, outcome: Delivered) -> Result<(), Refusal> {
        self.settle().await;
        let changed = self.change(&webhook.id, |_, subscription, turn| {
            if subscription.incarnation == webhook.incarnation {
                subscription.delivered(&webhook.sent, outcome, turn);
            }
            Ok(())
        });
        match changed.await {
            // It was deleted meanwhile.
            Err(Refusal::NotFound) => Ok(()),
            other => other,
        }
    }

    /// Writes and signs a webhook, unless its wake is over by now.
    fn webhook(&self, entry: &Entry, (wake, attempt): (&WakeRef, u32)) -> Option<Webhook> {
        let held = entry.lock();
        if held.check().is_err() {
            return None;
        }
        let subscription = &held.subscription;
        let Delivery::Webhook { url } = &subscription.config.delivery else { return None };
        let is_current = matches!(&subscription.phase,
            Phase::Delivering { attempt: current, .. } if *current == attempt);
        if !is_current || subscription.wake().as_ref() != Some(wake) {
            return None;
        }
        let tails = wire::tails(subscription);
        let token = self.token(subscription);
        let body = wire::webhook(subscription, wake, &tails, &token).to_string();
        let signature = self.settings.keys.signature(self.now_ms() / 1000, body.as_bytes());
        Some(Webhook {
            id: subscription.id.clone(),
            url: url.clone(),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("webhook-signature", signature),
            ],
            body: body.into(),
            lease: Duration::from_millis(subscription.config.lease_ttl_ms),
            incarnation: subscription.incarnation,
            sent: Sent { wake: wake.clone(), attempt, tails },
        })
    }

    /// Writes a wake event into the wake stream, unless its wake is over by now.
    async fn announce(&self, id: &str, entry: &Entry, wake: &WakeRef) -> Outcome<()> {
        let (stream, event) = {
            let held = entry.lock();
            // One that is read again announces what is kept of it.
            if held.check().is_err() || held.subscription.wake().as_ref() != Some(wake) {
                return Ok(());
            }
            let Delivery::PullWake { wake_stream } = &held.subscription.config.delivery else {
                return Ok(());
            };
            let event = wire::wake_event(&held.subscription, self.now_ms());
            (wake_stream.clone(), event.to_string())
        };
        let append = Append {
            content_type: Some(ContentType::parse("application/json")?),
            body: event.as_bytes(),
            end: End::Open,
            producer: None,
            sequence: None,
        };
        let written = self.streams.append(&StreamPath::relative(&stream)?, &append).await;
        let written = match written {
            Err(failed @ Problem::Failed(_)) => return Err(failed),
            other => other.map(|_| ()).map_err(|_| ()),
        };
        let noted = self.change(id, |_, subscription, turn| {
            subscription.announced(wake, written, turn);
            Ok(())
        });
        match noted.await {
            Err(Refusal::Streams(failed @ Problem::Failed(_))) => Err(failed),
            // It was deleted, or there is no room for the note: then it is written once more.
            _ => Ok(()),
        }
    }
}
