//! JSON messages: how they are checked, stored, counted, and put together again.
//!
//! An appended body is a message, or an array of messages; one level of it is taken off. A message
//! is stored as it was written, but for whitespace outside of strings, and is followed by a comma
//! and a newline. A newline stands nowhere else, so message boundaries can be told from any bytes,
//! and what is stored becomes one array by putting brackets around all but the last two bytes:
//! across appends, and across the boundary of a fork.
//!
//! Walk: `scan` checks and stores, `stored` works on what is stored.

mod scan;
mod stored;

pub use scan::{Fault, MOST_DEPTH, flatten};
pub use stored::{ENDING, end_of_last, nth_end};
