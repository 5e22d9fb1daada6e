//! The parcels that a hub keeps: each until all who are to get it have it, within a bound.

use std::collections::VecDeque;
use std::sync::Arc;

use super::parcel::Parcel;

/// A parcel's place in the order of its hub's.
pub(super) type RingNo = u64;

/// A row of parcels.
#[derive(Debug)]
pub(super) struct Ring {
    parcels: VecDeque<Kept>,
    /// Number of the first one kept.
    first: RingNo,
    bytes: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    parcel: Arc<Parcel>,
    /// How many have not taken it.
    left: usize,
}

impl Ring {
    /// Makes an empty row that keeps about so many bytes.
    pub fn new(most_bytes: usize) -> Self {
        Self { parcels: VecDeque::new(), first: 0, bytes: 0, most_bytes }
    }

    /// Number of the next parcel to come.
    pub fn next_no(&self) -> RingNo {
        self.first + to_ring_no(self.parcels.len())
    }

    /// Adds a parcel for so many readers. The oldest make room, but the newest is always kept.
    pub fn push(&mut self, parcel: Arc<Parcel>, readers: usize) {
        self.bytes += parcel.len();
        self.parcels.push_back(Kept { parcel, left: readers });
        while self.bytes > self.most_bytes && self.parcels.len() > 1 {
            self.pop();
        }
    }

    /// Keeps the newest alone: whoever wants others reads them by itself.
    pub fn keep_newest(&mut self) {
        while self.parcels.len() > 1 {
            self.pop();
        }
    }

    /// Takes a parcel for one reader; `Err` where it is kept no more.
    pub fn take(&mut self, number: RingNo) -> Result<Option<Arc<Parcel>>, Lost> {
        let index = self.index(number)?;
        let Some(kept) = self.parcels.get_mut(index) else { return Ok(None) };
        kept.left -= 1;
        let parcel = Arc::clone(&kept.parcel);
        self.drop_taken();
        Ok(Some(parcel))
    }

    /// Forgets a reader whose next parcel would be this one.
    pub fn leave(&mut self, number: RingNo) {
        let index = self.index(number).unwrap_or(0);
        for kept in self.parcels.iter_mut().skip(index) {
            kept.left -= 1;
        }
        self.drop_taken();
    }

    /// Bytes of the parcels that are kept.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn index(&self, number: RingNo) -> Result<usize, Lost> {
        let index = number.checked_sub(self.first).ok_or(Lost)?;
        Ok(usize::try_from(index).expect("a row of parcels fits the memory"))
    }

    fn drop_taken(&mut self) {
        while self.parcels.front().is_some_and(|kept| kept.left == 0) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(kept) = self.parcels.pop_front() {
            self.bytes -= kept.parcel.len();
            self.first += 1;
        }
    }
}

/// A reader was too slow for what is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost;

fn to_ring_no(len: usize) -> RingNo {
    RingNo::try_from(len).expect("lengths have 64 bits at most")
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

    fn parcel(number: u64) -> Arc<Parcel> {
        let control = Control { next: Offset(number + 1), is_up_to_date: true, is_closed: false };
        let body = Body::from(Bytes::from_static(b"x"));
        Arc::new(Parcel::new(Kind::Text, Offset(number), &body, control, Cursor(0)))
    }

    #[test]
    fn a_frame_is_kept_until_all_have_it() {
        let mut ring = Ring::new(1 << 20);
        ring.push(parcel(0), 2);
        ring.push(parcel(1), 2);
        assert_eq!(ring.take(0).unwrap().unwrap().start, Offset(0));
        assert_eq!(ring.take(0).unwrap().unwrap().start, Offset(0));
        assert_eq!(ring.take(0), Err(Lost), "nobody is left to take it");
        assert_eq!(ring.take(1).unwrap().unwrap().start, Offset(1));
        ring.leave(1);
        assert_eq!((ring.bytes(), ring.next_no()), (0, 2));
        assert_eq!(ring.take(2), Ok(None));
    }

    #[test]
    fn the_oldest_frames_make_room_and_the_newest_is_always_kept() {
        let one = parcel(0).len();
        let mut ring = Ring::new(2 * one);
        for number in 0..5 {
            ring.push(parcel(number), 1);
        }
        assert_eq!((ring.bytes(), ring.next_no()), (2 * one, 5));
        assert_eq!(ring.take(2), Err(Lost));
        assert!(ring.take(3).unwrap().is_some());
        let mut tiny = Ring::new(1);
        tiny.push(parcel(0), 1);
        assert!(tiny.take(0).unwrap().is_some());
        ring.leave(0);
        assert_eq!(ring.bytes(), 0);
    }
}
