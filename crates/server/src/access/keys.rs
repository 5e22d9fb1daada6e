//! Keys that JWTs are checked against: a JSON Web Key Set (RFC 7517), or a secret.
//!
//! A key has one algorithm, whatever a token says. One that says that it is for something else, or
//! that is too weak, is refused with its whole file: nobody would miss it before it is too late.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;

/// Bytes of a secret, at least (RFC 7518, section 3.2).
const LEAST_SECRET: usize = 32;
/// Bytes of a public key for Ed25519.
const ED25519_BYTES: usize = 32;

/// How a signature is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// Ed25519; as `EdDSA`, or by its own name (RFC 9864).
    Ed25519,
}

impl Algorithm {
    /// Whether a header or key that names this algorithm means it.
    pub fn is_named(self, name: &str) -> bool {
        match self {
            Self::Hs256 => name == "HS256",
            Self::Ed25519 => matches!(name, "EdDSA" | "Ed25519"),
        }
    }
}

/// A key.
#[derive(Clone)]
pub(super) struct Key {
    /// What a token may call it by.
    pub id: Option<String>,
    /// The one algorithm that it is for.
    pub algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, algorithm, key: _ } = self;
        f.debug_struct("Key").field("id", id).field("algorithm", algorithm).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

/// What is looked at of a key; the rest means nothing here.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    x: Option<String>,
    k: Option<String>,
}

/// Reads a JSON Web Key Set.
///
/// # Errors
/// When it cannot be read, is empty, or has a key that is of no use here.
pub(super) fn of_set(text: &str) -> Result<Vec<Key>, String> {
    let set: Set = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if set.keys.is_empty() {
        return Err("there is no key in it".to_owned());
    }
    let key = |jwk: &Jwk| {
        let shown = jwk.kid.as_deref().unwrap_or("without kid");
        of_jwk(jwk).map_err(|why| format!("key {shown}: {why}"))
    };
    set.keys.iter().map(key).collect()
}

/// Takes a secret for HS256.
///
/// # Errors
/// When it is too short to be one.
pub(super) fn of_secret(id: Option<String>, secret: &[u8]) -> Result<Key, String> {
    if secret.len() < LEAST_SECRET {
        let len = secret.len();
        return Err(format!("a secret for HS256 has {LEAST_SECRET} bytes at least, not {len}"));
    }
    Ok(Key { id, algorithm: Algorithm::Hs256, key: DecodingKey::from_secret(secret) })
}

fn of_jwk(jwk: &Jwk) -> Result<Key, String> {
    let decoded = |name: &str, text: &Option<String>| {
        let text = text.as_ref().ok_or_else(|| format!("{name} is missing"))?;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text);
        bytes.map_err(|_| format!("{name} is not base64url without padding"))
    };
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("oct", _) => of_secret(jwk.kid.clone(), &decoded("k", &jwk.k)?)?,
        ("OKP", Some("Ed25519")) => {
            let public = decoded("x", &jwk.x)?;
            if public.len() != ED25519_BYTES {
                return Err(format!("x has {ED25519_BYTES} bytes, not {}", public.len()));
            }
            let (id, key) = (jwk.kid.clone(), DecodingKey::from_ed_der(&public));
            Key { id, algorithm: Algorithm::Ed25519, key }
        }
        _ => return Err("only Ed25519 and oct keys are of use".to_owned()),
    };
    if let Some(alg) = jwk.alg.as_deref().filter(|alg| !key.algorithm.is_named(alg)) {
        return Err(format!("alg is {alg:?}: only HS256 for oct, EdDSA or Ed25519 for OKP"));
    }
    if let Some(purpose) = jwk.purpose.as_deref().filter(|purpose| *purpose != "sig") {
        return Err(format!("use is {purpose:?}, not sig"));
    }
    if jwk.key_ops.as_ref().is_some_and(|ops| !ops.iter().any(|op| op == "verify")) {
        return Err("key_ops has no verify".to_owned());
    }
    Ok(key)
}

impl Key {
    /// Whether this key has signed the message.
    pub fn has_signed(&self, message: &str, signature: &str) -> bool {
        let algorithm = match self.algorithm {
            Algorithm::Hs256 => jsonwebtoken::Algorithm::HS256,
            Algorithm::Ed25519 => jsonwebtoken::Algorithm::EdDSA,
        };
        // What cannot even be decoded is no signature.
        jsonwebtoken::crypto::verify(signature, message.as_bytes(), &self.key, algorithm)
            .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";

    fn read(key: Value) -> Result<Vec<Key>, String> {
        of_set(&json!({ "keys": vec![key] }).to_string())
    }

    fn with(mut key: Value, name: &str, value: Value) -> Value {
        key[name] = value;
        key
    }

    #[test]
    fn keys_of_both_kinds_are_read_also_under_the_names_that_newer_sets_use() {
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": PUBLIC });
        for alg in [None, Some("EdDSA"), Some("Ed25519")] {
            let key = alg.map_or_else(|| ed.clone(), |alg| with(ed.clone(), "alg", json!(alg)));
            assert_eq!(read(key).unwrap()[0].algorithm, Algorithm::Ed25519, "{alg:?}");
        }
        let oct = json!({ "kty": "oct", "k": SECRET, "alg": "HS256", "use": "sig",
            "key_ops": ["sign", "verify"], "x5t": "unknown" });
        assert_eq!(read(oct).unwrap()[0].algorithm, Algorithm::Hs256);
        let both = json!({ "keys": [ed, { "kty": "oct", "k": SECRET }] });
        assert_eq!(of_set(&both.to_string()).unwrap().len(), 2);
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused_wherever_it_comes_from() {
        for k in ["", "eA", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZQ"] {
            let refused = read(json!({ "kty": "oct", "k": k })).unwrap_err();
            assert!(refused.contains("32 bytes at least"), "{k:?}: {refused}");
        }
        assert!(of_secret(None, b"").is_err() && of_secret(None, &[7; 31]).is_err());
        assert!(of_secret(None, &[7; 32]).is_ok());
    }

    #[test]
    fn a_key_that_says_that_it_is_for_something_else_is_refused_by_its_name() {
        let oct = json!({ "kty": "oct", "k": SECRET, "kid": "mine" });
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": PUBLIC });
        for (key, words) in [
            (with(oct.clone(), "alg", json!("HS512")), "key mine: alg is \"HS512\""),
            (with(oct.clone(), "alg", json!("EdDSA")), "alg"),
            (with(ed.clone(), "alg", json!("HS256")), "key without kid: alg"),
            (with(oct.clone(), "use", json!("enc")), "use is \"enc\""),
            (with(oct.clone(), "key_ops", json!(["encrypt"])), "key_ops"),
            (with(oct.clone(), "key_ops", json!([])), "key_ops"),
            (with(oct, "k", json!("a+/=")), "base64url"),
            (with(ed.clone(), "x", json!("AAAA")), "32 bytes, not 3"),
            (with(ed, "crv", json!("X25519")), "of use"),
            (json!({ "kty": "oct" }), "k is missing"),
            (json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" }), "of use"),
        ] {
            let refused = read(key.clone()).unwrap_err();
            assert!(refused.contains(words), "{key}: {refused}");
        }
        assert!(of_set("{\"keys\":[]}").is_err() && of_set("{}").is_err());
    }
}
