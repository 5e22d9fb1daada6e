//! JSON Web Tokens: HS256 and `EdDSA`, with keys from files.
//!
//! A key has one algorithm, so a token cannot choose how it is checked. `exp` is required; `nbf`,
//! `iss` and `aud` are checked where they are given or asked for. Scopes stand in the claim
//! `scope` (separated by spaces, RFC 8693) or `scopes` (an array).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use super::Caller;
use super::scope::Scope;

/// What tokens must name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// Issuer.
    pub issuer: Option<String>,
    /// Audience.
    pub audience: Option<String>,
}

/// Keys, and what is expected of tokens.
pub(crate) struct Verifier {
    keys: Vec<Key>,
    expected: Expected,
}

struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids: Vec<_> = self.keys.iter().map(|key| (&key.id, key.algorithm)).collect();
        f.debug_struct("Verifier").field("keys", &ids).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    scope: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

impl Verifier {
    /// Begins without a key.
    pub fn new(expected: Expected) -> Self {
        Self { keys: Vec::new(), expected }
    }

    /// Adds a shared secret.
    ///
    /// # Errors
    /// When it is too short to be one (RFC 7518, section 3.2).
    pub fn add_secret(&mut self, secret: &[u8]) -> Result<(), String> {
        if secret.len() < 32 {
            return Err(format!("a secret for HS256 has 32 bytes at least, not {}", secret.len()));
        }
        let key = DecodingKey::from_secret(secret);
        self.keys.push(Key { id: None, algorithm: Algorithm::HS256, key });
        Ok(())
    }

    /// Adds the keys of a JSON Web Key Set.
    ///
    /// # Errors
    /// When it cannot be read, or has a key of another kind.
    pub fn add_set(&mut self, text: &str) -> Result<(), String> {
        let set: JwkSet = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if set.keys.is_empty() {
            return Err("there is no key in it".to_owned());
        }
        for jwk in &set.keys {
            self.keys.push(key(jwk)?);
        }
        Ok(())
    }

    /// Finds out who a token speaks for; nothing when it is not valid.
    pub fn find(&self, token: &str) -> Option<Caller> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        let fits = |key: &&Key| {
            let is_named = key.id.is_none() || header.kid.is_none() || key.id == header.kid;
            key.algorithm == header.alg && is_named
        };
        let claims = self.keys.iter().filter(fits).find_map(|key| {
            let validation = self.validation(key.algorithm);
            jsonwebtoken::decode::<Claims>(token, &key.key, &validation).ok()
        })?;
        let claims = claims.claims;
        let texts = claims.scope.as_deref().unwrap_or_default().split_whitespace();
        // Scopes of other services in the same token mean nothing here.
        let scopes = texts.chain(claims.scopes.iter().map(String::as_str));
        let scopes = scopes.filter_map(Scope::parse).collect();
        Some(Caller { name: claims.sub.unwrap_or_else(|| "jwt".to_owned()), scopes })
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = 30;
        validation.validate_nbf = true;
        match &self.expected.audience {
            Some(audience) => validation.set_audience(&[audience]),
            None => validation.validate_aud = false,
        }
        let mut required = vec!["exp"];
        if let Some(issuer) = &self.expected.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        if self.expected.audience.is_some() {
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

fn key(jwk: &Jwk) -> Result<Key, String> {
    let id = jwk.common.key_id.clone();
    let shown = id.as_deref().unwrap_or("without kid");
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            Algorithm::EdDSA
        }
        AlgorithmParameters::OctetKey(_) => Algorithm::HS256,
        _ => return Err(format!("key {shown}: only Ed25519 and oct keys are of use")),
    };
    let key = DecodingKey::from_jwk(jwk).map_err(|error| format!("key {shown}: {error}"))?;
    Ok(Key { id, algorithm, key })
}

#[cfg(test)]
mod tests {
    use super::super::scope::Action;
    use super::*;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    /// Far in the future.
    const LATER: u64 = 4_102_444_800;

    fn verifier(expected: Expected) -> Verifier {
        let mut verifier = Verifier::new(expected);
        verifier.add_secret(SECRET).unwrap();
        verifier
    }

    fn token(claims: &Value, algorithm: Algorithm, secret: &[u8]) -> String {
        encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret)).unwrap()
    }

    fn is_valid(claims: &Value, expected: Expected) -> bool {
        verifier(expected).find(&token(claims, Algorithm::HS256, SECRET)).is_some()
    }

    #[test]
    fn a_valid_token_brings_its_subject_and_the_scopes_that_mean_something_here() {
        let claims =
            json!({ "sub": "me", "exp": LATER, "scope": "openid read:a/*", "scopes": ["append"] });
        let caller =
            verifier(Expected::default()).find(&token(&claims, Algorithm::HS256, SECRET)).unwrap();
        assert_eq!(caller.name, "me");
        assert!(caller.may(Action::Read, "a/b") && caller.may(Action::Append, "x"));
        assert!(!caller.may(Action::Read, "x"));
    }

    #[test]
    fn tokens_that_are_old_early_unsigned_or_signed_otherwise_are_not_valid() {
        let none = Expected::default;
        assert!(!is_valid(&json!({ "exp": 1_000_000 }), none()));
        assert!(!is_valid(&json!({ "sub": "me" }), none()), "without exp");
        assert!(!is_valid(&json!({ "exp": LATER, "nbf": LATER }), none()));
        let verifier = verifier(none());
        let claims = json!({ "exp": LATER });
        let other = token(&claims, Algorithm::HS256, b"another secret that is long enough");
        assert!(verifier.find(&other).is_none());
        assert!(verifier.find(&token(&claims, Algorithm::HS512, SECRET)).is_none());
        let unsigned = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.";
        assert!(verifier.find(unsigned).is_none());
        assert!(verifier.find("garbage").is_none());
    }

    #[test]
    fn issuer_and_audience_are_required_where_they_are_expected() {
        let expected = || Expected {
            issuer: Some("https://issuer".to_owned()),
            audience: Some("streams".to_owned()),
        };
        let right = json!({ "exp": LATER, "iss": "https://issuer", "aud": "streams" });
        assert!(is_valid(&right, expected()));
        for (claim, value) in [("iss", json!("other")), ("aud", json!("other"))] {
            let mut wrong = right.clone();
            wrong[claim] = value;
            assert!(!is_valid(&wrong, expected()), "{claim}");
            wrong.as_object_mut().unwrap().remove(claim);
            assert!(!is_valid(&wrong, expected()), "{claim} missing");
        }
    }

    #[test]
    fn a_key_set_is_read_and_keys_of_other_kinds_are_refused() {
        let ed = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k1",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }] });
        let mut verifier = Verifier::new(Expected::default());
        verifier.add_set(&ed.to_string()).unwrap();
        assert_eq!(verifier.keys[0].algorithm, Algorithm::EdDSA);
        let token = token(&json!({ "exp": LATER }), Algorithm::HS256, SECRET);
        assert!(verifier.find(&token).is_none(), "a public key is no secret");
        for bad in [
            json!({ "keys": [] }),
            json!({}),
            json!({ "keys": [{ "kty": "RSA", "n": "AQAB", "e": "AQAB" }] }),
        ] {
            assert!(Verifier::new(Expected::default()).add_set(&bad.to_string()).is_err(), "{bad}");
        }
        assert!(Verifier::new(Expected::default()).add_secret(b"short").is_err());
    }
}
