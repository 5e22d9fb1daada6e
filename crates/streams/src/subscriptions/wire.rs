//! Bodies of requests and answers about subscriptions, as JSON.

use highwater_log::ids::Offset;
use serde::Deserialize;
use serde_json::{Value, json};

use super::config::{Delivery, bad, name, parse_body};
use super::machine::{Progress, WakeRef};
use super::refusal::Refusal;
use super::state::{Link, MOST_STREAMS_OF_A_WAKE, Phase, Subscription};
use crate::offset::{Token, parse_token};

/// Longest name of a worker, bytes.
const MOST_WORKER: usize = 256;

/// What a worker says of a wake.
#[derive(Debug)]
pub(super) struct Report {
    pub wake: WakeRef,
    pub acks: Vec<(String, Offset)>,
    pub progress: Progress,
}

#[derive(Deserialize)]
struct ReportBody {
    wake_id: String,
    generation: u64,
    #[serde(default)]
    acks: Vec<AckBody>,
    #[serde(default)]
    done: bool,
}

#[derive(Deserialize)]
struct AckBody {
    stream: String,
    offset: String,
}

#[derive(Deserialize)]
struct ClaimBody {
    worker: String,
}

#[derive(Deserialize)]
struct StreamsBody {
    streams: Vec<String>,
}

#[derive(Deserialize)]
struct AnswerBody {
    #[serde(default)]
    done: bool,
}

/// Reads the body of a callback, an ack or a release.
pub(super) fn report(body: &[u8]) -> Result<Report, Refusal> {
    let body: ReportBody = parse_body(body)?;
    let mut acks = Vec::new();
    for ack in &body.acks {
        let offset = parse_token(&ack.offset).map_err(|problem| bad(&problem.to_string()))?;
        acks.push((name(&ack.stream)?, offset));
    }
    let wake = WakeRef { generation: body.generation, wake_id: body.wake_id };
    let progress = if body.done { Progress::Done } else { Progress::GoesOn };
    Ok(Report { wake, acks, progress })
}

/// Reads the body of a claim.
pub(super) fn worker(body: &[u8]) -> Result<String, Refusal> {
    let ClaimBody { worker } = parse_body(body)?;
    if worker.is_empty() || worker.len() > MOST_WORKER {
        return Err(bad("worker has 1 to 256 bytes"));
    }
    Ok(worker)
}

/// Reads the body that adds streams.
pub(super) fn streams(body: &[u8]) -> Result<Vec<String>, Refusal> {
    let StreamsBody { streams } = parse_body(body)?;
    super::config::names(&streams)
}

/// Whether a webhook's answer says that its wake is done.
pub fn says_done(answer: &[u8]) -> bool {
    serde_json::from_slice::<AnswerBody>(answer).is_ok_and(|answer| answer.done)
}

/// Streams of a subscription that are shown.
pub(super) struct Shown {
    pub streams: Vec<(String, Link)>,
    /// The others are behind this name.
    pub next_after: Option<String>,
}

/// Writes what clients see of a subscription.
pub(super) fn subscription(
    subscription: &Subscription,
    kid: &str,
    root: &str,
    shown: &Shown,
) -> Value {
    let config = &subscription.config;
    let (kind, webhook, wake_stream) = match &config.delivery {
        Delivery::Webhook { url } => {
            let signing = json!({
                "alg": "ed25519",
                "kid": kid,
                "jwks_url": format!("{root}/__ds/jwks.json"),
            });
            ("webhook", json!({ "url": url, "signing": signing }), Value::Null)
        }
        Delivery::PullWake { wake_stream } => ("pull-wake", Value::Null, json!(wake_stream)),
    };
    let stream = |(path, link): &(String, Link)| {
        json!({
            "path": path,
            "link_type": link_type(link),
            "acked_offset": Token(link.acked).to_string(),
        })
    };
    let is_failing = match &subscription.phase {
        Phase::Retrying { .. } => true,
        Phase::Waiting { announce_ms, attempt, .. } => announce_ms.is_some() && *attempt > 0,
        _ => false,
    };
    json!({
        "id": subscription.id,
        "subscription_id": subscription.id,
        "type": kind,
        "pattern": config.pattern,
        "streams": shown.streams.iter().map(stream).collect::<Vec<_>>(),
        "next_after": shown.next_after,
        "webhook": webhook,
        "wake_stream": wake_stream,
        "lease_ttl_ms": config.lease_ttl_ms,
        "created_at": moment(subscription.created_ms),
        "status": if is_failing { "failed" } else { "active" },
        "description": config.description,
    })
}

/// Gives the streams of a wake, with the tails that it has.
pub(super) fn tails(subscription: &Subscription) -> Vec<(String, Offset)> {
    let pending = subscription.pending.iter().take(MOST_STREAMS_OF_A_WAKE);
    pending.map(|path| (path.to_string(), subscription.links[path].tail)).collect()
}

/// Writes the streams of a wake.
pub(super) fn wake_streams(subscription: &Subscription, tails: &[(String, Offset)]) -> Value {
    let stream = |(path, tail): &(String, Offset)| {
        let link = &subscription.links[path.as_str()];
        json!({
            "path": path,
            "link_type": link_type(link),
            "acked_offset": Token(link.acked).to_string(),
            "tail_offset": Token(*tail).to_string(),
            "has_pending": *tail > link.acked,
        })
    };
    tails.iter().map(stream).collect()
}

/// Writes a webhook's body.
pub(super) fn webhook(
    subscription: &Subscription,
    wake: &WakeRef,
    tails: &[(String, Offset)],
    token: &str,
) -> Value {
    json!({
        "subscription_id": subscription.id,
        "wake_id": wake.wake_id,
        "generation": wake.generation,
        "streams": wake_streams(subscription, tails),
        "callback_url": format!(
            "{}/__ds/subscriptions/{}/callback",
            subscription.root,
            crate::path::encode_segment(&subscription.id)
        ),
        "callback_token": token,
    })
}

/// Writes a wake event.
pub(super) fn wake_event(subscription: &Subscription, now_ms: u64) -> Value {
    json!({
        "type": "wake",
        "subscription_id": subscription.id,
        "stream": subscription.pending.first().map(|path| &**path),
        "generation": subscription.generation,
        "ts": now_ms,
    })
}

fn link_type(link: &Link) -> &'static str {
    if link.is_explicit { "explicit" } else { "glob" }
}

/// Writes a moment as RFC 3339 has it.
pub(super) fn moment(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    moment.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points 52 and 53.
    #[test]
    fn reports_are_read_and_what_is_no_offset_is_refused() {
        let report = report(
            br#"{"wake_id":"w","generation":7,"acks":[{"stream":"/events//a",
                "offset":"0000000000000000_0000000000000042"}],"done":true,"x":1}"#,
        )
        .unwrap();
        assert_eq!(report.wake, WakeRef { generation: 7, wake_id: "w".to_owned() });
        assert_eq!(report.acks, [("events/a".to_owned(), Offset(42))]);
        assert_eq!(report.progress, Progress::Done);
        let heartbeat = super::report(br#"{"wake_id":"w","generation":7}"#).unwrap();
        assert_eq!((heartbeat.progress, heartbeat.acks.len()), (Progress::GoesOn, 0));
        for body in [
            "",
            "{}",
            r#"{"wake_id":"w","generation":-1}"#,
            r#"{"wake_id":"w","generation":1,"acks":[{"stream":"a","offset":"-1"}]}"#,
            r#"{"wake_id":"w","generation":1,"acks":[{"stream":"__ds/a","offset":"x"}]}"#,
            r#"{"wake_id":"w","generation":1,"done":"yes"}"#,
        ] {
            assert!(matches!(super::report(body.as_bytes()), Err(Refusal::BadRequest(_))));
        }
        assert!(worker(br#"{"worker":""}"#).is_err());
        assert_eq!(worker(br#"{"worker":"one"}"#).unwrap(), "one");
    }

    /// Point 52.
    #[test]
    fn only_done_is_done() {
        for (answer, is_done) in [
            (&br#"{"done":true}"#[..], true),
            (br#"{"done":false}"#, false),
            (br#"{"done":1}"#, false),
            (b"{}", false),
            (b"", false),
            (b"true", false),
            (br#"{"ok":1,"done":true}"#, true),
        ] {
            assert_eq!(says_done(answer), is_done);
        }
    }

    #[test]
    fn moments_are_written_as_rfc_3339() {
        assert_eq!(moment(1_778_284_800_000), "2026-05-09T00:00:00.000Z");
        assert_eq!(moment(u64::MAX).len(), 24);
    }
}
