//! The frames that a hub keeps: each until all who are to get it have it, within a bound.

use std::collections::VecDeque;
use std::sync::Arc;

use super::frame::Frame;

/// A frame's place in the order of its hub's.
pub(super) type Turn = u64;

/// A row of frames.
#[derive(Debug)]
pub(super) struct Ring {
    frames: VecDeque<Kept>,
    /// Turn of the first one kept.
    first: Turn,
    bytes: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    frame: Arc<Frame>,
    /// How many have not taken it.
    left: usize,
}

impl Ring {
    /// Makes an empty row that keeps about so many bytes.
    pub fn new(most_bytes: usize) -> Self {
        Self { frames: VecDeque::new(), first: 0, bytes: 0, most_bytes }
    }

    /// Turn of the next frame to come.
    pub fn next_turn(&self) -> Turn {
        self.first + to_turn(self.frames.len())
    }

    /// Adds a frame for so many readers. The oldest make room, but the newest is always kept.
    pub fn push(&mut self, frame: Arc<Frame>, readers: usize) {
        self.bytes += frame.len();
        self.frames.push_back(Kept { frame, left: readers });
        while self.bytes > self.most_bytes && self.frames.len() > 1 {
            self.pop();
        }
    }

    /// Takes a frame for one reader; `Err` where it is kept no more.
    pub fn take(&mut self, turn: Turn) -> Result<Option<Arc<Frame>>, Lost> {
        let index = self.index(turn)?;
        let Some(kept) = self.frames.get_mut(index) else { return Ok(None) };
        kept.left -= 1;
        let frame = Arc::clone(&kept.frame);
        self.drop_taken();
        Ok(Some(frame))
    }

    /// Forgets a reader whose next frame would be this one.
    pub fn leave(&mut self, turn: Turn) {
        let index = self.index(turn).unwrap_or(0);
        for kept in self.frames.iter_mut().skip(index) {
            kept.left -= 1;
        }
        self.drop_taken();
    }

    /// Bytes of the frames that are kept.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn index(&self, turn: Turn) -> Result<usize, Lost> {
        let index = turn.checked_sub(self.first).ok_or(Lost)?;
        Ok(usize::try_from(index).expect("a row of frames fits the memory"))
    }

    fn drop_taken(&mut self) {
        while self.frames.front().is_some_and(|kept| kept.left == 0) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(kept) = self.frames.pop_front() {
            self.bytes -= kept.frame.len();
            self.first += 1;
        }
    }
}

/// A reader was too slow for what is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost;

fn to_turn(len: usize) -> Turn {
    Turn::try_from(len).expect("lengths have 64 bits at most")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Kind;
    use crate::cursor::Cursor;
    use crate::service::Body;
    use crate::sse::Control;
    use bytes::Bytes;
    use highwater_log::ids::Offset;

    fn frame(number: u64) -> Arc<Frame> {
        let control = Control { next: Offset(number + 1), is_up_to_date: true, is_closed: false };
        let body = Body::from(Bytes::from_static(b"x"));
        Arc::new(Frame::new(Kind::Text, Offset(number), &body, control, Cursor(0)))
    }

    #[test]
    fn a_frame_is_kept_until_all_have_it() {
        let mut ring = Ring::new(1 << 20);
        ring.push(frame(0), 2);
        ring.push(frame(1), 2);
        assert_eq!(ring.take(0).unwrap().unwrap().start, Offset(0));
        assert_eq!(ring.take(0).unwrap().unwrap().start, Offset(0));
        assert_eq!(ring.take(0), Err(Lost), "nobody is left to take it");
        assert_eq!(ring.take(1).unwrap().unwrap().start, Offset(1));
        ring.leave(1);
        assert_eq!((ring.bytes(), ring.next_turn()), (0, 2));
        assert_eq!(ring.take(2), Ok(None));
    }

    #[test]
    fn the_oldest_frames_make_room_and_the_newest_is_always_kept() {
        let one = frame(0).len();
        let mut ring = Ring::new(2 * one);
        for number in 0..5 {
            ring.push(frame(number), 1);
        }
        assert_eq!((ring.bytes(), ring.next_turn()), (2 * one, 5));
        assert_eq!(ring.take(2), Err(Lost));
        assert!(ring.take(3).unwrap().is_some());
        let mut tiny = Ring::new(1);
        tiny.push(frame(0), 1);
        assert!(tiny.take(0).unwrap().is_some());
        ring.leave(0);
        assert_eq!(ring.bytes(), 0);
    }
}
