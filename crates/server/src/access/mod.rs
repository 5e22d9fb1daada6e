//! Who may do what: `tokens` and `jwt` say who a caller is, `scope` what a caller may.
//!
//! Without an access file everybody may do everything; the settings allow that on loopback only.
//! Files are read again when they change, each for itself: one that cannot be read leaves what
//! stood in it in force, and holds back no other. `keys` is what JWTs are checked against.

mod jwt;
mod keys;
pub(crate) mod scope;
pub mod tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use highwater_disk::Clock;
use highwater_streams::subscriptions::glob::Glob;
use http::{HeaderMap, header};

use self::jwt::Expected;
use self::keys::Key;
use self::scope::{Action, Scope};
use self::tokens::{Missing, Tokens};
use crate::error::ServeError;
use crate::lines::{Kind, Lines};
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

    /// Whether an action on every stream that matches a pattern is allowed.
    pub fn may_matching(&self, action: Action, pattern: &Glob) -> bool {
        self.scopes.iter().any(|scope| scope.allows_matching(action, pattern))
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

    /// Whether the action is allowed on every stream that matches a pattern.
    ///
    /// # Errors
    /// Why not.
    pub fn may_matching(&self, action: Action, pattern: &Glob) -> Result<(), Refusal> {
        self.check(action, |caller| caller.may_matching(action, pattern))
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
    expected: Expected,
    /// Nothing where access is not limited.
    rules: Option<ArcSwap<Rules>>,
    lines: Arc<Lines<Kind>>,
}

#[derive(Debug)]
struct Files {
    tokens: Option<PathBuf>,
    jwks: Option<PathBuf>,
    hs256: Option<PathBuf>,
}

/// What stands in each file.
#[derive(Debug, Clone, Default)]
struct Rules {
    tokens: Arc<Tokens>,
    set: Arc<Vec<Key>>,
    secret: Arc<Vec<Key>>,
}

/// What a request shows of who it comes from.
#[derive(Debug)]
pub(crate) enum Shown<'a> {
    /// That is all.
    Who(Who),
    /// A JWT: who it speaks for takes the check of a signature.
    Jwt(&'a str),
}

impl Access {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// [`ServeError::Access`].
    pub fn load(settings: &Settings, lines: &Arc<Lines<Kind>>) -> Result<Self, ServeError> {
        let expected = Expected {
            issuer: settings.auth_issuer.clone(),
            audience: settings.auth_audience.clone(),
        };
        let files = Files {
            tokens: settings.auth.clone(),
            jwks: settings.auth_jwks.clone(),
            hs256: settings.auth_hs256.clone(),
        };
        let mut rules = Rules::default();
        if let Some(error) = files.read(&mut rules).into_iter().next() {
            return Err(error);
        }
        let rules = settings.has_auth().then(|| ArcSwap::from_pointee(rules));
        Ok(Self { files, expected, rules, lines: Arc::clone(lines) })
    }

    /// Whether there is anything that not everybody may.
    pub fn is_limited(&self) -> bool {
        self.rules.is_some()
    }

    /// Reads each file again; one that cannot be used leaves what stood in it in force, and holds
    /// back no other. Gives what went wrong.
    pub fn reload(&self) -> Vec<ServeError> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let mut new = Rules::clone(&rules.load());
        let errors = self.files.read(&mut new);
        rules.store(Arc::new(new));
        errors
    }

    /// Finds out who a request comes from, as far as that costs next to nothing.
    pub fn shown<'a>(&self, headers: &'a HeaderMap, clock: &dyn Clock) -> Shown<'a> {
        let Some(rules) = &self.rules else { return Shown::Who(Who::Anybody) };
        let Some(token) = bearer(headers) else { return Shown::Who(Who::Nobody) };
        let rules = rules.load();
        let why = match rules.tokens.find(token, clock.wall()) {
            Ok(caller) => return Shown::Who(Who::Known(caller)),
            Err(Missing::Unknown) if rules.has_keys() => return Shown::Jwt(token),
            Err(Missing::Unknown) => "it is not in the file of tokens".to_owned(),
            Err(Missing::Expired(name)) => format!("{name:?} has expired"),
        };
        self.note(&why);
        Shown::Who(Who::Nobody)
    }

    /// Finds out who a JWT speaks for.
    pub fn prove(&self, token: &str, clock: &dyn Clock) -> Who {
        let Some(rules) = &self.rules else { return Who::Anybody };
        let rules = rules.load();
        let keys = rules.set.iter().chain(rules.secret.iter());
        match jwt::find(token, keys, &self.expected, clock.wall()) {
            Ok(caller) => Who::Known(Arc::new(caller)),
            Err(why) => {
                self.note(&why);
                Who::Nobody
            }
        }
    }

    /// Says why a token is not accepted, and never a token.
    fn note(&self, why: &str) {
        let what = "a bearer token was not accepted";
        if let Some(left_out) = self.lines.turn((what, "")) {
            tracing::warn!(why, left_out, "{what}");
        }
    }
}

impl Rules {
    fn has_keys(&self) -> bool {
        !self.set.is_empty() || !self.secret.is_empty()
    }
}

impl Files {
    /// Reads each file into its place; gives why those that cannot be used cannot.
    fn read(&self, rules: &mut Rules) -> Vec<ServeError> {
        let mut errors = Vec::new();
        if let Some(path) = &self.tokens {
            let read = utf8(path).and_then(|text| Tokens::parse(&text));
            place(path, read, &mut rules.tokens, &mut errors);
        }
        if let Some(path) = &self.jwks {
            let read = utf8(path).and_then(|text| keys::of_set(&text));
            place(path, read, &mut rules.set, &mut errors);
        }
        if let Some(path) = &self.hs256 {
            let read = bytes(path).and_then(|secret| {
                let secret = secret.strip_suffix(b"\n").unwrap_or(&secret);
                Ok(vec![keys::of_secret(None, secret)?])
            });
            place(path, read, &mut rules.secret, &mut errors);
        }
        errors
    }
}

fn place<T>(path: &Path, read: Result<T, String>, into: &mut Arc<T>, errors: &mut Vec<ServeError>) {
    match read {
        Ok(read) => *into = Arc::new(read),
        Err(why) => errors.push(ServeError::Access(format!("{}: {why}", path.display()))),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| error.to_string())
}

fn utf8(path: &Path) -> Result<String, String> {
    String::from_utf8(bytes(path)?).map_err(|_| "it is not UTF-8".to_owned())
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
    use std::time::Duration;

    use highwater_disk::real::SystemClock;
    use highwater_disk::sim::SimClock;

    fn load(settings: &Settings) -> Result<Access, ServeError> {
        Access::load(settings, &Arc::new(Lines::new(Arc::new(SystemClock::new()))))
    }

    fn is_known(access: &Access, token: &str) -> bool {
        let headers = headers(&[&format!("Bearer {token}")]);
        let shown = access.shown(&headers, &SystemClock::new());
        matches!(shown, Shown::Who(Who::Known(_)))
    }

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
        let access = load(&settings).unwrap();
        let is_known = |token: &str| is_known(&access, token);
        assert!(is_known("first") && !is_known("second"));
        write("second");
        assert!(access.reload().is_empty());
        assert!(is_known("second") && !is_known("first"), "a token that was taken out is out");
        std::fs::write(&path, "nonsense").unwrap();
        assert!(access.reload()[0].to_string().contains("tokens.toml"));
        assert!(is_known("second"));
    }

    #[test]
    fn a_file_that_is_broken_does_not_hold_back_what_another_takes_away() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |token: &str| {
            let hash = tokens::token_hash(token);
            let text = format!("[[token]]\nname='a'\nsha256='{hash}'\nscopes=['read']\n");
            std::fs::write(at("tokens.toml"), text).unwrap();
        };
        write("stolen");
        let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";
        let set = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{key}\"}}]}}");
        std::fs::write(at("jwks.json"), set).unwrap();
        let settings = Settings {
            auth: Some(at("tokens.toml")),
            auth_jwks: Some(at("jwks.json")),
            ..Settings::default()
        };
        let access = load(&settings).unwrap();
        assert!(is_known(&access, "stolen"));
        write("another");
        std::fs::write(at("jwks.json"), "{").unwrap();
        let errors = access.reload();
        assert!(errors.len() == 1 && errors[0].to_string().contains("jwks.json"), "{errors:?}");
        assert!(!is_known(&access, "stolen") && is_known(&access, "another"));
        let has_keys = access.rules.as_ref().unwrap().load().has_keys();
        assert!(has_keys, "those of the broken file stay");
    }

    #[test]
    fn a_file_with_a_secret_that_can_be_guessed_does_not_start_a_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwks.json");
        std::fs::write(&path, "{\"keys\":[{\"kty\":\"oct\",\"k\":\"\"}]}").unwrap();
        let settings = Settings { auth_jwks: Some(path.clone()), ..Settings::default() };
        let refused = load(&settings).unwrap_err().to_string();
        assert!(refused.contains("jwks.json") && refused.contains("32 bytes"), "{refused}");
        std::fs::write(&path, "short\n").unwrap();
        let settings = Settings { auth_hs256: Some(path), ..Settings::default() };
        assert!(load(&settings).is_err());
    }

    /// Whichever way the system's clock is set: what it says when a request comes counts.
    #[test]
    fn a_token_of_either_kind_counts_exactly_while_the_clock_is_within_its_time() {
        const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let hash = tokens::token_hash("listed");
        let entry = format!("[[token]]\nname='a'\nsha256='{hash}'\nscopes=['read']\n");
        // 2 000 000 000 s.
        let expires = "expires = 2033-05-18T03:33:20Z\n";
        std::fs::write(at("tokens.toml"), entry + expires).unwrap();
        std::fs::write(at("secret"), SECRET).unwrap();
        let settings = Settings {
            auth: Some(at("tokens.toml")),
            auth_hs256: Some(at("secret")),
            ..Settings::default()
        };
        let access = load(&settings).unwrap();
        let claims = serde_json::json!({ "nbf": 1_900_000_000, "exp": 2_000_000_000 });
        let jwt = jwt::tests::signed(&serde_json::json!({ "alg": "HS256" }), &claims, SECRET);
        let clock = SimClock::new();
        let is_let_in = |token: &str| {
            let headers = headers(&[&format!("Bearer {token}")]);
            let who = match access.shown(&headers, &clock) {
                Shown::Who(who) => who,
                Shown::Jwt(token) => access.prove(token, &clock),
            };
            matches!(who, Who::Known(_))
        };
        for (seconds, listed, signed) in [
            (1_950_000_000, true, true),
            // Ahead, beyond both; and back again.
            (2_100_000_000, false, false),
            (1_999_999_999, true, true),
            (2_000_000_000, false, true),
            (2_000_000_030, false, false),
            // Back, before the JWT counts; a clock that was never set.
            (1_899_999_969, true, false),
            (1_899_999_970, true, true),
            (0, true, false),
        ] {
            clock.set_wall(Duration::from_secs(seconds));
            assert_eq!([is_let_in("listed"), is_let_in(&jwt)], [listed, signed], "{seconds}");
        }
    }

    #[test]
    fn without_files_everybody_may() {
        let access = load(&Settings::default()).unwrap();
        let headers = HeaderMap::new();
        let shown = access.shown(&headers, &SystemClock::new());
        let Shown::Who(who) = shown else { panic!("it is no JWT") };
        assert_eq!(who.may(Action::Admin, "x"), Ok(()));
        assert_eq!(Who::Nobody.may(Action::Read, "x"), Err(Refusal::Unknown));
    }
}
