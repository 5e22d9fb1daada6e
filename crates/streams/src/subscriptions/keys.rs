//! Keys: webhooks are signed with Ed25519, tokens with HMAC-SHA-256. All of them are kept in the
//! log, so that they outlive restarts.
//!
//! A new key is published before it signs, as long as receivers may keep what is published, and an
//! old one until nothing that it has signed can be taken for new any more. Where a key is known to
//! others neither is waited for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer as _, SigningKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::{Outcome, Problem};
use crate::etag::StoreTag;

/// From when it is published until a key signs, seconds: twice as long as receivers may keep what
/// is published.
pub(super) const PUBLISHED_BEFORE_S: u64 = 600;
/// How long a key is published when another one signs, seconds: longer than a delivery and the time
/// in which a receiver takes it for new.
const PUBLISHED_AFTER_S: u64 = 3600;

/// Randomness that must be secret.
pub trait Entropy: std::fmt::Debug + Send + Sync {
    /// Fills a buffer with bytes that nobody can guess.
    fn fill(&self, bytes: &mut [u8]);
}

/// Keys of one making.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyRecord {
    /// Ed25519 seed, base64url.
    signing: String,
    /// HMAC key, base64url.
    tokens: String,
    /// What tells this store from others, for entity tags.
    store: u64,
    /// When it begins to sign, seconds since 1970.
    from: u64,
    /// Whether no key from before means anything any more.
    withdraws: bool,
}

/// Why there is to be another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// It is time for another one.
    Planned,
    /// Somebody else has the one in use, perhaps.
    Compromised,
}

/// A key that signs from a moment on.
#[derive(Clone)]
struct Signing {
    key: SigningKey,
    from: u64,
}

/// A store's keys.
#[derive(Clone)]
pub struct Keys {
    /// Oldest first, those that are withdrawn left out.
    signing: Vec<Signing>,
    tokens: Vec<u8>,
    store: StoreTag,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("newest", &self.newest_kid()).finish_non_exhaustive()
    }
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    /// The subscription.
    pub sub: String,
    /// Which one of that name.
    pub inc: u64,
    /// The wake's generation.
    pub generation: u64,
    /// When it means nothing any more, seconds since 1970.
    pub exp: u64,
}

/// Header of every token: `{"alg":"HS256","typ":"JWT"}` (RFC 7515).
const TOKEN_HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

impl KeyRecord {
    /// Makes new keys.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        let signing = URL_SAFE_NO_PAD.encode(secret);
        entropy.fill(&mut secret);
        let tokens = URL_SAFE_NO_PAD.encode(secret);
        let mut tag = [0; 8];
        entropy.fill(&mut tag);
        Self { signing, tokens, store: u64::from_le_bytes(tag), from: 0, withdraws: false }
    }

    /// Makes another key beside what is there, or in place of it.
    pub fn rotate(keys: &Keys, why: Rotation, now_s: u64, entropy: &dyn Entropy) -> Self {
        let new = Self { store: keys.store.0, ..Self::generate(entropy) };
        match why {
            Rotation::Planned => {
                let tokens = URL_SAFE_NO_PAD.encode(&keys.tokens);
                Self { tokens, from: now_s + PUBLISHED_BEFORE_S, ..new }
            }
            Rotation::Compromised => Self { from: now_s, withdraws: true, ..new },
        }
    }
}

impl Keys {
    /// Puts together what is kept.
    ///
    /// # Errors
    /// [`Problem::Damaged`].
    pub(crate) fn new(records: &[KeyRecord]) -> Outcome<Self> {
        let none = Self { signing: Vec::new(), tokens: Vec::new(), store: StoreTag(0) };
        let keys = records.iter().try_fold(none, |keys, record| keys.with(record))?;
        if keys.signing.is_empty() { Err(damaged()) } else { Ok(keys) }
    }

    /// Adds a key to these, or puts it in their place.
    ///
    /// # Errors
    /// [`Problem::Damaged`].
    pub(crate) fn with(&self, record: &KeyRecord) -> Outcome<Self> {
        let seed = URL_SAFE_NO_PAD.decode(&record.signing).map_err(|_| damaged())?;
        let seed: [u8; 32] = seed.try_into().map_err(|_| damaged())?;
        let mut signing = if record.withdraws { Vec::new() } else { self.signing.clone() };
        signing.push(Signing { key: SigningKey::from_bytes(&seed), from: record.from });
        let tokens = URL_SAFE_NO_PAD.decode(&record.tokens).map_err(|_| damaged())?;
        Ok(Self { signing, tokens, store: StoreTag(record.store) })
    }

    /// What tells this store from others.
    pub fn store_tag(&self) -> StoreTag {
        self.store
    }

    /// Name of the key that signs at a moment.
    pub fn active_kid(&self, now_s: u64) -> String {
        kid(self.active(now_s))
    }

    /// Name of the key that was made last.
    pub fn newest_kid(&self) -> String {
        kid(&self.newest().key)
    }

    /// When the key that was made last begins to sign, seconds since 1970.
    pub fn newest_from(&self) -> u64 {
        self.newest().from
    }

    /// Gives the public keys that count at a moment as a JWK set (RFC 7517, RFC 8037).
    pub fn jwks(&self, now_s: u64) -> Value {
        let key = |key: &SigningKey| {
            json!({
                "kty": "OKP",
                "crv": "Ed25519",
                "kid": kid(key),
                "use": "sig",
                "alg": "EdDSA",
                "x": public(key),
            })
        };
        let next_from = self.signing.iter().skip(1).map(|next| Some(next.from)).chain([None]);
        let published = self.signing.iter().zip(next_from).filter(|(_, next_from)| {
            next_from.is_none_or(|from| now_s < from.saturating_add(PUBLISHED_AFTER_S))
        });
        json!({ "keys": published.map(|(signing, _)| key(&signing.key)).collect::<Vec<_>>() })
    }

    /// Gives the `Webhook-Signature` of a body.
    pub fn signature(&self, unix_seconds: u64, body: &[u8]) -> String {
        let mut message = format!("{unix_seconds}.").into_bytes();
        message.extend_from_slice(body);
        let signature = URL_SAFE_NO_PAD.encode(self.active(unix_seconds).sign(&message).to_bytes());
        format!("t={unix_seconds},kid={},ed25519={signature}", self.active_kid(unix_seconds))
    }

    /// Makes a token (RFC 7519, HS256).
    pub(crate) fn token(&self, claims: &Claims) -> String {
        let claims = serde_json::to_vec(claims).expect("text and numbers can be written as JSON");
        let signed = format!("{TOKEN_HEADER}.{}", URL_SAFE_NO_PAD.encode(claims));
        let tag = self.mac(&signed).finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    /// Reads a token that this store has made; none where it was not, or has expired.
    pub(crate) fn claims(&self, token: &str, unix_seconds: u64) -> Option<Claims> {
        let (signed, tag) = token.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        self.mac(signed).verify_slice(&tag).ok()?;
        let claims = signed.strip_prefix(TOKEN_HEADER)?.strip_prefix('.')?;
        let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
        let claims: Claims = serde_json::from_slice(&claims).ok()?;
        (claims.exp > unix_seconds).then_some(claims)
    }

    fn mac(&self, signed: &str) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.tokens);
        mac.expect("HMAC takes keys of any length").chain_update(signed)
    }

    fn active(&self, now_s: u64) -> &SigningKey {
        let signs = self.signing.iter().rev().find(|signing| signing.from <= now_s);
        // A clock that was set back leaves the oldest.
        &signs.unwrap_or_else(|| self.signing.first().expect("there is a key")).key
    }

    fn newest(&self) -> &Signing {
        self.signing.last().expect("there are no keys without a record")
    }
}

fn damaged() -> Problem {
    Problem::Damaged("the keys of this store cannot be read".to_owned())
}

/// Name of a key: its thumbprint (RFC 7638).
fn kid(key: &SigningKey) -> String {
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, public(key));
    format!("ds_{}", URL_SAFE_NO_PAD.encode(Sha256::digest(members)))
}

fn public(key: &SigningKey) -> String {
    URL_SAFE_NO_PAD.encode(key.verifying_key().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};

    #[derive(Debug)]
    struct Fixed(u8);

    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    fn keys() -> Keys {
        Keys::new(&[KeyRecord::generate(&Fixed(7))]).unwrap()
    }

    /// Point 50: RFC 8037, appendix A.
    #[test]
    fn keys_are_named_by_their_thumbprint() {
        let seed = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A".to_owned();
        let tokens = String::new();
        let record = KeyRecord { signing: seed, tokens, store: 0, from: 0, withdraws: false };
        let keys = Keys::new(&[record]).unwrap();
        assert_eq!(keys.active_kid(0), "ds_kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let jwk = &keys.jwks(0)["keys"][0];
        assert_eq!(jwk["x"], "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(
            (&jwk["kty"], &jwk["crv"], &jwk["alg"]),
            (&json!("OKP"), &json!("Ed25519"), &json!("EdDSA"))
        );
    }

    /// Point 50.
    #[test]
    fn a_signature_is_over_time_and_body_and_verifies_with_the_published_key() {
        let keys = keys();
        let header = keys.signature(1_700_000_000, b"{\"a\":1}");
        let rest = header.strip_prefix("t=1700000000,kid=").unwrap();
        let (kid, signature) = rest.split_once(",ed25519=").unwrap();
        assert_eq!(kid, keys.active_kid(0));
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let signature = Signature::from_slice(&signature).unwrap();
        let public =
            URL_SAFE_NO_PAD.decode(keys.jwks(0)["keys"][0]["x"].as_str().unwrap()).unwrap();
        let public = VerifyingKey::from_bytes(&public.try_into().unwrap()).unwrap();
        assert!(public.verify(b"1700000000.{\"a\":1}", &signature).is_ok());
        assert!(public.verify(b"1700000001.{\"a\":1}", &signature).is_err());
    }

    fn kids(keys: &Keys, now_s: u64) -> Vec<String> {
        let jwks = keys.jwks(now_s);
        let kid = |key: &Value| key["kid"].as_str().unwrap().to_owned();
        jwks["keys"].as_array().unwrap().iter().map(kid).collect()
    }

    /// Point 50.
    #[test]
    fn a_new_key_is_published_before_it_signs_and_an_old_one_while_its_signatures_can_be_new() {
        let first = KeyRecord::generate(&Fixed(7));
        let old = Keys::new(std::slice::from_ref(&first)).unwrap();
        let second = KeyRecord::rotate(&old, Rotation::Planned, 1000, &Fixed(8));
        let new = Keys::new(&[first, second]).unwrap();
        let (a, b) = (old.newest_kid(), new.newest_kid());
        assert_ne!(a, b);
        for (now_s, active, published) in [
            (1000, &a, vec![a.clone(), b.clone()]),
            (1599, &a, vec![a.clone(), b.clone()]),
            (1600, &b, vec![a.clone(), b.clone()]),
            (1600 + 3599, &b, vec![a.clone(), b.clone()]),
            (1600 + 3600, &b, vec![b.clone()]),
        ] {
            assert_eq!((&new.active_kid(now_s), kids(&new, now_s)), (active, published), "{now_s}");
            assert!(new.signature(now_s, b"x").contains(active.as_str()));
        }
        let claims = Claims { sub: "s".to_owned(), inc: 1, generation: 2, exp: 10 };
        assert_eq!(new.claims(&old.token(&claims), 9), Some(claims), "tokens stay good");
        assert_eq!(new.store_tag(), old.store_tag());
    }

    /// Point 50.
    #[test]
    fn a_key_that_others_know_is_withdrawn_at_once_and_its_tokens_with_it() {
        let first = KeyRecord::generate(&Fixed(7));
        let old = Keys::new(std::slice::from_ref(&first)).unwrap();
        let second = KeyRecord::rotate(&old, Rotation::Compromised, 1000, &Fixed(8));
        let new = Keys::new(&[first, second]).unwrap();
        assert_eq!(kids(&new, 1000), [new.newest_kid()]);
        assert_eq!(new.active_kid(1000), new.newest_kid());
        assert_eq!(new.active_kid(0), new.newest_kid(), "whatever the clock says");
        let claims = Claims { sub: "s".to_owned(), inc: 1, generation: 2, exp: 10_000 };
        assert_eq!(new.claims(&old.token(&claims), 1000), None);
        assert_eq!(new.store_tag(), old.store_tag());
    }

    /// Point 52.
    #[test]
    fn a_token_that_was_changed_or_has_expired_says_nothing() {
        let keys = keys();
        let claims = Claims { sub: "s".to_owned(), inc: 1, generation: 2, exp: 100 };
        let token = keys.token(&claims);
        assert!(token.starts_with("eyJ"));
        assert_eq!(keys.claims(&token, 99), Some(claims));
        assert_eq!(keys.claims(&token, 100), None);
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            // The last character of the tag has bits that mean nothing, and must be zero.
            assert_eq!(keys.claims(&changed, 0), None, "{at}");
        }
        for token in ["", "..", "a.b.c", &token[1..], &token[..token.len() - 1]] {
            assert_eq!(keys.claims(token, 0), None, "{token}");
        }
        let other = Keys::new(&[KeyRecord::generate(&Fixed(8))]).unwrap();
        assert_eq!(
            other.claims(
                &keys.token(&Claims { sub: "s".to_owned(), inc: 1, generation: 2, exp: 100 }),
                0
            ),
            None
        );
    }

    #[test]
    fn keys_that_cannot_be_read_are_damage_and_secrets_are_not_printed() {
        assert!(matches!(Keys::new(&[]), Err(Problem::Damaged(_))));
        let record = KeyRecord { signing: "short".to_owned(), ..KeyRecord::generate(&Fixed(7)) };
        assert!(matches!(Keys::new(&[record]), Err(Problem::Damaged(_))));
        let printed = format!("{:?}", keys());
        assert!(!printed.contains(&URL_SAFE_NO_PAD.encode([7; 32])), "{printed}");
    }
}
