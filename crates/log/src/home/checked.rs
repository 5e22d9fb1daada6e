//! Remembers which regions were read and found right a moment ago, so that bytes which are sent
//! without a copy need not all be read first, each time.
//!
//! A bounded memory: a region has one place, and another one may take it. What is remembered ends
//! after a while, since the kernel may have dropped the pages and read them from the device again.

use std::sync::Mutex;
use std::time::Duration;

use crate::ids::{Offset, StreamId};

/// Places: a gibibyte of regions, in less than a megabyte.
const PLACES: usize = 16 << 10;

/// The memory.
#[derive(Debug)]
pub struct Checked {
    lasts: Duration,
    /// Empty until the first region is noted.
    places: Mutex<Vec<Option<Known>>>,
}

/// A region that was found right.
#[derive(Debug, Clone, Copy)]
struct Known {
    stream: StreamId,
    region: u64,
    /// As far as its stream went then.
    end: Offset,
    at: Duration,
}

impl Checked {
    /// Remembers for so long.
    pub fn new(lasts: Duration) -> Self {
        Self { lasts, places: Mutex::default() }
    }

    /// Whether a region was found right lately, up to an offset.
    pub fn has(&self, stream: StreamId, region: u64, end: Offset, now: Duration) -> bool {
        let places = self.lock();
        let Some(Some(known)) = places.get(place(stream, region)) else { return false };
        (known.stream, known.region) == (stream, region)
            && known.end >= end
            && now.saturating_sub(known.at) < self.lasts
    }

    /// Notes that a region was found right now, up to an offset.
    pub fn note(&self, stream: StreamId, region: u64, end: Offset, now: Duration) {
        let mut places = self.lock();
        places.resize(PLACES, None);
        places[place(stream, region)] = Some(Known { stream, region, end, at: now });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Known>>> {
        self.places.lock().expect("nobody panics with this lock held")
    }
}

/// Neighbouring regions of a stream have neighbouring places.
fn place(stream: StreamId, region: u64) -> usize {
    let start = u64::from(crc32c::crc32c(&stream.0.to_le_bytes()));
    let places = u64::try_from(PLACES).expect("usize fits u64");
    usize::try_from(start.wrapping_add(region) % places).expect("smaller than the number of places")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_checked_is_known_for_a_while_and_as_far_as_it_was_checked() {
        let checked = Checked::new(Duration::from_secs(10));
        let (stream, at) = (StreamId(7), Duration::from_secs(5));
        assert!(!checked.has(stream, 3, Offset(1), at));
        checked.note(stream, 3, Offset(200_000), at);
        assert!(checked.has(stream, 3, Offset(200_000), at + Duration::from_secs(9)));
        assert!(!checked.has(stream, 3, Offset(200_001), at), "it has grown since");
        assert!(!checked.has(stream, 3, Offset(1), at + Duration::from_secs(10)), "long ago");
        assert!(!checked.has(StreamId(8), 3, Offset(1), at));
        assert!(!checked.has(stream, 4, Offset(1), at));
        assert!(!Checked::new(Duration::ZERO).has(stream, 3, Offset(1), at));
    }

    #[test]
    fn a_region_that_takes_anothers_place_is_not_taken_for_it() {
        // I6, I11
        let checked = Checked::new(Duration::from_secs(10));
        let (stream, places) = (StreamId(1), u64::try_from(PLACES).unwrap());
        checked.note(stream, 5, Offset(9), Duration::ZERO);
        checked.note(stream, 5 + places, Offset(9), Duration::ZERO);
        assert!(!checked.has(stream, 5, Offset(9), Duration::ZERO));
        assert!(checked.has(stream, 5 + places, Offset(9), Duration::ZERO));
        assert_eq!(checked.lock().len(), PLACES);
    }
}
