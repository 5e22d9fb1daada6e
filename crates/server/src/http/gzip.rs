//! Compression of answers, for clients that accept it.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};

/// What a tag of a compressed answer ends with: another representation has another tag.
const MARK: &str = "-gzip\"";

/// Whether gzip is accepted (RFC 9110, section 12.5.3).
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let (letter, quality) = weight.split_once('=').unwrap_or_default();
        let is_gzip = name.trim().eq_ignore_ascii_case("gzip");
        let is_weight = letter.trim().eq_ignore_ascii_case("q");
        // What cannot be read is no consent.
        let quality = quality.trim().parse::<f32>().unwrap_or(0.0);
        is_gzip && is_weight && quality > 0.0
    })
}

fn compress(parts: &[Bytes]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for part in parts {
        encoder.write_all(part).expect("writing to memory does not fail");
    }
    encoder.finish().expect("writing to memory does not fail")
}

/// Compresses the parts of an answer; they count for it as long as it is there.
pub(crate) fn compressed(parts: Vec<Bytes>) -> Bytes {
    let bytes = compress(&parts);
    Bytes::from_owner(Compressed { bytes, _counts: parts.into_iter().next_back() })
}

/// The bytes, and the part that stands for what they were made of.
struct Compressed {
    bytes: Vec<u8>,
    _counts: Option<Bytes>,
}

impl AsRef<[u8]> for Compressed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Gives the tag of the compressed answer.
pub(crate) fn tag(tag: &HeaderValue) -> HeaderValue {
    let text = tag.to_str().unwrap_or_default();
    let marked = text.strip_suffix('"').map(|text| format!("{text}{MARK}"));
    marked.and_then(|marked| HeaderValue::from_str(&marked).ok()).unwrap_or_else(|| tag.clone())
}

/// Gives the tags of `If-None-Match` as they are without compression.
pub(crate) fn plain_tags(if_none_match: &str) -> String {
    if_none_match.replace(MARK, "\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn gzip_is_accepted_where_it_is_named_and_not_refused() {
        let accepted = |value: &str| {
            is_accepted(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.parse().unwrap())]))
        };
        assert!(accepted("gzip") && accepted("br, GZIP;q=0.5") && accepted("deflate,gzip"));
        assert!(accepted("gzip;Q=1") && accepted("gzip ; q=0.001"));
        assert!(!accepted("br") && !accepted("gzip;q=0") && !accepted("*") && !accepted(""));
        for refused in ["gzip;Q=0", "gzip; Q=0.0", "GZIP;q=0.000", "gzip;q=", "gzip;q", "gzip;x=1"]
        {
            assert!(!accepted(refused), "{refused}");
        }
    }

    #[test]
    fn what_is_compressed_comes_back_and_its_tag_leads_to_the_plain_one() {
        let parts = [Bytes::from_static(b"one"), Bytes::from_static(b"two")];
        let mut text = String::new();
        let compressed = compressed(parts.into());
        flate2::read::GzDecoder::new(&*compressed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "onetwo");
        let plain = HeaderValue::from_static("\"a:0:9\"");
        let marked = tag(&plain);
        assert_eq!(marked, "\"a:0:9-gzip\"");
        assert_eq!(plain_tags(marked.to_str().unwrap()), "\"a:0:9\"");
    }
}
