//! Offsets as clients see them: opaque, of fixed width, in the order of the stream.
//!
//! A token is the number of stored bytes before the place, in 32 decimal digits with `_` in their
//! middle. Readers compare tokens as text. Forks count on from their source, so they share its
//! tokens.

use std::fmt;

use highwater_log::ids::Offset;

use crate::error::Problem;

/// Digits on each side of the `_`.
const HALF: usize = 16;
/// Characters of a token.
pub const TOKEN_LEN: usize = HALF + 1 + HALF;
/// What one of the upper half is worth.
const UPPER: u64 = 10_u64.pow(16);

/// An offset on its way to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(pub Offset);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.to_bytes()).expect("digits are text"))
    }
}

impl Token {
    /// Writes it, all in ASCII. Each answer has one, so it is made without the formatter.
    pub fn to_bytes(self) -> [u8; TOKEN_LEN] {
        let mut bytes = [b'0'; TOKEN_LEN];
        bytes[HALF] = b'_';
        // No u128: its divisions are slow.
        write_digits(&mut bytes[..HALF], self.0.0 / UPPER);
        write_digits(&mut bytes[HALF + 1..], self.0.0 % UPPER);
        bytes
    }
}

/// Writes a number's digits to the right end of a place of zeros.
fn write_digits(into: &mut [u8], mut number: u64) {
    for digit in into.iter_mut().rev() {
        if number == 0 {
            return;
        }
        *digit += u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

/// A place in a stream that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The start: `-1`, or nothing given.
    Start,
    /// The tail as it is now: `now`.
    Now,
    /// Behind so many bytes. Beyond any tail is a place, too.
    At(Offset),
}

impl Place {
    /// Reads what stands behind `offset=`.
    ///
    /// # Errors
    /// [`Problem::InvalidOffset`] for what no server of this protocol has given out.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        match text {
            "-1" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            token => token_offset(token).map(Self::At).ok_or(Problem::InvalidOffset),
        }
    }
}

/// Reads a token as it was given out: no `-1`, no `now`.
///
/// # Errors
/// [`Problem::InvalidOffset`].
pub fn parse_token(text: &str) -> Result<Offset, Problem> {
    token_offset(text).ok_or(Problem::InvalidOffset)
}

/// What no stream can reach is the largest offset: it is beyond every tail.
fn token_offset(text: &str) -> Option<Offset> {
    let (upper, lower) = text.split_once('_')?;
    let number = |half: &str| {
        let is_right = half.len() == HALF && half.bytes().all(|byte| byte.is_ascii_digit());
        if is_right { half.parse::<u128>().ok() } else { None }
    };
    let places = number(upper)? * u128::from(UPPER) + number(lower)?;
    Some(Offset(u64::try_from(places).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Point 39.
    #[test]
    fn a_token_is_of_fixed_width_and_url_safe_and_no_sentinel() {
        for places in [0, 1, 9_999_999_999_999_999, 10_000_000_000_000_000, u64::MAX] {
            let token = Token(Offset(places)).to_string();
            assert_eq!(token.len(), TOKEN_LEN);
            assert!(token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_'), "{token}");
            assert_eq!(parse_token(&token).unwrap(), Offset(places));
            assert_eq!(token, format!("{:016}_{:016}", places / UPPER, places % UPPER));
        }
        assert_eq!(Token(Offset(0)).to_string(), "0000000000000000_0000000000000000");
    }

    /// Points 25 and 39.
    #[test]
    fn sentinels_are_places_and_made_up_text_is_refused() {
        assert_eq!(Place::parse("-1").unwrap(), Place::Start);
        assert_eq!(Place::parse("now").unwrap(), Place::Now);
        let beyond = Place::parse("9999999999999999_9999999999999999").unwrap();
        assert_eq!(beyond, Place::At(Offset(u64::MAX)));
        for text in [
            "",
            "0",
            "0,1",
            "0 1",
            "-2",
            "NOW",
            "Now",
            "../0000000000000000_0000000000000000",
            "0000000000000000_000000000000000",
            "0000000000000000_0000000000000000\n",
            "+000000000000000_0000000000000000",
            "00000000000000000_000000000000000",
            "0000000000000000-0000000000000000",
        ] {
            assert_eq!(Place::parse(text), Err(Problem::InvalidOffset), "{text:?}");
        }
        assert!(parse_token("-1").is_err(), "a sentinel is not a token");
    }

    proptest! {
        /// Point 39.
        #[test]
        fn tokens_sort_as_their_offsets_do(a: u64, b: u64) {
            let (left, right) = (Token(Offset(a)).to_string(), Token(Offset(b)).to_string());
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9_]{30,36}") {
            if let Ok(Place::At(Offset(places))) = Place::parse(&text)
                && places != u64::MAX
            {
                prop_assert_eq!(Token(Offset(places)).to_string(), text);
            }
        }
    }
}
