//! GET and HEAD of a stream: chunks, and waiting for one.

use std::time::Duration;

use bytes::Bytes;
use highwater_streams::content::Kind;
use highwater_streams::error::Problem;
use highwater_streams::fields::{self as protocol, Lifetime};
use highwater_streams::offset::Place;
use highwater_streams::path::StreamPath;
use highwater_streams::service::Chunk;
use http::{HeaderValue, Response, StatusCode, header};

use super::failure::{offset, text};
use super::reply::Reply;
use super::write::content_value;
use super::{Answer, Asked, cold, names, route};
use crate::metrics::Operation;
use crate::settings::CachePolicy;

/// What a GET asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    place: Option<Place>,
    live: Option<Live>,
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Live {
    LongPoll,
    Sse,
}

/// How long caches may give what is read without asking, and how long after that while they ask.
const FRESH: Duration = Duration::from_secs(60);
const STALE: Duration = Duration::from_secs(300);

/// How content goes to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// As it is, whatever the client accepts.
    AlwaysPlain,
    /// As it is, and to other clients perhaps otherwise.
    Plain,
    /// Compressed.
    Gzip,
}

fn len_of(parts: &[Bytes]) -> u64 {
    let len: usize = parts.iter().map(Bytes::len).sum();
    u64::try_from(len).expect("lengths have 64 bits at most")
}

impl Wanted {
    fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut offsets = Vec::new();
        let (mut live, mut cursor) = (None, None);
        for (name, value) in route::parameters(query.unwrap_or_default()) {
            match &*name {
                "offset" => offsets.push(value),
                "live" => {
                    live = Some(match &*value {
                        "long-poll" => Live::LongPoll,
                        "sse" => Live::Sse,
                        _ => {
                            let why = "long-poll or sse";
                            return Err(Problem::BadField { name: "live", why });
                        }
                    });
                }
                "cursor" => cursor = Some(value.into_owned()),
                _ => {}
            }
        }
        let place = protocol::place(offsets.iter().map(AsRef::as_ref))?;
        if live.is_some() && place.is_none() {
            return Err(Problem::OffsetRequired);
        }
        Ok(Self { place, live, cursor })
    }
}

impl Asked<'_> {
    /// Says what is known of a stream.
    pub(super) fn head(&self, path: &StreamPath) -> Answer {
        let view = self.app.streams.head(path)?;
        let mut response = Response::new(Reply::default());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_value(&view.content_type));
        headers.insert(names::NEXT_OFFSET, offset(view.tail));
        headers.insert(header::CACHE_CONTROL, names::NO_STORE);
        match &view.lifetime {
            Lifetime::Unsaid => {}
            Lifetime::Ttl { seconds } => {
                headers.insert(names::TTL, HeaderValue::from(*seconds));
            }
            Lifetime::Until { text: until, .. } => {
                headers.insert(names::EXPIRES_AT, text(until));
            }
        }
        if view.is_closed {
            headers.insert(names::CLOSED, names::TRUE);
        }
        Ok(response)
    }

    /// Reads a chunk, now or when there is one, or begins to send events.
    pub(super) async fn read(&self, path: &StreamPath, operation: &mut Operation) -> Answer {
        let wanted = Wanted::parse(self.parts.uri.query())?;
        let place = wanted.place.unwrap_or(Place::Start);
        match wanted.live {
            None => {
                let chunk = cold::read(&self.app.streams, path, place).await?;
                Ok(self.chunk(chunk))
            }
            Some(Live::LongPoll) => {
                *operation = Operation::LongPoll;
                self.long_poll(path, place, wanted.cursor.as_deref()).await
            }
            Some(Live::Sse) => {
                *operation = Operation::Sse;
                self.events(path, place, wanted.cursor.as_deref()).await
            }
        }
    }

    /// Makes the answer of a read.
    pub(super) fn chunk(&self, chunk: Chunk) -> Response<Reply> {
        let mut response = Response::new(Reply::default());
        let parts = chunk.body.into_parts();
        let len = len_of(&parts);
        let coding = self.coding(len, chunk.content_type.kind());
        let tag = chunk.etag.map(|etag| text(&etag.to_string()));
        let is_known = chunk.etag.is_some_and(|etag| {
            let named = self.parts.headers.get_all(header::IF_NONE_MATCH).iter();
            let mut named = named.filter_map(|value| value.to_str().ok());
            named.any(|value| etag.is_named_by(&super::gzip::plain_tags(value)))
        });
        let cache = if tag.is_some() { self.cache_value(chunk.kept_for) } else { names::NO_STORE };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, cache);
        headers.insert(names::NEXT_OFFSET, offset(chunk.next));
        if chunk.is_up_to_date {
            headers.insert(names::UP_TO_DATE, names::TRUE);
        }
        if chunk.is_closed {
            headers.insert(names::CLOSED, names::TRUE);
        }
        // A cache finds with these fields which of its answers a 304 is about (RFC 9110, 15.4.5).
        if let Some(tag) = tag {
            let tag = if coding == Coding::Gzip { super::gzip::tag(&tag) } else { tag };
            headers.insert(header::ETAG, tag);
        }
        if coding != Coding::AlwaysPlain {
            headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        if chunk.etag.is_some() && self.app.settings.cache_policy() == CachePolicy::Private {
            // Two people may share a browser: what one may read the other may not.
            headers.append(header::VARY, HeaderValue::from_static("authorization"));
        }
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(header::CONTENT_TYPE, content_value(&chunk.content_type));
        if coding == Coding::Gzip {
            headers.insert(header::CONTENT_ENCODING, names::GZIP);
        }
        self.app.metrics.bytes_out.inc_by(len);
        *response.body_mut() = match coding {
            Coding::Gzip => Reply::bytes(super::gzip::compressed(parts)),
            Coding::Plain | Coding::AlwaysPlain => Reply::parts(parts),
        };
        response
    }

    /// Says how content goes: compressed where that is set, asked for and of use.
    fn coding(&self, len: u64, kind: Kind) -> Coding {
        let from = self.app.settings.gzip_from_bytes;
        if from.0 == 0 || kind == Kind::Bytes {
            return Coding::AlwaysPlain;
        }
        if len < from.0 || !super::gzip::is_accepted(&self.parts.headers) {
            return Coding::Plain;
        }
        Coding::Gzip
    }

    /// Says how long caches may keep what is read.
    fn cache_value(&self, kept_for: Option<Duration>) -> HeaderValue {
        let policy = self.app.settings.cache_policy();
        match kept_for.filter(|longest| *longest < FRESH + STALE) {
            Some(longest) => short_cache(policy, longest),
            None if policy == CachePolicy::Public => names::PUBLIC_MINUTE,
            None => names::PRIVATE_MINUTE,
        }
    }
}

/// Writes `Cache-Control` of what is not to be given to anybody later than that.
fn short_cache(policy: CachePolicy, longest: Duration) -> HeaderValue {
    let who = match policy {
        CachePolicy::Public => "public",
        CachePolicy::Private => "private",
    };
    let fresh = longest.min(FRESH).as_secs();
    let stale = longest.as_secs() - fresh;
    text(&format!("{who}, max-age={fresh}, stale-while-revalidate={stale}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point 29.
    #[test]
    fn what_ends_soon_is_kept_no_longer_than_it_lives() {
        let text = |policy, longest| short_cache(policy, Duration::from_millis(longest));
        for (longest, expected) in [
            (359_999, "public, max-age=60, stale-while-revalidate=299"),
            (60_000, "public, max-age=60, stale-while-revalidate=0"),
            (1_999, "public, max-age=1, stale-while-revalidate=0"),
            (0, "public, max-age=0, stale-while-revalidate=0"),
        ] {
            assert_eq!(text(CachePolicy::Public, longest), expected);
        }
        let private = text(CachePolicy::Private, 90_000);
        assert_eq!(private, "private, max-age=60, stale-while-revalidate=30");
    }

    #[test]
    fn a_live_read_needs_an_offset_and_a_known_mode_and_other_parameters_do_not_matter() {
        let wanted = |query| Wanted::parse(Some(query));
        assert_eq!(wanted("live=sse"), Err(Problem::OffsetRequired));
        assert!(matches!(wanted("offset=-1&live=x"), Err(Problem::BadField { .. })));
        assert!(matches!(wanted("offset=-1&offset=-1"), Err(Problem::BadField { .. })));
        assert_eq!(wanted("offset="), Err(Problem::InvalidOffset));
        let all = wanted("x=1&offset=now&live=long-poll&cursor=17").unwrap();
        assert_eq!(all.place, Some(Place::Now));
        assert_eq!((all.live, all.cursor.as_deref()), (Some(Live::LongPoll), Some("17")));
        assert_eq!(Wanted::parse(None).unwrap().place, None);
    }
}
