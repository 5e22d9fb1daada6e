//! A histogram as bytes: `samples/*.hdr`.
//!
//! The body is `HdrHistogram`'s own V2 format, compressed, so every HDR tool reads it. Behind it,
//! where those tools stop reading, a trailer keeps the exact extremes that buckets would round;
//! without a trailer the ends of the outermost buckets stand in.
//!
//! Bytes come from disk and may be anything, so they are checked in full before the library's
//! reader, which trusts lengths and counts, sees them.

use std::io::Read;

use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::error::StatsError;
use crate::histogram::{COUNT_LIMIT, DIGITS, Extremes, LatencyHistogram};

/// Marks compressed V2: followed by the length of the compressed part, both big-endian u32.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
/// Marks plain V2, inside the compressed part.
const PLAIN_COOKIE: u32 = 0x1c84_9313;
/// Cookie u32, length of counts u32, offset u32, digits u32, low u64, high u64, ratio f64.
const PLAIN_HEADER_BYTES: usize = 40;
/// Greatest value with a bucket when the histogram has grown to its limit.
const HIGHEST_BUCKETED_NS: u64 = (1 << 42) - 1;
/// More than the buckets up to there; one count takes at most nine bytes.
const MOST_BUCKETS: u64 = 34 * 1024;
const MOST_PLAIN_BYTES: u64 = 40 + 9 * MOST_BUCKETS;
/// Marks the trailer: followed by least and greatest value, big-endian u64.
const TRAILER_MARK: [u8; 8] = *b"hwminmax";
const TRAILER_BYTES: usize = 24;

impl LatencyHistogram {
    /// Encodes the samples: compressed `HdrHistogram` V2 and a trailer of exact extremes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (counts, extremes) = self.parts();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(counts, &mut bytes)
            .expect("memory takes every byte, and counts are below the limit of the format");
        if let Some(Extremes { min_ns, max_ns }) = extremes {
            bytes.extend(TRAILER_MARK);
            bytes.extend(min_ns.to_be_bytes());
            bytes.extend(max_ns.to_be_bytes());
        }
        bytes
    }

    /// Decodes what [`Self::to_bytes`] wrote, or compressed V2 of the same resolution without the
    /// trailer.
    ///
    /// # Errors
    /// [`StatsError::BadEncoding`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StatsError> {
        let (plain, rest) = inflate(bytes)?;
        check_header(&plain)?;
        check_counts(&plain[PLAIN_HEADER_BYTES..])?;
        let counts = Deserializer::new()
            .deserialize(&mut plain.as_slice())
            .map_err(|error| bad(error.to_string()))?;
        Self::from_parts(counts, read_trailer(rest)?)
            .ok_or_else(|| bad("the extremes do not lie in the outermost buckets"))
    }
}

/// Decompresses the body, and returns it with what follows.
fn inflate(bytes: &[u8]) -> Result<(Vec<u8>, &[u8]), StatsError> {
    let mut reader = Fields(bytes);
    expect("cookie", reader.u32()?, COMPRESSED_COOKIE)?;
    let length = usize::try_from(reader.u32()?).map_err(|error| bad(error.to_string()))?;
    let compressed = reader.bytes(length)?;
    let mut plain = Vec::new();
    ZlibDecoder::new(compressed)
        .take(MOST_PLAIN_BYTES + 1)
        .read_to_end(&mut plain)
        .map_err(|error| bad(format!("it does not decompress: {error}")))?;
    if plain.len() as u64 > MOST_PLAIN_BYTES {
        return Err(bad(format!("it decompresses to more than {MOST_PLAIN_BYTES} bytes")));
    }
    Ok((plain, reader.0))
}

fn check_header(plain: &[u8]) -> Result<(), StatsError> {
    let mut header = Fields(plain);
    expect("inner cookie", header.u32()?, PLAIN_COOKIE)?;
    let length = header.u32()?;
    expect("normalizing offset", header.u32()?, 0)?;
    expect("significant digits", header.u32()?, u32::from(DIGITS))?;
    expect("lowest value", header.u64()?, 1)?;
    let high = header.u64()?;
    if !(2..=HIGHEST_BUCKETED_NS).contains(&high) {
        return Err(bad(format!("highest value is {high}, expected 2 to {HIGHEST_BUCKETED_NS}")));
    }
    expect("conversion ratio", header.u64()?, 1_f64.to_bits())?;
    expect("length of the counts", u64::from(length), header.0.len() as u64)
}

/// Walks the counts as the library's reader will, and refuses what would overflow there.
fn check_counts(mut counts: &[u8]) -> Result<(), StatsError> {
    let (mut bucket, mut total) = (0_u64, 0_u64);
    while !counts.is_empty() {
        let (value, rest) = read_varint(counts)?;
        counts = rest;
        // Zig-zag: odd numbers are negative, and mean a run of that many empty buckets.
        let magnitude = (value >> 1) + (value & 1);
        let is_run = value & 1 == 1;
        bucket = bucket.saturating_add(if is_run { magnitude } else { 1 });
        total = total.saturating_add(if is_run { 0 } else { magnitude });
        if bucket > MOST_BUCKETS || total > COUNT_LIMIT {
            return Err(bad(format!("{total} samples up to bucket {bucket} are out of range")));
        }
    }
    Ok(())
}

/// Reads a little-endian base 128 number of at most nine bytes, the ninth holding eight bits.
fn read_varint(bytes: &[u8]) -> Result<(u64, &[u8]), StatsError> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(9) {
        let last = place == 8 || byte & 0x80 == 0;
        let bits = if place == 8 { *byte } else { byte & 0x7f };
        value |= u64::from(bits) << (7 * place);
        if last {
            return Ok((value, &bytes[place + 1..]));
        }
    }
    Err(bad("it ends within a count"))
}

fn read_trailer(rest: &[u8]) -> Result<Option<Extremes>, StatsError> {
    if rest.is_empty() {
        return Ok(None);
    }
    expect("length of the trailer", rest.len(), TRAILER_BYTES)?;
    let mut trailer = Fields(rest);
    if trailer.array()? != TRAILER_MARK {
        return Err(bad("unknown trailer"));
    }
    Ok(Some(Extremes { min_ns: trailer.u64()?, max_ns: trailer.u64()? }))
}

/// Reads big-endian fields off the front of a slice.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], StatsError> {
        let Some((front, rest)) = self.0.split_at_checked(length) else {
            return Err(bad(format!("{length} bytes expected, {} left", self.0.len())));
        };
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StatsError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, StatsError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, StatsError> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}

fn expect<T: PartialEq + Copy + std::fmt::Display>(
    what: &str,
    stored: T,
    expected: T,
) -> Result<(), StatsError> {
    if stored == expected {
        return Ok(());
    }
    Err(bad(format!("{what} is {stored}, expected {expected}")))
}

fn bad(reason: impl Into<String>) -> StatsError {
    StatsError::BadEncoding { reason: reason.into() }
}
