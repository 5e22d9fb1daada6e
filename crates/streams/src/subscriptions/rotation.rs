//! Public keys, and how another one comes to be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

use super::config::parse_body;
use super::hub::Subscriptions;
use super::keys::{KeyRecord, Keys, PUBLISHED_BEFORE_S, Rotation};
use super::refusal::Refusal;
use super::store::add_key;
use super::wire::moment;
use crate::error::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    compromised: bool,
}

impl Subscriptions {
    /// Gives the public keys.
    pub fn jwks(&self) -> Value {
        self.keys().jwks(self.now_s())
    }

    /// Makes another key to sign with, unless one that was made waits for its time: body of the
    /// answer, and whether it is new. Not to be dropped before it is done.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`], [`Problem::Busy`] while another one is made, what the log gives.
    pub async fn rotate_keys(&self, body: &[u8]) -> Result<(Value, bool), Refusal> {
        let Body { compromised } =
            if body.is_empty() { Body { compromised: false } } else { parse_body(body)? };
        let why = if compromised { Rotation::Compromised } else { Rotation::Planned };
        let Some(_rotating) = Rotating::begin(&self.rotating) else {
            return Err(Problem::Busy("another key is being made".to_owned().into()).into());
        };
        let (keys, now_s) = (self.keys(), self.now_s());
        let ms = |seconds: u64| seconds.saturating_mul(1000);
        let (from_ms, ahead_ms) = (ms(keys.newest_from()), ms(PUBLISHED_BEFORE_S));
        // One that waits for a clock that was set back is not waited for.
        let waits = !super::moment::has_come(from_ms, ms(now_s), ahead_ms);
        if why == Rotation::Planned && waits {
            return Ok((told(&keys), false));
        }
        let record = KeyRecord::rotate(&keys, why, now_s, &*self.settings.entropy);
        let keys = Arc::new(keys.with(&record)?);
        add_key(&self.streams.log, &record).await?;
        let answer = told(&keys);
        *self.keys.lock().expect("nobody panics while the keys are exchanged") = keys;
        Ok((answer, true))
    }
}

/// One who makes a key: the only one.
struct Rotating<'a>(&'a AtomicBool);

impl<'a> Rotating<'a> {
    fn begin(flag: &'a AtomicBool) -> Option<Self> {
        let is_taken = flag.swap(true, Ordering::AcqRel);
        (!is_taken).then_some(Self(flag))
    }
}

impl Drop for Rotating<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Tells which key was made last, and when it begins to sign.
fn told(keys: &Keys) -> Value {
    let from_ms = keys.newest_from().saturating_mul(1000);
    json!({ "kid": keys.newest_kid(), "signs_from": moment(from_ms) })
}
