//! Checks a body against RFC 8259 and writes its messages as they are stored, in one pass.

use super::stored::{ENDING, ENDING_WITHIN};

/// Levels of arrays and objects that a message may have.
pub const MOST_DEPTH: usize = 512;

/// Where a body is no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Bytes before the place.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Appends a body's messages to `out` as they are stored, and gives their number.
///
/// # Errors
/// The first [`Fault`]; what was appended to `out` until then means nothing.
pub fn flatten(body: &[u8], out: &mut Vec<u8>) -> Result<u64, Fault> {
    if let Err(error) = std::str::from_utf8(body) {
        return Err(Fault { at: error.valid_up_to(), what: "bytes that are not UTF-8" });
    }
    out.reserve(body.len() + ENDING.len());
    let mut scanner = Scanner { bytes: body, at: 0, written: 0, out, levels: Vec::new() };
    scanner.skip_whitespace();
    let count = if scanner.peek() == Some(b'[') {
        scanner.leave_out(1);
        scanner.elements()?
    } else {
        scanner.message()?;
        scanner.end_message(ENDING);
        1
    };
    scanner.skip_whitespace();
    if scanner.at < body.len() { Err(scanner.fault("something behind the end")) } else { Ok(count) }
}

/// An array or object that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Array,
    Object,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Everything before it is written or left out; from here to `at` stands what is to be written:
    /// as little copying as whitespace allows.
    written: usize,
    out: &'a mut Vec<u8>,
    levels: Vec<Level>,
}

impl Scanner<'_> {
    /// Writes the messages of an array that has just been opened.
    fn elements(&mut self) -> Result<u64, Fault> {
        self.skip_whitespace();
        if self.peek() == Some(b']') {
            self.leave_out(1);
            return Ok(0);
        }
        let mut count = 0;
        loop {
            self.message()?;
            count += 1;
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => {
                    self.end_message(ENDING_WITHIN);
                    self.leave_out(1);
                }
                Some(b']') => {
                    self.end_message(ENDING);
                    self.leave_out(1);
                    return Ok(count);
                }
                _ => return Err(self.fault("no comma or bracket behind an element")),
            }
        }
    }

    /// Writes one message, without what follows it.
    fn message(&mut self) -> Result<(), Fault> {
        loop {
            self.value_or_opening()?;
            // A value is complete, or an array or object that is not empty is open.
            if !self.close_levels()? {
                break;
            }
        }
        self.write();
        Ok(())
    }

    /// Writes what follows a message.
    fn end_message(&mut self, ending: &[u8]) {
        self.out.extend_from_slice(ending);
    }

    /// Writes a scalar, or everything down to the first scalar or empty array or object.
    fn value_or_opening(&mut self) -> Result<(), Fault> {
        loop {
            self.skip_whitespace();
            match self.peek() {
                Some(b'{') => {
                    self.open(Level::Object)?;
                    if self.peek() == Some(b'}') {
                        return Ok(());
                    }
                    self.key()?;
                }
                Some(b'[') => {
                    self.open(Level::Array)?;
                    if self.peek() == Some(b']') {
                        return Ok(());
                    }
                }
                Some(b'"') => return self.string(),
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b't') => return self.word(b"true"),
                Some(b'f') => return self.word(b"false"),
                Some(b'n') => return self.word(b"null"),
                _ => return Err(self.fault("no value")),
            }
        }
    }

    /// Goes on behind a value: closes what ends there. Gives whether another value follows.
    fn close_levels(&mut self) -> Result<bool, Fault> {
        loop {
            let Some(level) = self.levels.last().copied() else { return Ok(false) };
            self.skip_whitespace();
            let closing = if level == Level::Array { b']' } else { b'}' };
            match self.peek() {
                // Never behind a bracket: an array or object is left open only before a value.
                Some(b',') => {
                    self.at += 1;
                    if level == Level::Object {
                        self.skip_whitespace();
                        self.key()?;
                    }
                    return Ok(true);
                }
                Some(byte) if byte == closing => {
                    self.at += 1;
                    self.levels.pop();
                }
                _ => return Err(self.fault("no comma or bracket behind a value")),
            }
        }
    }

    fn open(&mut self, level: Level) -> Result<(), Fault> {
        if self.levels.len() == MOST_DEPTH {
            return Err(self.fault("more levels than are taken"));
        }
        self.levels.push(level);
        self.at += 1;
        self.skip_whitespace();
        Ok(())
    }

    /// Writes a key and its colon.
    fn key(&mut self) -> Result<(), Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("no key"));
        }
        self.string()?;
        self.skip_whitespace();
        if self.peek() != Some(b':') {
            return Err(self.fault("no colon behind a key"));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            // Most strings are short: a search of its own costs more than they do.
            let soon = self.bytes[self.at..]
                .iter()
                .take(SHORT)
                .position(|byte| ENDS_RUN[usize::from(*byte)]);
            let run = soon.or_else(|| self.long_run());
            let Some(run) = run else {
                self.at = self.bytes.len();
                return Err(self.fault("a string that does not end"));
            };
            self.at += run;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                _ => return Err(self.fault("a control character in a string")),
            }
        }
    }

    /// Finds what ends a run of plain characters, however far it is.
    fn long_run(&self) -> Option<usize> {
        let rest = &self.bytes[self.at..];
        let run = memchr::memchr2(b'"', b'\\', rest);
        let plain = &rest[..run.unwrap_or(rest.len())];
        // All of them, without a branch for each.
        let has_control = plain.iter().min().is_some_and(|least| *least < b' ');
        if has_control { plain.iter().position(|byte| *byte < b' ') } else { run }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        let rest = &self.bytes[self.at..];
        let len = match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if is_hex(rest.get(2..6)) => 6,
            _ => return Err(self.fault("an unknown escape")),
        };
        self.at += len;
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        let rest = &self.bytes[self.at..];
        let mut len = usize::from(rest[0] == b'-');
        let whole = count_digits(&rest[len..]);
        if whole == 0 || (whole > 1 && rest[len] == b'0') {
            return Err(self.fault("a number without digits, or with a leading zero"));
        }
        len += whole;
        if rest.get(len) == Some(&b'.') {
            let fraction = count_digits(&rest[len + 1..]);
            if fraction == 0 {
                return Err(self.fault("a number that ends with a point"));
            }
            len += 1 + fraction;
        }
        if matches!(rest.get(len), Some(b'e' | b'E')) {
            len += 1;
            len += usize::from(matches!(rest.get(len), Some(b'+' | b'-')));
            let exponent = count_digits(&rest[len..]);
            if exponent == 0 {
                return Err(self.fault("a number without an exponent behind its e"));
            }
            len += exponent;
        }
        self.at += len;
        Ok(())
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.fault("no value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Writes what was read and not written.
    fn write(&mut self) {
        self.out.extend_from_slice(&self.bytes[self.written..self.at]);
        self.written = self.at;
    }

    /// Passes over bytes that are not stored; what stands before them is.
    fn leave_out(&mut self, len: usize) {
        self.write();
        self.at += len;
        self.written = self.at;
    }

    fn skip_whitespace(&mut self) {
        if self.peek().is_some_and(|byte| byte > b' ') {
            return;
        }
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let blanks = self.bytes[self.at..].iter().take_while(|byte| is_blank(byte)).count();
        self.leave_out(blanks);
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }
}

/// Bytes of a string that are looked at one by one.
const SHORT: usize = 24;

/// What ends a run of plain characters in a string.
const ENDS_RUN: [bool; 256] = {
    let mut table = [false; 256];
    let mut control = 0;
    while control < b' ' as usize {
        table[control] = true;
        control += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

fn count_digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn is_hex(digits: Option<&[u8]>) -> bool {
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    fn stored(body: &str) -> Result<(u64, String), Fault> {
        let mut out = Vec::new();
        let count = flatten(body.as_bytes(), &mut out)?;
        Ok((count, String::from_utf8(out).unwrap()))
    }

    /// Point 40.
    #[test]
    fn exactly_one_level_of_an_array_is_taken_off() {
        for (body, count, expected) in [
            (r#"{"event":"created"}"#, 1, "{\"event\":\"created\"},\n"),
            (r#"[{"a":1},{"b":2}]"#, 2, "{\"a\":1}, \n{\"b\":2},\n"),
            ("[[1,2], [3,4]]", 2, "[1,2], \n[3,4],\n"),
            ("[[[1,2,3]]]", 1, "[[1,2,3]],\n"),
            ("[]", 0, ""),
            (" [ ] ", 0, ""),
            ("[[]]", 1, "[],\n"),
            ("[{}]", 1, "{},\n"),
            ("null", 1, "null,\n"),
            ("\"[1,2]\"", 1, "\"[1,2]\",\n"),
            ("[0,-1.50e+3,true]", 3, "0, \n-1.50e+3, \ntrue,\n"),
        ] {
            assert_eq!(stored(body), Ok((count, expected.to_owned())), "{body}");
        }
    }

    /// Point 40.
    #[test]
    fn a_message_is_stored_on_one_line_with_its_numbers_and_keys_as_they_were() {
        let body = "{\n  \"z\" : 1.0e5,\r\n\t\"a\": [ 1 , \"two  spaces\\n\" ],\n  \"z\": -0 }\n";
        let line = "{\"z\":1.0e5,\"a\":[1,\"two  spaces\\n\"],\"z\":-0},\n";
        assert_eq!(stored(body), Ok((1, line.to_owned())));
    }

    /// Point 40.
    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for (body, at) in [
            ("", 0),
            ("   ", 3),
            ("{", 1),
            ("[1,]", 3),
            ("[,1]", 1),
            ("[[,1]]", 2),
            ("{,}", 1),
            ("{\"a\":1,}", 7),
            ("{\"a\" 1}", 5),
            ("{\"a\":}", 5),
            ("{1:2}", 1),
            ("[1 2]", 3),
            ("[1]]", 3),
            ("[1}", 2),
            ("01", 0),
            ("1.", 0),
            (".5", 0),
            ("-", 0),
            ("1e", 0),
            ("+1", 0),
            ("nul", 0),
            ("nullx", 4),
            ("NaN", 0),
            ("'a'", 0),
            ("\"a", 2),
            ("\"\\x\"", 1),
            ("\"\\u12g4\"", 1),
            ("\"a\nb\"", 2),
            ("{\"a\":1} {\"b\":2}", 8),
            ("[1] // x", 4),
            ("\u{feff}1", 0),
        ] {
            assert_eq!(stored(body).map_err(|fault| fault.at), Err(at), "{body:?}");
        }
        let mut out = Vec::new();
        assert_eq!(flatten(b"\"a\xff\"", &mut out).unwrap_err().at, 2);
    }

    #[test]
    fn deep_messages_are_taken_to_a_limit_and_cost_no_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        // The outermost level is taken off.
        assert!(stored(&nested(MOST_DEPTH + 1)).is_ok());
        assert!(stored(&nested(MOST_DEPTH + 2)).is_err());
        assert!(stored(&"[".repeat(1 << 20)).is_err());
        assert!(stored(&"{\"a\":".repeat(1 << 18)).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,8}|[\\x00-\\x20\"\\\\]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("\\PC{0,4}", inner), 0..5)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Point 40: against another reader of JSON.
        #[test]
        fn what_is_stored_means_what_was_sent(value in value(), is_pretty: bool) {
            let body = if is_pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };
            let (count, stored) = stored(&body).unwrap();
            let messages = match value {
                Value::Array(messages) => messages,
                other => vec![other],
            };
            prop_assert_eq!(count, messages.len() as u64);
            let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
            let end = if lines.is_empty() { "" } else { ",\n" };
            prop_assert_eq!(stored, lines.join(", \n") + end);
        }

        /// Point 40: the same texts are taken as another reader takes.
        #[test]
        fn the_same_bodies_are_json_as_for_another_reader(
            body in r#"[\[\]{}:,"\\ \n0-9eE+.truefalsn\-u]{0,14}"#
        ) {
            let theirs = serde_json::from_str::<&RawValue>(&body);
            prop_assert_eq!(stored(&body).is_ok(), theirs.is_ok(), "{:?}", body);
        }

        #[test]
        fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut out = Vec::new();
            if flatten(&body, &mut out).is_ok() {
                prop_assert!(serde_json::from_slice::<&RawValue>(&body).is_ok());
            }
        }
    }
}
