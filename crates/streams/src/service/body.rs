//! Content on its way to a client: shared bytes, in order.

use bytes::{Buf, Bytes, BytesMut};
use highwater_log::lane::Slice;

use crate::json;

/// Bodies up to this length are joined into one part, bytes: a part costs more than a copy.
const JOINED_BYTES: usize = 64 << 10;

/// Bytes of the log that are long enough to be shared instead of copied.
const SHARED_BYTES: usize = 16 << 10;

/// Content of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Body {
    parts: Vec<Bytes>,
}

impl Body {
    /// Takes bytes from the log: as they are where they are long, joined where they are short. A
    /// part of a segment's image keeps all of it; the log bounds how many readers keep.
    pub(super) fn from_slices(slices: Vec<Slice>) -> Self {
        let is_short = |slice: &Slice| slice.bytes().len() < SHARED_BYTES;
        let short = slices.iter().filter(|slice| is_short(slice));
        let mut copied = BytesMut::with_capacity(short.map(|slice| slice.bytes().len()).sum());
        let mut parts: Vec<Bytes> = Vec::new();
        for slice in slices {
            if is_short(&slice) {
                copied.extend_from_slice(slice.bytes());
            } else {
                parts.extend(take(&mut copied));
                parts.push(Bytes::from_owner(Shared(slice)));
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
    pub(super) fn parts_mut(&mut self) -> &mut [Bytes] {
        &mut self.parts
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

    /// Takes what follows the last message off.
    fn drop_ending(&mut self) {
        // A space may be between the comma and the newline.
        while self.last_byte().is_some_and(|byte| json::ENDING_WITHIN.contains(&byte)) {
            self.drop_back(1);
        }
    }

    fn last_byte(&self) -> Option<u8> {
        self.parts.last().and_then(|part| part.last()).copied()
    }

    /// Makes one array of stored messages.
    pub(super) fn into_array(mut self) -> Self {
        self.drop_ending();
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
struct Shared(Slice);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

fn take(copied: &mut BytesMut) -> Option<Bytes> {
    if copied.is_empty() { None } else { Some(copied.split().freeze()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn body(parts: &[&str]) -> Body {
        Body { parts: parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect() }
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

    #[test]
    fn what_is_long_is_shared_and_what_is_short_is_joined_in_order() {
        let long = Arc::new(vec![b'x'; SHARED_BYTES]);
        let short = || Slice::Copied(Arc::new(b"short".to_vec()));
        let slices = vec![short(), short(), Slice::Copied(Arc::clone(&long)), short()];
        let parts = Body::from_slices(slices).into_parts();
        assert_eq!(parts.len(), 3);
        assert_eq!((&parts[0][..], &parts[2][..]), (&b"shortshort"[..], &b"short"[..]));
        assert_eq!(parts[1].as_ptr(), long.as_ptr(), "no copy");
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
