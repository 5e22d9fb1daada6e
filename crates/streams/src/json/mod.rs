//! JSON messages: how they are checked, stored, counted, and put together again.
//!
//! An appended body is a message, or an array of messages; one level of it is taken off. A message
//! is stored as it was written, but for whitespace outside of strings, and is followed by a comma
//! and a newline; where another one of the same append follows, a space stands between these. A
//! newline stands nowhere else, so ends of messages and of appends can be told from any bytes, and
//! what is stored becomes one array by putting brackets around all but the last ending: across
//! appends, and across the boundary of a fork.
//!
//! Walk: `scan` checks and stores, `stored` works on what is stored.

mod scan;
mod stored;

pub use scan::{Fault, MOST_DEPTH, flatten};
pub use stored::{Count, Counted, ENDING, ENDING_WITHIN, end_of_last};
