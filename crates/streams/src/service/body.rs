//! Content on its way to a client: shared bytes, in order.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use highwater_log::lane::Slice;

use crate::json;

/// Bodies up to this length are joined into one part, bytes: a part costs more than a copy.
const JOINED_BYTES: usize = 64 << 10;

/// Content of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Body {
    parts: Vec<Bytes>,
}

impl Body {
    /// Takes bytes from the log. What is in its memory is copied, since whoever holds on to a part
    /// of a segment's image keeps all of it; what was read from a stream's home is not.
    pub(super) fn from_slices(slices: Vec<Slice>) -> Self {
        let mut parts: Vec<Bytes> = Vec::new();
        let mut copied = BytesMut::new();
        for slice in slices {
            match slice {
                Slice::Image { .. } => copied.extend_from_slice(slice.bytes()),
                Slice::Copied(bytes) => {
                    parts.extend(take(&mut copied));
                    parts.push(Bytes::from_owner(Shared(bytes)));
                }
            }
        }
        parts.extend(take(&mut copied));
        Self { parts }
    }

    /// Takes another body's bytes behind the own.
    pub(super) fn extend(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Bytes::is_empty)
    }

    /// Gives the parts, in order.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// Gives the parts, in order.
    pub fn into_parts(self) -> Vec<Bytes> {
        self.parts
    }

    /// Gives all bytes in one piece.
    pub fn to_bytes(&self) -> Bytes {
        match self.parts.as_slice() {
            [] => Bytes::new(),
            [only] => only.clone(),
            parts => parts.concat().into(),
        }
    }

    /// Gives the last bytes, so many at most.
    pub(crate) fn last(&self, most: usize) -> Vec<u8> {
        let mut last = Vec::with_capacity(most);
        for part in self.parts.iter().rev() {
            let missing = most - last.len();
            let from = part.len().saturating_sub(missing);
            last.splice(0..0, part[from..].iter().copied());
            if last.len() == most {
                break;
            }
        }
        last
    }

    /// Takes bytes off the front.
    pub(super) fn drop_front(&mut self, mut count: usize) {
        for part in &mut self.parts {
            let here = count.min(part.len());
            part.advance(here);
            count -= here;
        }
        self.parts.retain(|part| !part.is_empty());
    }

    /// Takes bytes off the end.
    pub(crate) fn drop_back(&mut self, mut count: usize) {
        while count > 0 {
            let Some(part) = self.parts.last_mut() else { return };
            let here = count.min(part.len());
            part.truncate(part.len() - here);
            count -= here;
            if part.is_empty() {
                self.parts.pop();
            }
        }
    }

    /// Gives the length up to the end of the last stored message that ends in it.
    pub(super) fn end_of_last_message(&self) -> Option<usize> {
        let mut before = self.len();
        for part in self.parts.iter().rev() {
            before -= part.len();
            if let Some(end) = json::end_of_last(part) {
                return Some(before + end);
            }
        }
        None
    }

    /// Makes one array of stored messages.
    pub(super) fn into_array(mut self) -> Self {
        self.drop_back(json::ENDING.len());
        self.parts.insert(0, Bytes::from_static(b"["));
        self.parts.push(Bytes::from_static(b"]"));
        if self.len() <= JOINED_BYTES { Self { parts: vec![self.to_bytes()] } } else { self }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { parts: vec![bytes] }
    }
}

/// Bytes that others hold, too.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn take(copied: &mut BytesMut) -> Option<Bytes> {
    if copied.is_empty() { None } else { Some(copied.split().freeze()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(parts: &[&str]) -> Body {
        let home = |part: &&str| Slice::Copied(Arc::new(part.as_bytes().to_vec()));
        Body::from_slices(parts.iter().map(home).collect())
    }

    #[test]
    fn bytes_are_cut_at_both_ends_across_parts() {
        let mut cut = body(&["abc", "d", "ef"]);
        cut.drop_front(1);
        cut.drop_back(3);
        assert_eq!(cut.to_bytes(), "bc");
        cut.drop_back(9);
        assert!(cut.is_empty());
        let whole = body(&["abc", "d", "ef"]);
        assert_eq!(whole.last(4), b"cdef");
        assert_eq!(whole.last(9), b"abcdef");
        assert_eq!(whole.len(), 6);
    }

    /// Point 40.
    #[test]
    fn stored_messages_become_one_array_wherever_their_bytes_are_cut() {
        for parts in [&["1,\n[2],\n"][..], &["1,", "\n[2]", ",\n"], &["1,\n", "[2],", "\n"]] {
            assert_eq!(body(parts).into_array().to_bytes(), "[1,\n[2]]");
        }
        assert_eq!(body(&[]).into_array().to_bytes(), "[]");
        assert_eq!(body(&["1,\n[2", ",3],\n", "4"]).end_of_last_message(), Some(10));
        assert_eq!(body(&["[2", ",3]"]).end_of_last_message(), None);
    }
}
