//! JSON Web Tokens (RFC 7519), signed by one of the keys.
//!
//! A key has one algorithm, so a token cannot choose how it is checked. `exp` is required; `nbf`
//! and `aud` are checked where they are given, `iss` and `aud` where they are asked for. Scopes
//! stand in the claims `scope` (RFC 8693) or `scopes`, as text that is separated by spaces, or as a
//! list. What a token wants to be understood and is not (`crit`) makes it invalid, and so does a
//! claim of the wrong type: one that is not looked at would let in more than was meant.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Caller;
use super::keys::Key;
use super::scope::Scope;

/// Seconds that clocks may be apart.
const LEEWAY: f64 = 30.0;
/// Characters of a token's header that stand in the log, at most.
const LONGEST_SHOWN: usize = 64;

/// What tokens must name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// Issuer.
    pub issuer: Option<String>,
    /// Audience.
    pub audience: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    #[serde(default, deserialize_with = "given")]
    crit: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    b64: Option<Value>,
}

/// What is looked at of the claims. Numbers are dates: seconds since 1970, perhaps with a fraction.
#[derive(Deserialize)]
struct Claims {
    exp: f64,
    #[serde(default, deserialize_with = "given_date")]
    nbf: Option<f64>,
    iss: Option<String>,
    sub: Option<String>,
    #[serde(default)]
    aud: Texts,
    #[serde(default)]
    scope: Texts,
    #[serde(default)]
    scopes: Texts,
}

const CLAIMS: &str = "its claims are not those of a token: exp, which is required, and nbf are \
                      numbers, iss and sub are text, aud, scope and scopes are text or lists of it";

/// Text, or a list of it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Texts {
    fn iter(&self) -> impl Iterator<Item = &str> {
        let texts = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        };
        texts.iter().map(String::as_str)
    }
}

/// Takes a field that is there, also where it is null.
fn given<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

fn given_date<'de, D: Deserializer<'de>>(field: D) -> Result<Option<f64>, D::Error> {
    f64::deserialize(field).map(Some)
}

/// Finds out who a token speaks for, at a moment of the wall clock.
///
/// # Errors
/// Why it is not valid; nothing of the token but parts of its header is in it.
pub(super) fn find<'a>(
    token: &str,
    keys: impl Iterator<Item = &'a Key>,
    expected: &Expected,
    now: Duration,
) -> Result<Caller, String> {
    let (message, signature) = token.rsplit_once('.').ok_or("it is no JWT")?;
    let (header, claims) = message.split_once('.').ok_or("it is no JWT")?;
    let header: Header = decoded(header).ok_or("its header cannot be read")?;
    if header.crit.is_some() || header.b64.is_some_and(|value| value != Value::Bool(true)) {
        return Err("its header asks for an extension (crit, b64), and there is none".to_owned());
    }
    let is_named = |key: &&Key| {
        let is_it = key.id.is_none() || header.kid.is_none() || key.id == header.kid;
        is_it && key.algorithm.is_named(&header.alg)
    };
    let mut named = keys.filter(is_named).peekable();
    if named.peek().is_none() {
        let kid = header.kid.as_deref().map(shown);
        return Err(format!("there is no key for alg {:?}, kid {kid:?}", shown(&header.alg)));
    }
    if !named.any(|key| key.has_signed(message, signature)) {
        return Err("no key has signed it".to_owned());
    }
    let claims: Claims = decoded(claims).ok_or(CLAIMS)?;
    claims.check(expected, now)?;
    // Scopes of other services in the same token mean nothing here.
    let scopes = claims.scope.iter().chain(claims.scopes.iter());
    let scopes = scopes.flat_map(str::split_whitespace).filter_map(Scope::parse).collect();
    Ok(Caller { name: name_of(&claims, token), scopes })
}

/// Names who a token speaks for: nobody of another issuer, nor of the file of tokens; without a
/// subject, whoever has that token.
fn name_of(claims: &Claims, token: &str) -> String {
    let issuer = claims.iss.as_deref().unwrap_or_default();
    if let Some(subject) = &claims.sub {
        return format!("jwt {issuer:?} {subject:?}");
    }
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    format!("jwt {issuer:?} {:016x}", hasher.finish())
}

impl Claims {
    fn check(&self, expected: &Expected, now: Duration) -> Result<(), String> {
        let now = now.as_secs_f64();
        if now >= self.exp + LEEWAY {
            return Err("it has expired".to_owned());
        }
        if self.nbf.is_some_and(|from| now < from - LEEWAY) {
            return Err("it is not valid yet (nbf)".to_owned());
        }
        if expected.issuer.is_some() && self.iss != expected.issuer {
            return Err("it names another issuer, or none (iss)".to_owned());
        }
        match &expected.audience {
            Some(audience) if !self.aud.iter().any(|named| named == audience) => {
                Err("it is for another audience, or none (aud)".to_owned())
            }
            // It is for others (RFC 7519, section 4.1.3).
            None if self.aud.iter().next().is_some() => {
                Err("it is for an audience (aud), and auth-audience is not set".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn decoded<T: for<'de> Deserialize<'de>>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn shown(text: &str) -> &str {
    text.char_indices().nth(LONGEST_SHOWN).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::keys;
    use super::super::scope::Action;
    use super::*;
    use jsonwebtoken::{EncodingKey, crypto};
    use proptest::prelude::*;
    use serde_json::json;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const NOW: Duration = Duration::from_secs(1_700_000_000);
    const LATER: u64 = 1_700_001_000;

    fn keys() -> Vec<Key> {
        vec![keys::of_secret(Some("k1".to_owned()), SECRET).unwrap()]
    }

    pub(in super::super) fn signed(header: &Value, claims: &Value, secret: &[u8]) -> String {
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let key = EncodingKey::from_secret(secret);
        let signature =
            crypto::sign(message.as_bytes(), &key, jsonwebtoken::Algorithm::HS256).unwrap();
        format!("{message}.{signature}")
    }

    fn found(header: &Value, claims: &Value, expected: &Expected) -> Result<Caller, String> {
        find(&signed(header, claims, SECRET), keys().iter(), expected, NOW)
    }

    fn of_claims(claims: &Value) -> Result<Caller, String> {
        found(&json!({ "alg": "HS256" }), claims, &Expected::default())
    }

    fn of_header(header: &Value) -> Result<Caller, String> {
        found(header, &json!({ "exp": LATER }), &Expected::default())
    }

    #[test]
    fn a_valid_token_brings_its_subject_and_the_scopes_that_mean_something_here() {
        for (scope, scopes) in [
            (json!("openid read:a/*"), json!(["append"])),
            (json!(["openid", "read:a/*"]), json!("append")),
        ] {
            let claims = json!({ "sub": "me", "exp": LATER, "scope": scope, "scopes": scopes });
            let caller = of_claims(&claims).unwrap();
            assert_eq!(caller.name, "jwt \"\" \"me\"");
            assert!(caller.may(Action::Read, "a/b") && caller.may(Action::Append, "x"), "{claims}");
            assert!(!caller.may(Action::Read, "x"));
        }
        let name = |claims| of_claims(&claims).unwrap().name;
        let (one, other) = (json!({ "exp": LATER }), json!({ "exp": LATER, "jti": "2" }));
        assert_eq!(name(one.clone()), name(one.clone()));
        assert_ne!(name(one), name(other), "nobody counts for somebody else");
    }

    #[test]
    fn times_count_to_half_a_minute() {
        let now = NOW.as_secs();
        for (claims, is_valid) in [
            (json!({ "exp": now - 29 }), true),
            (json!({ "exp": now - 30 }), false),
            (json!({ "exp": 1_699_999_999.5 }), true),
            (json!({ "exp": 1e300 }), true),
            (json!({ "exp": LATER, "nbf": now + 30 }), true),
            (json!({ "exp": LATER, "nbf": now + 31 }), false),
        ] {
            assert_eq!(of_claims(&claims).is_ok(), is_valid, "{claims}");
        }
    }

    #[test]
    fn claims_of_the_wrong_type_make_a_token_invalid_and_the_reason_names_them() {
        for (claims, word) in [
            (json!({ "sub": "me" }), "exp"),
            (json!({ "exp": LATER.to_string() }), "exp"),
            (json!({ "exp": null }), "exp"),
            (json!({ "exp": LATER, "nbf": "1" }), "nbf"),
            (json!({ "exp": LATER, "nbf": null }), "nbf"),
            (json!({ "exp": LATER, "sub": 5 }), "sub"),
            (json!({ "exp": LATER, "scope": 5 }), "scope"),
            (json!({ "exp": LATER, "aud": { "a": 1 } }), "aud"),
            (json!([]), "claims"),
        ] {
            let refused = of_claims(&claims).unwrap_err();
            assert!(refused.contains(word), "{claims}: {refused}");
        }
    }

    #[test]
    fn what_a_header_wants_understood_and_is_not_makes_a_token_invalid() {
        // RFC 7515, section 4.1.11; RFC 7797.
        for (name, value) in [
            ("crit", json!(["b64", "foo"])),
            ("crit", json!(["exp"])),
            ("crit", json!([])),
            ("crit", json!(null)),
            ("b64", json!(false)),
            ("b64", json!("false")),
        ] {
            let mut header = json!({ "alg": "HS256" });
            header[name] = value;
            assert!(of_header(&header).unwrap_err().contains("crit"), "{header}");
        }
        assert!(of_header(&json!({ "alg": "HS256", "b64": true, "typ": "JWT", "x": 1 })).is_ok());
    }

    #[test]
    fn tokens_that_are_unsigned_or_signed_otherwise_are_not_valid() {
        let claims = json!({ "exp": LATER });
        let other = b"another secret that is long enough";
        let forged = signed(&json!({ "alg": "HS256" }), &claims, other);
        let find = |token: &str| find(token, keys().iter(), &Expected::default(), NOW);
        assert_eq!(find(&forged).unwrap_err(), "no key has signed it");
        for alg in ["HS512", "hs256", "none", "EdDSA", ""] {
            let refused = of_header(&json!({ "alg": alg })).unwrap_err();
            assert!(refused.contains("no key for alg"), "{alg}: {refused}");
        }
        assert!(of_header(&json!({ "alg": "HS256", "kid": "k1" })).is_ok());
        assert!(of_header(&json!({ "alg": "HS256", "kid": "k2" })).unwrap_err().contains("k2"));
        assert!(of_header(&json!({ "alg": "HS256", "kid": 1 })).is_err());
        assert!(of_header(&json!({ "kid": "k1" })).is_err());
        let right = signed(&json!({ "alg": "HS256" }), &claims, SECRET);
        for token in ["garbage", "", ".", "..", "a.b.c", "eyJhbGciOiJub25lIn0.eyJleHAiOjF9."] {
            assert!(find(token).is_err(), "{token}");
        }
        for odd in [format!("{right}="), format!("{right}.x"), right.replacen('.', "..", 1)] {
            assert!(find(&odd).is_err(), "{odd}");
        }
        let long = of_header(&json!({ "alg": "x".repeat(5000) })).unwrap_err();
        assert!(long.len() < 200, "a token does not fill the log");
    }

    #[test]
    fn a_token_is_checked_by_an_ed25519_key_under_both_names_of_its_algorithm() {
        // RFC 8037, appendix A.
        let key = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }] });
        let public = keys::of_set(&key.to_string()).unwrap();
        let message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt\
                         9g7sVvpAr_MuM0KAg";
        assert!(public[0].has_signed(message, signature));
        assert!(!public[0].has_signed("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZQ", signature));
        let token = format!("{message}.{signature}");
        let refused = find(&token, public.iter(), &Expected::default(), NOW).unwrap_err();
        assert_eq!(refused, CLAIMS, "the signature is right, and it is no claims that it signs");
        for alg in ["EdDSA", "Ed25519"] {
            let forged = signed(&json!({ "alg": alg }), &json!({ "exp": LATER }), SECRET);
            let refused = find(&forged, public.iter(), &Expected::default(), NOW).unwrap_err();
            assert_eq!(refused, "no key has signed it", "{alg}");
        }
    }

    #[test]
    fn issuer_and_audience_are_required_where_they_are_expected() {
        let expected = Expected {
            issuer: Some("https://issuer".to_owned()),
            audience: Some("streams".to_owned()),
        };
        let header = json!({ "alg": "HS256" });
        let right = json!({ "exp": LATER, "iss": "https://issuer", "aud": "streams" });
        assert!(found(&header, &right, &expected).is_ok());
        let mut many = right.clone();
        many["aud"] = json!(["other", "streams"]);
        assert!(found(&header, &many, &expected).is_ok());
        for aud in [json!("streams"), json!(["streams"])] {
            let refused = of_claims(&json!({ "exp": LATER, "aud": aud })).unwrap_err();
            assert!(
                refused.contains("auth-audience"),
                "it is for somebody, and that may be another"
            );
        }
        assert!(of_claims(&json!({ "exp": LATER, "aud": [], "iss": "any" })).is_ok());
        for (claim, value) in [("iss", json!("other")), ("aud", json!(["other"]))] {
            let mut wrong = right.clone();
            wrong[claim] = value;
            let refused = found(&header, &wrong, &expected).unwrap_err();
            assert!(refused.contains(claim), "{refused}");
            wrong.as_object_mut().unwrap().remove(claim);
            assert!(found(&header, &wrong, &expected).is_err(), "{claim} missing");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_valid_token_and_none_is_a_panic(
            header in "\\PC{0,80}",
            claims in "\\PC{0,80}",
            text in "[\\PC.]{0,200}",
        ) {
            let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
            let made = format!("{}.{}.{}", part(&header), part(&claims), part("signature"));
            for token in [text.as_str(), &made] {
                prop_assert!(find(token, keys().iter(), &Expected::default(), NOW).is_err());
            }
        }
    }
}
