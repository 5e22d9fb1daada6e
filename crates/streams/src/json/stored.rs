//! Works on stored messages: finds where they end.

/// What follows each message.
pub const ENDING: &[u8] = b",\n";

/// The byte that ends a message and stands nowhere in one.
const NEWLINE: u8 = b'\n';

/// Gives the length of the bytes up to the end of the last message that ends in them.
pub fn end_of_last(stored: &[u8]) -> Option<usize> {
    memchr::memrchr(NEWLINE, stored).map(|at| at + 1)
}

/// Gives the length of the first `count` messages, or the number of those that end in the bytes
/// where there are fewer.
///
/// # Errors
/// The number of messages that were found.
pub fn nth_end(stored: &[u8], count: u64) -> Result<usize, u64> {
    let mut found = 0;
    if count == 0 {
        return Ok(0);
    }
    for at in memchr::memchr_iter(NEWLINE, stored) {
        found += 1;
        if found == count {
            return Ok(at + 1);
        }
    }
    Err(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::flatten;

    /// Points 41 and 43.
    #[test]
    fn messages_end_where_they_were_stored_to_end() {
        let mut stored = Vec::new();
        flatten(br#"[{"a":"x,\ny"},[1,2],3]"#, &mut stored).unwrap();
        let ends = [0, 15, 22, 25];
        for (count, end) in (0..).zip(ends) {
            assert_eq!(nth_end(&stored, count), Ok(end));
        }
        assert_eq!(nth_end(&stored, 4), Err(3));
        assert_eq!(end_of_last(&stored[..24]), Some(22));
        assert_eq!(end_of_last(&stored[..14]), None);
        assert_eq!(end_of_last(&stored), Some(stored.len()));
    }
}
