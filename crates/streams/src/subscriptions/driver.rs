//! What subscriptions do by themselves: begin and end wakes, write wake events, and say which
//! webhooks are to be sent. Whoever drives them calls [`Subscriptions::turn`] whenever
//! [`Subscriptions::due_ms`] has come. When there is a place for a webhook, and not before,
//! [`Subscriptions::begin`] begins its lease and gives what to send; what became of it is told with
//! [`Subscriptions::delivered`].

use std::time::Duration;

use bytes::Bytes;
use highwater_log::request::End;

use super::config::Delivery;
use super::entry::Entry;
use super::hub::{PAUSE_MS, Subscriptions};
use super::journal::Staged;
use super::machine::{Delivered, Sent, Task, WakeRef};
use super::refusal::Refusal;
use super::settling::Breath;
use super::state::{Phase, Subscription};
use super::wire;
use crate::content::ContentType;
use crate::error::{Outcome, Problem};
use crate::path::StreamPath;
use crate::service::Append;

/// A subscription that has a webhook to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The subscription.
    pub id: String,
    /// Where to.
    pub url: String,
    /// Failed attempts before.
    pub attempt: u32,
    incarnation: u64,
}

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
    /// How long its lease is, from now on: an answer after that means nothing.
    pub lease: Duration,
    incarnation: u64,
    sent: Sent,
}

impl Subscriptions {
    /// Does what is due, and gives those that have a webhook to send: each once, until it is begun.
    /// Beside them it says whether the log has failed for others, which are due again after a
    /// pause: a lane that has failed stops nobody of another one. Not to be dropped before it is
    /// done.
    pub async fn turn(&self) -> (Vec<Due>, Outcome<()>) {
        self.settle().await;
        let (mut taken, mut due, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
        let mut breath = Breath::default();
        for (id, entry) in self.take_due() {
            breath.take().await;
            let changed = self.stage_change(&id, &entry, |_, subscription, turn| {
                self.observe_pending(subscription);
                subscription.tick(turn);
                Ok(match subscription.take_task(turn) {
                    Some(Task::Deliver { attempt }) => (Due::of(subscription, attempt), None),
                    Some(Task::Announce { .. }) => (None, subscription.wake()),
                    None => (None, None),
                })
            });
            match changed {
                Ok((tasks, ticket)) => taken.push((id, entry, ticket, tasks)),
                Err(Refusal::NotFound) => {}
                Err(refusal) => {
                    if let Refusal::Streams(failed @ Problem::Failed(_)) = refusal {
                        outcome = Err(failed);
                    }
                    self.look_again(id, self.now_ms() + PAUSE_MS);
                }
            }
        }
        for (id, entry, ticket, (called, wake)) in taken {
            due.extend(called);
            if let Err(failed) = self.announce_behind(&id, &entry, ticket, wake).await {
                outcome = Err(failed);
                self.look_again(id, self.now_ms() + PAUSE_MS);
            }
        }
        (due, outcome)
    }

    /// Begins to send a webhook: what it says is durable. Gives nothing where there is nothing to
    /// send any more.
    ///
    /// # Errors
    /// What the log gives; it is due again later then.
    pub async fn begin(&self, due: &Due) -> Result<Option<Webhook>, Refusal> {
        self.settle().await;
        let begun = self.change(&due.id, |_, subscription, turn| {
            if subscription.incarnation != due.incarnation {
                return Ok(None);
            }
            self.observe_pending(subscription);
            let attempt = subscription.begin(turn);
            Ok(attempt.zip(subscription.wake()).map(|(attempt, wake)| (wake, attempt)))
        });
        let begun = match begun.await {
            Err(Refusal::NotFound) => return Ok(None),
            other => other?,
        };
        let entry = self.entry(&due.id).ok();
        Ok(entry
            .zip(begun)
            .and_then(|(entry, (wake, attempt))| self.webhook(&entry, (&wake, attempt))))
    }

    /// Takes what became of a webhook.
    ///
    /// # Errors
    /// What the log gives, and [`Problem::Full`] where there was no room for all of its cursors:
    /// the rest is sent again.
    pub async fn delivered(&self, webhook: &Webhook, outcome: Delivered) -> Result<(), Refusal> {
        self.settle().await;
        let changed = self.change(&webhook.id, |_, subscription, turn| {
            if subscription.incarnation == webhook.incarnation {
                if outcome == Delivered::Done {
                    let more = subscription.bytes_of_new(&webhook.sent.tails);
                    turn.room_bytes = self.budget.reserve_up_to(more);
                }
                return Ok(subscription.delivered(&webhook.sent, outcome, turn));
            }
            Ok(Ok(()))
        });
        match changed.await {
            // It was deleted meanwhile.
            Err(Refusal::NotFound) => Ok(()),
            other => other?,
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
        let signature = self.keys().signature(self.now_s(), body.as_bytes());
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

    /// Waits until a change is durable, and writes its wake event if it has one.
    async fn announce_behind(
        &self,
        id: &str,
        entry: &Entry,
        change: Option<Staged>,
        wake: Option<WakeRef>,
    ) -> Outcome<()> {
        if let Some(change) = change {
            change.await?;
        }
        match wake {
            Some(wake) => self.announce(id, entry, &wake).await,
            None => Ok(()),
        }
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
        let (written, outcome) = match written {
            // Its lane may be another one.
            Err(failed @ Problem::Failed(_)) => (Err(()), Err(failed)),
            other => (other.map(|_| ()).map_err(|_| ()), Ok(())),
        };
        let noted = self.change(id, |_, subscription, turn| {
            subscription.announced(wake, written, turn);
            Ok(())
        });
        match noted.await {
            Err(Refusal::Streams(failed @ Problem::Failed(_))) => Err(failed),
            // It was deleted, or there is no room for the note: then it is written once more.
            _ => outcome,
        }
    }
}

impl Due {
    /// Makes one that no subscription has, for who tries out what is done with such.
    pub fn new(id: &str, url: &str, attempt: u32) -> Self {
        Self { id: id.to_owned(), url: url.to_owned(), attempt, incarnation: 0 }
    }

    /// Takes what is to be sent of a subscription.
    fn of(subscription: &Subscription, attempt: u32) -> Option<Self> {
        let Delivery::Webhook { url } = &subscription.config.delivery else { return None };
        let (id, url, incarnation) =
            (subscription.id.clone(), url.clone(), subscription.incarnation);
        Some(Self { id, url, attempt, incarnation })
    }
}
