//! Works on stored messages: finds where they end, and where their append does.

/// What follows the last message of an append.
pub const ENDING: &[u8] = b",\n";

/// What follows a message that another one of the same append follows.
pub const ENDING_WITHIN: &[u8] = b", \n";

/// The byte that ends a message and stands nowhere in one.
const NEWLINE: u8 = b'\n';

/// What stands before the newline within an append.
const MARK: u8 = b' ';

/// Gives the length of the bytes up to the end of the last message that ends in them.
pub fn end_of_last(stored: &[u8]) -> Option<usize> {
    memchr::memrchr(NEWLINE, stored).map(|at| at + 1)
}

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The end of the last message that was asked for, behind so many bytes.
    Whole(usize),
    /// The end of the append, with fewer messages than were asked for, behind so many bytes.
    AppendEnds(usize),
    /// The end of the bytes.
    Unfinished,
}

/// Counts messages of one append, in bytes that come piece by piece.
#[derive(Debug)]
pub struct Count {
    left: u64,
    /// The last byte of the piece before: a mark may stand in another than its newline.
    before: u8,
}

impl Count {
    /// Begins where a message begins.
    ///
    /// # Panics
    /// When no message is asked for.
    pub fn new(messages: u64) -> Self {
        assert!(messages > 0, "nothing is counted");
        Self { left: messages, before: MARK }
    }

    /// Goes on with a piece, until it gives something else than [`Counted::Unfinished`].
    pub fn piece(&mut self, stored: &[u8]) -> Counted {
        for at in memchr::memchr_iter(NEWLINE, stored) {
            self.left -= 1;
            if self.left == 0 {
                return Counted::Whole(at + 1);
            }
            let before = if at == 0 { self.before } else { stored[at - 1] };
            if before != MARK {
                return Counted::AppendEnds(at + 1);
            }
        }
        self.before = stored.last().copied().unwrap_or(self.before);
        Counted::Unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::flatten;
    use proptest::prelude::*;

    fn counted(pieces: &[&[u8]], messages: u64) -> Counted {
        let mut count = Count::new(messages);
        let mut passed = 0;
        for piece in pieces {
            match count.piece(piece) {
                Counted::Unfinished => passed += piece.len(),
                Counted::Whole(len) => return Counted::Whole(passed + len),
                Counted::AppendEnds(len) => return Counted::AppendEnds(passed + len),
            }
        }
        Counted::Unfinished
    }

    /// Points 41 and 43.
    #[test]
    fn messages_end_where_they_were_stored_to_end() {
        let mut stored = Vec::new();
        flatten(br#"[{"a":"x ,\ny"},[1,2],3]"#, &mut stored).unwrap();
        flatten(b"4", &mut stored).unwrap();
        for (messages, end) in (1..).zip([17, 25, 28]) {
            assert_eq!(counted(&[&stored], messages), Counted::Whole(end));
        }
        assert_eq!(counted(&[&stored], 4), Counted::AppendEnds(28));
        assert_eq!(counted(&[&stored[28..]], 1), Counted::Whole(3));
        assert_eq!(counted(&[&stored[..27]], 3), Counted::Unfinished);
        assert_eq!(end_of_last(&stored[..26]), Some(25));
        assert_eq!(end_of_last(&stored[..14]), None);
        assert_eq!(end_of_last(&stored), Some(stored.len()));
    }

    proptest! {
        /// Point 43: however the bytes are cut.
        #[test]
        fn an_append_ends_where_it_did_however_its_bytes_are_cut(
            appends in prop::collection::vec(1_u64..5, 1..4),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
            messages in 1_u64..6,
        ) {
            let mut stored = Vec::new();
            let mut ends = Vec::new();
            for count in &appends {
                let body: Vec<String> = (0..*count).map(|number| number.to_string()).collect();
                flatten(format!("[{}]", body.join(",")).as_bytes(), &mut stored).unwrap();
                ends.push(stored.len());
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stored.len() + 1)).collect();
            cuts.extend([0, stored.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stored[cut[0]..cut[1]]).collect();
            let found = counted(&pieces, messages);
            if messages > appends[0] {
                prop_assert_eq!(found, Counted::AppendEnds(ends[0]));
            } else {
                let newlines = stored.iter().enumerate().filter(|(_, byte)| **byte == NEWLINE);
                let (at, _) = newlines.take(usize::try_from(messages).unwrap()).last().unwrap();
                prop_assert_eq!(found, Counted::Whole(at + 1));
                prop_assert!(at < ends[0]);
            }
        }
    }
}
