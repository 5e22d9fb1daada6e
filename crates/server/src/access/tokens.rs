//! Bearer tokens from a file: their SHA-256, never themselves.
//!
//! ```toml
//! [[token]]
//! name = "ingest"
//! sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
//! scopes = ["append+create:events/**", "read"]
//! expires = 2027-01-01T00:00:00Z   # optional
//! ```
//!
//! A token is long and random, so nothing is gained by a slow hash: who has the file cannot guess
//! it, and each request would pay.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Caller;
use super::scope::Scope;

/// The tokens of a file.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    by_hash: HashMap<[u8; 32], Token>,
}

#[derive(Debug)]
struct Token {
    caller: Arc<Caller>,
    expires: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    sha256: String,
    scopes: Vec<String>,
    expires: Option<toml::value::Datetime>,
}

/// Why a token speaks for nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is none of the file's.
    Unknown,
    /// The one of this name was valid once.
    Expired(String),
}

impl Tokens {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong, with the name of the token.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut by_hash = HashMap::new();
        for entry in file.token {
            let wrong = |what: &str| format!("token {:?}: {what}", entry.name);
            let hash = from_hex(&entry.sha256)
                .ok_or_else(|| wrong("sha256 has to be 64 hexadecimal digits"))?;
            let scopes: Result<Vec<Scope>, String> = entry
                .scopes
                .iter()
                .map(|text| {
                    Scope::parse(text).ok_or_else(|| wrong(&format!("{text:?} is no scope")))
                })
                .collect();
            let expires = match entry.expires {
                None => None,
                Some(time) => {
                    let moment = time.to_string().parse::<jiff::Timestamp>();
                    let moment = moment.map_err(|_| wrong("expires needs a zone, as in ..Z"))?;
                    Some(Duration::try_from(moment.as_duration()).unwrap_or_default())
                }
            };
            let caller = Arc::new(Caller { name: entry.name.clone(), scopes: scopes? });
            if by_hash.insert(hash, Token { caller, expires }).is_some() {
                return Err(wrong("another token has the same sha256"));
            }
        }
        Ok(Self { by_hash })
    }

    /// Finds out whose token it is, at a moment of the wall clock.
    ///
    /// # Errors
    /// Why it is nobody's.
    pub fn find(&self, token: &str, now: Duration) -> Result<Arc<Caller>, Missing> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // The map is keyed at random and compares hashes, which a guess does not steer; the one
        // that is found is compared again in constant time.
        let found = self.by_hash.get_key_value(&hash);
        let (_, token) =
            found.filter(|(stored, _)| bool::from(stored.ct_eq(&hash))).ok_or(Missing::Unknown)?;
        if token.expires.is_some_and(|expires| expires <= now) {
            return Err(Missing::Expired(token.caller.name.clone()));
        }
        Ok(Arc::clone(&token.caller))
    }
}

/// Gives what stands in a file for a token.
pub fn token_hash(token: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in Sha256::digest(token.as_bytes()) {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::scope::Action;
    use super::*;

    fn file(rest: &str) -> String {
        let hash = token_hash("secret");
        format!("[[token]]\nname = \"a\"\nsha256 = \"{hash}\"\nscopes = [\"read:x\"]\n{rest}")
    }

    #[test]
    fn a_token_is_found_by_its_hash_until_it_expires() {
        let tokens = Tokens::parse(&file("expires = 2030-01-01T00:00:00Z")).unwrap();
        let at = |seconds| tokens.find("secret", Duration::from_secs(seconds));
        let caller = at(1_893_455_999).unwrap();
        assert_eq!(caller.name, "a");
        assert!(caller.may(Action::Read, "x") && !caller.may(Action::Read, "y"));
        assert_eq!(at(1_893_456_000), Err(Missing::Expired("a".to_owned())));
        assert_eq!(tokens.find("Secret", Duration::ZERO), Err(Missing::Unknown));
        assert_eq!(tokens.find(&token_hash("secret"), Duration::ZERO), Err(Missing::Unknown));
    }

    #[test]
    fn a_file_that_is_not_right_is_refused_with_the_tokens_name() {
        for (text, what) in [
            (file("extra = 1"), "unknown field"),
            (file("").replace("read:x", "write:x"), "no scope"),
            (file("") + &file(""), "same sha256"),
            (file("").replace("sha256 = \"", "sha256 = \"zz"), "64 hexadecimal"),
            (file("expires = 2030-01-01"), "zone"),
        ] {
            assert!(Tokens::parse(&text).unwrap_err().contains(what), "{text}");
        }
    }
}
