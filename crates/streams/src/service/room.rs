//! Memory that holds answers which clients have not taken yet (I11). There is no telling how fast a
//! client reads, so a chunk is the shorter the more of that memory is in use: a reader that takes
//! nothing costs little where there are many, and one that is quick gets long chunks where there is
//! room. A chunk's length is the server's choice (protocol, section 5.6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

/// Length of a chunk for which there is always room, bytes; those up to it are not counted.
pub(crate) const LEAST_BYTES: u64 = 64 << 10;
/// A chunk takes this part of what is left, at most.
const PART: u64 = 8;

/// The memory. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    most: u64,
    used: Arc<AtomicU64>,
}

/// A part that stands for all of its answer, since it is the last to go.
struct Counted {
    bytes: Bytes,
    len: u64,
    used: Arc<AtomicU64>,
}

impl Room {
    /// Begins with nothing used.
    pub fn new(most: u64) -> Self {
        Self { most, used: Arc::default() }
    }

    /// Gives the length of the next chunk, `longest` at most.
    pub fn chunk_bytes(&self, longest: u64) -> u64 {
        let left = self.most.saturating_sub(self.used.load(Ordering::Relaxed));
        longest.min((left / PART).max(LEAST_BYTES))
    }

    /// Whether there is room for an answer that cannot be shorter. The first one always has room:
    /// there is no other way to read it.
    pub fn has_room(&self, len: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        used == 0 || used.saturating_add(len) <= self.most
    }

    /// Counts an answer until its last part is gone.
    pub fn count(&self, parts: &mut [Bytes]) {
        let len: usize = parts.iter().map(Bytes::len).sum();
        let len = u64::try_from(len).expect("lengths have 64 bits at most");
        let Some(last) = parts.last_mut().filter(|_| len > LEAST_BYTES) else { return };
        self.used.fetch_add(len, Ordering::Relaxed);
        let bytes = std::mem::take(last);
        *last = Bytes::from_owner(Counted { bytes, len, used: Arc::clone(&self.used) });
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.used.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I11.
    #[test]
    fn the_more_is_held_the_shorter_is_a_chunk_and_what_is_gone_makes_room() {
        let room = Room::new(64 << 20);
        let mut held = Vec::new();
        let mut total = 0;
        for _ in 0..1000 {
            let len = room.chunk_bytes(16 << 20);
            assert!((LEAST_BYTES..=8 << 20).contains(&len), "{len}");
            let len = usize::try_from(len).unwrap();
            total += len;
            let mut parts = vec![Bytes::from(vec![0; len - 1]), Bytes::from_static(b"x")];
            room.count(&mut parts);
            assert_eq!(parts[1], &b"x"[..]);
            held.push(parts.pop());
        }
        let least = 1000 * usize::try_from(LEAST_BYTES).unwrap();
        assert!(total < (64 << 20) + least, "{total}");
        assert_eq!(room.chunk_bytes(16 << 20), LEAST_BYTES);
        assert!(!room.has_room(1 << 20));
        drop(held);
        assert_eq!(room.used.load(Ordering::Relaxed), 0);
        assert_eq!(room.chunk_bytes(16 << 20), 8 << 20);
        assert_eq!(room.chunk_bytes(10), 10, "what is asked for is the most");
        assert!(room.has_room(1 << 40), "nothing else is held");
    }
}
