//! What headers and parameters say, read from their text.

use highwater_log::format::Expiry;
use highwater_log::format::extension::{MAX_PRODUCER_ID_LEN, MAX_SEQUENCE_LEN};
use highwater_log::request::{End, Producer};

use crate::error::Problem;
use crate::offset::{Place, parse_token};
use crate::path::{Mount, StreamPath};

/// Largest number that every client can hold: 2^53 - 1.
const MOST_EXACT: u64 = (1 << 53) - 1;
const TTL: &str = "Stream-TTL";
const EXPIRES_AT: &str = "Stream-Expires-At";
const SUB_OFFSET: &str = "Stream-Fork-Sub-Offset";

/// How long a stream is asked to live.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Lifetime {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// So many seconds after its last use.
    Ttl {
        /// Seconds.
        seconds: u64,
    },
    /// Until a moment.
    Until {
        /// Milliseconds since 1970, UTC.
        at_ms: u64,
        /// The moment as it was given.
        text: String,
    },
}

impl Lifetime {
    /// Reads `Stream-TTL` and `Stream-Expires-At`, of which there may be one.
    ///
    /// # Errors
    /// [`Problem::BadField`].
    pub fn parse(ttl: Option<&str>, expires_at: Option<&str>) -> Result<Self, Problem> {
        match (ttl, expires_at) {
            (None, None) => Ok(Self::Unsaid),
            (Some(ttl), None) => parse_ttl(ttl),
            (None, Some(text)) => parse_expires_at(text),
            (Some(_), Some(_)) => {
                Err(Problem::BadField { name: TTL, why: "Stream-Expires-At is given too" })
            }
        }
    }

    /// Gives it as the log keeps it.
    pub fn expiry(&self) -> Option<Expiry> {
        match self {
            Self::Unsaid => None,
            Self::Ttl { seconds } => Some(Expiry::Sliding { ttl_ms: seconds * 1000 }),
            Self::Until { at_ms, .. } => Some(Expiry::Absolute { at_ms: *at_ms }),
        }
    }
}

/// Says whether `Stream-Closed` means what it says: any value but `true` is as good as none.
pub fn closes(stream_closed: Option<&str>) -> End {
    if stream_closed.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        End::Close
    } else {
        End::Open
    }
}

/// Reads the three producer headers, of which there are all or none.
///
/// # Errors
/// [`Problem::BadField`].
pub fn producer<'a>(
    id: Option<&'a str>,
    epoch: Option<&str>,
    sequence: Option<&str>,
) -> Result<Option<Producer<'a>>, Problem> {
    let (id, epoch, sequence) = match (id, epoch, sequence) {
        (None, None, None) => return Ok(None),
        (Some(id), Some(epoch), Some(sequence)) => (id, epoch, sequence),
        _ => {
            let why = "Producer-Id, Producer-Epoch and Producer-Seq go together";
            return Err(Problem::BadField { name: "Producer-Id", why });
        }
    };
    if id.is_empty() || id.len() > MAX_PRODUCER_ID_LEN {
        return Err(Problem::BadField { name: "Producer-Id", why: "1 to 256 bytes" });
    }
    let exact = |name, text: &str| {
        let number = digits(text).filter(|number| *number <= MOST_EXACT);
        number.ok_or(Problem::BadField { name, why: "a decimal number up to 2^53 - 1" })
    };
    let epoch = exact("Producer-Epoch", epoch)?;
    let sequence = exact("Producer-Seq", sequence)?;
    Ok(Some(Producer { id, epoch, sequence }))
}

/// Checks `Stream-Seq`: bytes that are compared as they are.
///
/// # Errors
/// [`Problem::BadField`].
pub fn sequence(text: Option<&[u8]>) -> Result<Option<&[u8]>, Problem> {
    match text {
        Some(bytes) if bytes.is_empty() || bytes.len() > MAX_SEQUENCE_LEN => {
            Err(Problem::BadField { name: "Stream-Seq", why: "1 to 1024 bytes" })
        }
        other => Ok(other),
    }
}

/// A fork that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkFrom {
    /// The stream to fork.
    pub source: StreamPath,
    /// Where; absent where nothing was said: at the source's tail.
    pub offset: Option<highwater_log::ids::Offset>,
    /// Messages or bytes more.
    pub sub_offset: u64,
}

impl ForkFrom {
    /// Reads the three fork headers.
    ///
    /// # Errors
    /// [`Problem::BadField`], [`Problem::BadPath`], [`Problem::InvalidOffset`].
    pub fn parse(
        mount: &Mount,
        from: Option<&str>,
        offset: Option<&str>,
        sub_offset: Option<&str>,
    ) -> Result<Option<Self>, Problem> {
        let Some(from) = from else {
            let alone = [("Stream-Fork-Offset", offset), (SUB_OFFSET, sub_offset)];
            return match alone.into_iter().find(|(_, value)| value.is_some()) {
                Some((name, _)) => {
                    Err(Problem::BadField { name, why: "it needs Stream-Forked-From" })
                }
                None => Ok(None),
            };
        };
        let source = mount.stream(from)?;
        let offset = offset.map(parse_token).transpose()?;
        let sub_offset = match sub_offset {
            None => 0,
            Some(text) => plain_number(text)
                .ok_or(Problem::BadField { name: SUB_OFFSET, why: "0, or digits from 1 on" })?,
        };
        if sub_offset > 0 && offset.is_none() {
            let why = "above 0 it needs Stream-Fork-Offset";
            return Err(Problem::BadField { name: SUB_OFFSET, why });
        }
        Ok(Some(Self { source, offset, sub_offset }))
    }
}

/// Reads the `offset` parameters of a catch-up read, of which there may be one.
///
/// # Errors
/// [`Problem::InvalidOffset`], [`Problem::BadField`].
pub fn place<'a>(mut offsets: impl Iterator<Item = &'a str>) -> Result<Option<Place>, Problem> {
    let first = offsets.next();
    if offsets.next().is_some() {
        return Err(Problem::BadField { name: "offset", why: "it is given more than once" });
    }
    first.map(Place::parse).transpose()
}

fn parse_ttl(text: &str) -> Result<Lifetime, Problem> {
    let seconds = plain_number(text).filter(|seconds| seconds.checked_mul(1000).is_some());
    seconds
        .map(|seconds| Lifetime::Ttl { seconds })
        .ok_or(Problem::BadField { name: TTL, why: "0, or whole seconds without leading zeros" })
}

fn parse_expires_at(text: &str) -> Result<Lifetime, Problem> {
    let bad = Problem::BadField { name: EXPIRES_AT, why: "not a moment of RFC 3339" };
    let at_ms = unix_ms_of_rfc3339(text).ok_or(bad)?;
    // What lies before 1970 is over, as 1970 is.
    Ok(Lifetime::Until { at_ms: u64::try_from(at_ms).unwrap_or(0), text: text.to_owned() })
}

/// Gives a moment of RFC 3339 (section 5.6), milliseconds since 1970, whole ones. The library reads
/// more than that, and less: no end of the year 9999, and no more than nine digits of a second.
fn unix_ms_of_rfc3339(text: &str) -> Option<i64> {
    const DATE_TIME: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let (moment, rest) = text.split_at_checked(DATE_TIME.len())?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        None => ("", rest),
        Some(rest) => {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if digits == 0 {
                return None;
            }
            rest.split_at(digits)
        }
    };
    if !has_shape(moment, DATE_TIME) {
        return None;
    }
    let moment: jiff::civil::DateTime = moment.parse().ok()?;
    let since_1970 = moment.duration_since(jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0));
    let ms: i64 = format!("{fraction:0<3.3}").parse().ok()?;
    (since_1970.as_secs() - seconds_of_zone(zone)?).checked_mul(1000)?.checked_add(ms)
}

/// Gives how far a zone is ahead of UTC.
fn seconds_of_zone(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    if !has_shape(zone, b"sdd:dd") {
        return None;
    }
    let (hours, minutes): (i64, i64) = (zone[1..3].parse().ok()?, zone[4..].parse().ok()?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    Some(if zone.starts_with('-') { -seconds } else { seconds })
}

/// Whether text has digits (d), a sign (s), a T and the other bytes where a shape has them.
fn has_shape(text: &str, shape: &[u8]) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't'),
            b's' => matches!(byte, b'+' | b'-'),
            other => byte == *other,
        })
}

/// `0`, or digits without a leading zero.
fn plain_number(text: &str) -> Option<u64> {
    if text.len() > 1 && text.starts_with('0') { None } else { digits(text) }
}

fn digits(text: &str) -> Option<u64> {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if are_digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_log::ids::Offset;

    #[expect(clippy::needless_pass_by_value, reason = "what is given is an answer at hand")]
    fn is_bad<T: std::fmt::Debug>(result: Result<T, Problem>) -> bool {
        matches!(result, Err(Problem::BadField { .. }))
    }

    /// Point 9.
    #[test]
    fn a_ttl_is_0_or_digits_without_leading_zero_sign_point_or_exponent() {
        let ttl = |text| Lifetime::parse(Some(text), None);
        assert_eq!(ttl("0").unwrap(), Lifetime::Ttl { seconds: 0 });
        assert_eq!(ttl("3600").unwrap().expiry(), Some(Expiry::Sliding { ttl_ms: 3_600_000 }));
        for text in ["", "+3600", "-1", "03600", "00", "3600.0", "3.6e3", "abc", " 1", "1 "] {
            assert!(is_bad(ttl(text)), "{text:?}");
        }
        assert!(is_bad(ttl("18446744073709551615")), "more milliseconds than there are");
    }

    /// Point 9.
    #[test]
    fn an_expiry_is_a_moment_of_rfc_3339_and_comes_alone() {
        let until = |text| Lifetime::parse(None, Some(text));
        for text in [
            "2030-01-01T00:00:00Z",
            "2030-01-01t00:00:00.000z",
            "2030-01-01T02:00:00+02:00",
            "2029-12-31T18:00:00.0-06:00",
            "2030-01-01T00:00:00.000000000000000000Z",
        ] {
            let at_ms = 1_893_456_000_000;
            assert_eq!(until(text).unwrap(), Lifetime::Until { at_ms, text: text.to_owned() });
        }
        for (text, at_ms) in [
            ("1960-01-01T00:00:00Z", 0),
            ("0000-01-01T00:00:00+23:59", 0),
            ("1970-01-01T00:00:00.0019999999999Z", 1),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
            ("9999-12-31T23:59:59.9-23:59", 253_402_387_139_900),
        ] {
            let expiry = until(text).unwrap().expiry();
            assert_eq!(expiry, Some(Expiry::Absolute { at_ms }), "{text}");
        }
        for text in [
            "",
            "2030-01-01T00:00:00.5",
            "2030-01-01T00:00:00+24:00",
            "2030-01-01T00:00:00+00:60",
            "\u{ff12}030-01-01T00:00:00Z",
            "tomorrow",
            "2030-01-01",
            "2030-01-01T00:00:00",
            "2030-13-01T00:00:00Z",
            "2030-02-30T00:00:00Z",
            "2030-01-01T25:00:00Z",
            "2030-01-01 00:00:00Z",
            "2030-01-01T00:00:00.Z",
            "2030-01-01T00:00Z",
            "2030-01-01T00:00:00+0200",
            "20300101T000000Z",
            "2030-01-01T00:00:00Z[UTC]",
            "1893456000",
        ] {
            assert!(is_bad(until(text)), "{text:?}");
        }
        assert!(is_bad(Lifetime::parse(Some("1"), Some("2030-01-01T00:00:00Z"))));
    }

    /// Point 10.
    #[test]
    fn closed_means_true_in_any_case_and_nothing_else() {
        for text in ["true", "TRUE", "True"] {
            assert_eq!(closes(Some(text)), End::Close);
        }
        for text in [None, Some("false"), Some("yes"), Some("1"), Some(""), Some("true ")] {
            assert_eq!(closes(text), End::Open);
        }
    }

    /// Point 19.
    #[test]
    fn producer_headers_come_together_and_are_exact_numbers() {
        let whole = producer(Some("p"), Some("0"), Some("9007199254740991")).unwrap().unwrap();
        assert_eq!(whole, Producer { id: "p", epoch: 0, sequence: MOST_EXACT });
        assert_eq!(producer(None, None, None).unwrap(), None);
        for (id, epoch, sequence) in [
            (Some("p"), None, None),
            (Some("p"), Some("0"), None),
            (None, Some("0"), Some("0")),
            (Some(""), Some("0"), Some("0")),
            (Some("p"), Some("0"), Some("1abc")),
            (Some("p"), Some("0xyz"), Some("0")),
            (Some("p"), Some("1e3"), Some("0")),
            (Some("p"), Some("-1"), Some("0")),
            (Some("p"), Some(""), Some("0")),
            (Some("p"), Some("9007199254740992"), Some("0")),
        ] {
            assert!(is_bad(producer(id, epoch, sequence)), "{id:?} {epoch:?} {sequence:?}");
        }
        assert!(is_bad(producer(Some(&"x".repeat(257)), Some("0"), Some("0"))));
    }

    /// Point 15.
    #[test]
    fn a_sequence_is_bytes_and_not_empty() {
        assert_eq!(sequence(Some(b"09")).unwrap(), Some(&b"09"[..]));
        assert_eq!(sequence(None).unwrap(), None);
        assert!(is_bad(sequence(Some(b""))));
        assert!(is_bad(sequence(Some(&[b'x'; 1025]))));
    }

    /// Points 42 and 43.
    #[test]
    fn fork_headers_are_read_and_need_each_other() {
        let mount = Mount::new("/v1/stream").unwrap();
        let parse = |from, offset, sub| ForkFrom::parse(&mount, from, offset, sub);
        let (zero, from) = ("0000000000000000_0000000000000000", Some("/v1/stream/a"));
        let source = StreamPath::relative("a").unwrap();
        assert_eq!(parse(None, None, None).unwrap(), None);
        let default = ForkFrom { source, offset: None, sub_offset: 0 };
        assert_eq!(parse(from, None, None).unwrap(), Some(default.clone()));
        assert_eq!(parse(from, None, Some("0")).unwrap(), Some(default.clone()));
        let exact = ForkFrom { offset: Some(Offset(0)), sub_offset: 3, ..default };
        assert_eq!(parse(from, Some(zero), Some("3")).unwrap(), Some(exact));
        assert!(is_bad(parse(None, None, Some("0"))), "even 0 needs a source");
        assert!(is_bad(parse(None, Some(zero), None)));
        assert!(is_bad(parse(from, None, Some("1"))), "above 0 it needs an offset");
        for sub in ["-1", "abc", "1.5", "05", "+1", ""] {
            assert!(is_bad(parse(from, Some(zero), Some(sub))), "{sub:?}");
        }
        for offset in ["-1", "now", "x", ""] {
            assert_eq!(parse(from, Some(offset), None), Err(Problem::InvalidOffset), "{offset}");
        }
        assert!(matches!(parse(Some("/other/a"), None, None), Err(Problem::BadPath { .. })));
    }

    /// Point 25.
    #[test]
    fn an_offset_is_given_once_or_not_at_all() {
        assert_eq!(place([].into_iter()).unwrap(), None);
        assert_eq!(place(["now"].into_iter()).unwrap(), Some(Place::Now));
        assert!(is_bad(place(["-1", "-1"].into_iter())));
        assert_eq!(place([""].into_iter()), Err(Problem::InvalidOffset));
    }
}
