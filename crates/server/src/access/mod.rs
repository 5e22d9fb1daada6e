//! Who may do what: `tokens` and `jwt` say who a caller is, `scope` what a caller may.
//!
//! Without an access file everybody may do everything; the settings allow that on loopback only.
//! Files are read again when they change; one that cannot be read leaves the old state in place.

pub(crate) mod jwt;
pub(crate) mod scope;
pub mod tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use highwater_disk::Clock;
use http::{HeaderMap, header};

use self::jwt::{Expected, Verifier};
use self::scope::{Action, Scope};
use self::tokens::Tokens;
use crate::error::ServeError;
use crate::settings::Settings;

/// Somebody with scopes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// For logs.
    pub name: String,
    /// What is allowed.
    pub scopes: Vec<Scope>,
}

impl Caller {
    /// Whether an action on a path is allowed.
    pub fn may(&self, action: Action, path: &str) -> bool {
        self.scopes.iter().any(|scope| scope.allows(action, path))
    }

    /// Whether an action on every stream whose name begins so is allowed.
    pub fn may_all(&self, action: Action, prefix: &str) -> bool {
        self.scopes.iter().any(|scope| scope.allows_all(action, prefix))
    }
}

/// Who a request comes from.
#[derive(Debug, Clone)]
pub(crate) enum Who {
    /// Anybody: access is not limited.
    Anybody,
    /// Nobody that is known: there was no token, or no valid one.
    Nobody,
    /// A caller.
    Known(Arc<Caller>),
}

/// Why a request is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has to say who it comes from: 401.
    Unknown,
    /// The caller may not: 403.
    Forbidden(Action),
}

impl Who {
    /// Whether the action is allowed.
    ///
    /// # Errors
    /// Why not.
    pub fn may(&self, action: Action, path: &str) -> Result<(), Refusal> {
        self.check(action, |caller| caller.may(action, path))
    }

    /// Whether the action is allowed on every stream whose name begins so.
    ///
    /// # Errors
    /// Why not.
    pub fn may_all(&self, action: Action, prefix: &str) -> Result<(), Refusal> {
        self.check(action, |caller| caller.may_all(action, prefix))
    }

    fn check(&self, action: Action, may: impl FnOnce(&Caller) -> bool) -> Result<(), Refusal> {
        match self {
            Self::Anybody => Ok(()),
            Self::Nobody => Err(Refusal::Unknown),
            Self::Known(caller) if may(caller) => Ok(()),
            Self::Known(_) => Err(Refusal::Forbidden(action)),
        }
    }
}

/// What access is decided by.
#[derive(Debug)]
pub(crate) struct Access {
    files: Files,
    /// Nothing where access is not limited.
    rules: Option<ArcSwap<Rules>>,
}

#[derive(Debug)]
struct Files {
    tokens: Option<PathBuf>,
    jwks: Option<PathBuf>,
    hs256: Option<PathBuf>,
    expected: Expected,
}

#[derive(Debug)]
struct Rules {
    tokens: Tokens,
    jwt: Verifier,
}

impl Access {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// [`ServeError::Access`].
    pub fn load(settings: &Settings) -> Result<Self, ServeError> {
        let expected = Expected {
            issuer: settings.auth_issuer.clone(),
            audience: settings.auth_audience.clone(),
        };
        let files = Files {
            tokens: settings.auth.clone(),
            jwks: settings.auth_jwks.clone(),
            hs256: settings.auth_hs256.clone(),
            expected,
        };
        let rules =
            if settings.has_auth() { Some(ArcSwap::from_pointee(files.read()?)) } else { None };
        Ok(Self { files, rules })
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// [`ServeError::Access`]; the old state stays.
    pub fn reload(&self) -> Result<(), ServeError> {
        if let Some(rules) = &self.rules {
            rules.store(Arc::new(self.files.read()?));
        }
        Ok(())
    }

    /// Lists the files that it is read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let Files { tokens, jwks, hs256, .. } = &self.files;
        [tokens, jwks, hs256].into_iter().filter_map(|file| file.as_deref())
    }

    /// Finds out who a request comes from.
    pub fn who(&self, headers: &HeaderMap, clock: &dyn Clock) -> Who {
        let Some(rules) = &self.rules else { return Who::Anybody };
        let Some(token) = bearer(headers) else { return Who::Nobody };
        let rules = rules.load();
        let caller = rules.tokens.find(token, clock.wall());
        let caller = caller.or_else(|| rules.jwt.find(token).map(Arc::new));
        caller.map_or(Who::Nobody, Who::Known)
    }
}

impl Files {
    fn read(&self) -> Result<Rules, ServeError> {
        let failed =
            |path: &Path, why: &str| ServeError::Access(format!("{}: {why}", path.display()));
        let text =
            |path: &Path| std::fs::read(path).map_err(|error| failed(path, &error.to_string()));
        let utf8 = |path: &Path| {
            String::from_utf8(text(path)?).map_err(|_| failed(path, "it is not UTF-8"))
        };
        let tokens = match &self.tokens {
            Some(path) => Tokens::parse(&utf8(path)?).map_err(|why| failed(path, &why))?,
            None => Tokens::default(),
        };
        let mut jwt = Verifier::new(self.expected.clone());
        if let Some(path) = &self.jwks {
            jwt.add_set(&utf8(path)?).map_err(|why| failed(path, &why))?;
        }
        if let Some(path) = &self.hs256 {
            let secret = text(path)?;
            let secret = secret.strip_suffix(b"\n").unwrap_or(&secret);
            jwt.add_secret(secret).map_err(|why| failed(path, &why))?;
        }
        Ok(Rules { tokens, jwt })
    }
}

/// Gives the bearer token of a request that has exactly one `Authorization`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_disk::real::SystemClock;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn one_bearer_token_counts_and_anything_else_is_nobody() {
        assert_eq!(bearer(&headers(&["Bearer abc"])), Some("abc"));
        assert_eq!(bearer(&headers(&["bearer  abc "])), Some("abc"));
        for values in
            [&["Basic abc"][..], &["Bearer "], &["Bearer"], &[], &["Bearer a", "Bearer b"]]
        {
            assert_eq!(bearer(&headers(values)), None, "{values:?}");
        }
    }

    #[test]
    fn files_are_read_again_and_a_broken_one_leaves_the_old_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        let write = |token: &str| {
            let hash = tokens::token_hash(token);
            let text = format!("[[token]]\nname='a'\nsha256='{hash}'\nscopes=['read']\n");
            std::fs::write(&path, text).unwrap();
        };
        write("first");
        let settings = Settings { auth: Some(path.clone()), ..Settings::default() };
        let access = Access::load(&settings).unwrap();
        let is_known = |token: &str| {
            let who = access.who(&headers(&[&format!("Bearer {token}")]), &SystemClock::new());
            matches!(who, Who::Known(_))
        };
        assert!(is_known("first") && !is_known("second"));
        write("second");
        access.reload().unwrap();
        assert!(is_known("second") && !is_known("first"), "a token that was taken out is out");
        std::fs::write(&path, "nonsense").unwrap();
        assert!(access.reload().unwrap_err().to_string().contains("tokens.toml"));
        assert!(is_known("second"));
    }

    #[test]
    fn without_files_everybody_may() {
        let access = Access::load(&Settings::default()).unwrap();
        let who = access.who(&HeaderMap::new(), &SystemClock::new());
        assert_eq!(who.may(Action::Admin, "x"), Ok(()));
        assert_eq!(Who::Nobody.may(Action::Read, "x"), Err(Refusal::Unknown));
    }
}
