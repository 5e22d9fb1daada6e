//! Who may do what, and how often.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use highwater_server::token_hash;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};

use crate::support::{Answer, Http2, Running, start, start_in, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

fn guarded(tokens: &[(&str, &str, &str)], changes: &[(&str, &str)]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let text: String =
        tokens.iter().map(|(name, token, scope)| entry(name, token, scope)).collect();
    std::fs::write(&path, text).unwrap();
    let auth = path.display().to_string();
    let mut all = vec![("auth", auth.as_str())];
    all.extend(changes);
    start_in(folder, &all)
}

fn entry(name: &str, token: &str, scope: &str) -> String {
    let hash = token_hash(token);
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\nscopes = [\"{scope}\"]\n")
}

fn ask(server: &Running, token: &str, method: &str, path: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    server.ask(method, path, &[TEXT, ("Authorization", &bearer)], "x")
}

#[test]
fn a_request_without_a_valid_token_is_401_and_one_beyond_its_scope_403() {
    let server = guarded(&[("w", "writer", "create+append:in/**"), ("r", "reader", "read")], &[]);
    let anonymous = server.ask("GET", &stream("in/a"), &[], "");
    assert_eq!((anonymous.status, anonymous.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(ask(&server, "wrong", "PUT", &stream("in/a")).status, 401);
    assert_eq!(ask(&server, "writer", "PUT", &stream("in/a")).status, 201);
    assert_eq!(ask(&server, "writer", "POST", &stream("in/a")).status, 204);
    assert_eq!(ask(&server, "reader", "GET", &stream("in/a")).text(), "xx");
    for (token, method, path) in [
        ("writer", "GET", "in/a"),
        ("writer", "PUT", "out/a"),
        ("writer", "DELETE", "in/a"),
        ("reader", "POST", "in/a"),
        ("writer", "PUT", "in/../out/a"),
        ("writer", "PUT", "in%2f..%2fout/a"),
    ] {
        let refused = ask(&server, token, method, &stream(path));
        assert_eq!(refused.status, 403, "{token} {method} {path}");
        assert_eq!(refused.json()["code"], "FORBIDDEN");
    }
}

#[test]
fn a_fork_needs_the_right_to_read_its_source() {
    let server = guarded(
        &[("w", "writer", "create:mine/**"), ("a", "all", "admin"), ("b", "both", "read+create")],
        &[],
    );
    assert_eq!(ask(&server, "all", "PUT", &stream("secret")).status, 201);
    let fork = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers =
            [("Authorization", bearer.as_str()), ("Stream-Forked-From", "/v1/stream/secret")];
        server.ask("PUT", &stream("mine/copy"), &headers, "").status
    };
    assert_eq!(fork("writer"), 403);
    assert_eq!(fork("both"), 201);
}

/// Points 48 and 49: a subscription tells names and tails of what it follows, and its wakes are
/// appends.
#[test]
fn a_subscription_needs_the_right_to_read_what_it_follows_and_to_append_to_its_wake_stream() {
    let own = "admin:__ds/subscriptions/*\", \"read:in/**\", \"append:wakes/*";
    let server = guarded(
        &[("s", "subscriber", own), ("a", "all", "admin")],
        &[("webhook-localhost", "true")],
    );
    let json = |token: &str, method: &str, path: &str, body: &Value| {
        let bearer = format!("Bearer {token}");
        let headers = [("Content-Type", "application/json"), ("Authorization", bearer.as_str())];
        server.ask(method, &stream(path), &headers, &body.to_string())
    };
    for name in ["secret", "in/a", "wakes/w"] {
        assert_eq!(json("all", "PUT", name, &json!([])).status, 201);
    }
    let pull = |more: Value| {
        let mut body = json!({ "type": "pull-wake", "wake_stream": "wakes/w" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json("subscriber", "PUT", "__ds/subscriptions/s", &body)
    };
    for beyond in [
        json!({ "pattern": "**" }),
        json!({ "pattern": "*/a" }),
        json!({ "pattern": "secret" }),
        json!({ "streams": ["in/a", "secret"] }),
        json!({ "pattern": "in/*", "streams": ["in/../secret"] }),
        json!({ "pattern": "in/*", "wake_stream": "secret" }),
        json!({ "pattern": "in/*", "wake_stream": "in/a" }),
    ] {
        let refused = pull(beyond.clone());
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (403, &json!("FORBIDDEN")),
            "{beyond}"
        );
    }
    let hook =
        json!({ "type": "webhook", "pattern": "s*", "webhook": { "url": "http://127.0.0.1:9/" } });
    assert_eq!(json("subscriber", "PUT", "__ds/subscriptions/h", &hook).status, 403);
    assert_eq!(pull(json!({ "pattern": "in/**", "streams": ["in/b"] })).status, 201);
    let add = |name: &str| {
        let body = json!({ "streams": [name] });
        json("subscriber", "POST", "__ds/subscriptions/s/streams", &body).status
    };
    assert_eq!((add("secret"), add("in/c")), (403, 204));
    let anything = json!({ "type": "pull-wake", "pattern": "**", "wake_stream": "secret" });
    assert_eq!(json("all", "PUT", "__ds/subscriptions/t", &anything).status, 201);
}

/// Point 52.
#[test]
fn whoever_has_no_token_does_not_learn_which_subscriptions_there_are() {
    let config = r#"{"type":"pull-wake","wake_stream":"w","pattern":"a"}"#;
    let status = |server: &Running, id: &str, what: &str, headers: &[(&str, &str)]| {
        let path = stream(&format!("__ds/subscriptions/{id}{what}"));
        let method = if what.is_empty() { "PUT" } else { "POST" };
        server.ask(method, &path, headers, config).status
    };
    let (json, admin) = (("Content-Type", "application/json"), ("Authorization", "Bearer all"));
    let (guarded, open) = (guarded(&[("a", "all", "admin")], &[]), start(&[]));
    assert_eq!(status(&guarded, "s", "", &[json, admin]), 201);
    assert_eq!(status(&open, "s", "", &[json]), 201);
    for what in ["/ack", "/callback", "/release"] {
        for headers in [&[][..], &[admin]] {
            let both = ["s", "none"].map(|id| status(&guarded, id, what, headers));
            assert_eq!(both, [401, 401], "{what} {headers:?}");
        }
        assert_eq!(["s", "none"].map(|id| status(&open, id, what, &[])), [401, 404], "{what}");
    }
}

#[test]
fn lists_and_metrics_are_for_admins_and_health_is_for_everybody() {
    let server = guarded(&[("r", "reader", "read"), ("a", "all", "admin")], &[]);
    for path in ["/metrics", "/v1/stream/__ds/streams"] {
        assert_eq!(server.ask("GET", path, &[], "").status, 401, "{path}");
        assert_eq!(ask(&server, "reader", "GET", path).status, 403, "{path}");
        assert_eq!(ask(&server, "all", "GET", path).status, 200, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.ask("GET", path, &[], "").status, 200, "{path}");
    }
}

/// Point 50.
#[test]
fn keys_are_rotated_by_admins_and_shown_to_everybody() {
    let all = ("a", "all", "admin:__ds/keys");
    let server = guarded(&[("r", "reader", "read+append+create"), all], &[]);
    let path = stream("__ds/keys");
    assert_eq!(server.ask("POST", &path, &[], "").status, 401);
    assert_eq!(ask(&server, "reader", "POST", &path).status, 403);
    let all = ("Authorization", "Bearer all");
    assert_eq!(server.ask("POST", &path, &[all], "").status, 201);
    let jwks = server.ask("GET", &stream("__ds/jwks.json"), &[], "").json();
    assert_eq!(jwks["keys"].as_array().unwrap().len(), 2);
}

#[test]
fn tokens_are_read_again_when_asked() {
    let server = guarded(&[("a", "first", "read")], &[]);
    assert_eq!(ask(&server, "first", "GET", &stream("a")).status, 404);
    let path = server.folder.path().join("tokens.toml");
    std::fs::write(path, entry("a", "second", "read")).unwrap();
    server.server().reload();
    assert_eq!(ask(&server, "first", "GET", &stream("a")).status, 401);
    assert_eq!(ask(&server, "second", "GET", &stream("a")).status, 404);
}

#[test]
fn requests_beyond_the_rate_are_429_with_the_time_to_wait_and_callers_count_alone() {
    let tokens = [("a", "one", "read"), ("b", "two", "read")];
    let server = guarded(&tokens, &[("rate-limit", "1"), ("rate-burst", "3")]);
    for _ in 0..3 {
        assert_eq!(ask(&server, "one", "GET", &stream("a")).status, 404);
    }
    let limited = ask(&server, "one", "GET", &stream("a"));
    assert_eq!((limited.status, limited.header("retry-after")), (429, Some("1")));
    assert_eq!(ask(&server, "two", "GET", &stream("a")).status, 404);
    assert_eq!(server.ask("GET", "/healthz", &[], "").status, 200, "health is not limited");
}

#[tokio::test]
async fn over_http2_too_requests_beyond_the_rate_are_429_with_the_time_to_wait() {
    let tokens = [("a", "one", "read"), ("b", "two", "read")];
    let server = guarded(&tokens, &[("rate-limit", "1"), ("rate-burst", "3")]);
    let mut client = Http2::connect(server.address).await;
    let mut statuses = Vec::new();
    for token in ["one", "one", "one", "one", "two"] {
        let bearer = format!("Bearer {token}");
        let answer = client.ask("GET", &stream("a"), &[("Authorization", &bearer)], "").await;
        statuses.push((answer.status, answer.header("retry-after").map(str::to_owned)));
    }
    let found = (404, None);
    let limited = (429, Some("1".to_owned()));
    assert_eq!(statuses, [found.clone(), found.clone(), found.clone(), limited, found]);
    let health = client.ask("GET", "/healthz", &[], "").await;
    assert_eq!(health.status, 200, "health is not limited, and the connection goes on");
}

#[test]
fn guessing_tokens_counts_against_the_address() {
    let server = guarded(&[], &[("rate-limit", "1"), ("rate-burst", "2")]);
    let statuses: Vec<u16> =
        (0..4).map(|n| ask(&server, &format!("guess{n}"), "GET", &stream("a")).status).collect();
    assert_eq!(statuses, [401, 401, 429, 429]);
}

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A server that takes JWTs.
fn proving(changes: &[(&str, &str)]) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, SECRET).unwrap();
    let secret = path.display().to_string();
    let mut all = vec![("auth-hs256", secret.as_str())];
    all.extend(changes);
    start_in(folder, &all)
}

fn jwt(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let key = EncodingKey::from_secret(secret);
    let signature = crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
    format!("{message}.{signature}")
}

#[test]
fn a_jwt_is_checked_as_a_whole_and_brings_its_scopes() {
    let server = proving(&[]);
    let status = |header: Value, claims: Value| {
        ask(&server, &jwt(&header, &claims, SECRET), "PUT", &stream("a")).status
    };
    let plain = || json!({ "alg": "HS256" });
    let later = 4_102_444_800_u64;
    assert_eq!(status(plain(), json!({ "exp": later, "scope": "create:a" })), 201);
    assert_eq!(status(plain(), json!({ "exp": later, "scopes": "create" })), 200);
    assert_eq!(status(plain(), json!({ "exp": later, "scope": "create:b" })), 403);
    let claims = || json!({ "exp": later, "scope": "admin" });
    assert_eq!(status(json!({ "alg": "HS256", "crit": ["b64"], "b64": false }), claims()), 401);
    assert_eq!(status(json!({ "alg": "HS256", "crit": ["exp"] }), claims()), 401);
    assert_eq!(status(plain(), json!({ "exp": later, "nbf": "9999999999" })), 401);
    assert_eq!(status(plain(), json!({ "exp": 1 })), 401);
    let forged = jwt(&plain(), &claims(), b"");
    assert_eq!(ask(&server, &forged, "PUT", &stream("a")).status, 401);
}

#[test]
fn signatures_are_not_checked_for_an_address_that_has_brought_too_many_wrong_ones() {
    let server = proving(&[("rate-limit", "1"), ("rate-burst", "3")]);
    let (header, claims) = (json!({ "alg": "HS256" }), json!({ "exp": 4_102_444_800_u64 }));
    let right = jwt(&header, &claims, SECRET);
    let wrong = jwt(&header, &claims, b"not the secret");
    assert_eq!(ask(&server, &right, "GET", &stream("a")).status, 403);
    for _ in 0..3 {
        assert_eq!(ask(&server, &wrong, "GET", &stream("a")).status, 401);
    }
    let limited = ask(&server, &right, "GET", &stream("a"));
    assert_eq!((limited.status, limited.header("retry-after")), (429, Some("1")));
    assert_eq!(server.ask("GET", "/readyz", &[], "").status, 200);
}

#[test]
fn metrics_and_paths_that_cannot_be_decoded_count_against_the_rate() {
    for path in ["/metrics", "/v1/stream/%zz", "/v1/stream/__ds/streams", "/nothing"] {
        let server = start(&[("rate-limit", "1"), ("rate-burst", "2")]);
        let status = || server.ask("GET", path, &[], "").status;
        let first = status();
        assert_eq!([status(), status()], [first, 429], "{path}");
        assert_eq!(server.ask("GET", "/healthz", &[], "").status, 200);
    }
}

#[test]
fn shared_caches_may_not_keep_what_only_some_may_read() {
    let cache = |server: &Running, token: &str| {
        ask(server, token, "PUT", &stream("a"));
        let read = ask(server, token, "GET", &stream("a"));
        read.header("cache-control").unwrap().split(',').next().unwrap().to_owned()
    };
    let tokens = [("a", "all", "admin")];
    assert_eq!(cache(&start(&[]), ""), "public");
    assert_eq!(cache(&guarded(&tokens, &[]), "all"), "private");
    assert_eq!(cache(&guarded(&tokens, &[("cache", "public")]), "all"), "public");
    assert_eq!(cache(&start(&[("cache", "private")]), ""), "private");
}

/// Point 29: of two people at one browser.
#[test]
fn a_private_cache_does_not_give_what_one_token_reads_to_another() {
    let server = guarded(&[("a", "all", "create+read")], &[]);
    assert_eq!(ask(&server, "all", "PUT", &stream("a")).status, 201);
    let read = ask(&server, "all", "GET", &stream("a"));
    assert_eq!((read.status, read.header("vary")), (200, Some("authorization")));
    let tag = [("Authorization", "Bearer all"), ("If-None-Match", "*")];
    let known = server.ask("GET", &stream("a"), &tag, "");
    assert_eq!((known.status, known.header("vary")), (304, Some("authorization")));
    let open = start(&[]);
    open.make("a");
    assert_eq!(open.ask("GET", &stream("a"), &[], "").header("vary"), None);
}

#[test]
fn a_scope_for_the_metrics_is_for_no_stream_and_one_for_a_stream_not_for_the_metrics() {
    let tokens = [
        ("m", "watcher", "admin:__ds/metrics"),
        ("s", "owner", "admin:metrics"),
        ("a", "all", "admin"),
    ];
    let server = guarded(&tokens, &[]);
    for (token, path, status) in [
        ("watcher", "/metrics", 200),
        ("watcher", "/v1/stream/metrics", 403),
        ("owner", "/v1/stream/metrics", 404),
        ("owner", "/metrics", 403),
        ("all", "/metrics", 200),
    ] {
        assert_eq!(ask(&server, token, "GET", path).status, status, "{token} {path}");
    }
}

#[test]
fn options_tells_what_can_be_done_at_the_path_that_is_asked_about() {
    let server = start(&[]);
    for (path, allow) in [
        ("/v1/stream/a", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
        ("*", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/metrics", "GET, HEAD, OPTIONS"),
        ("/v1/stream/__ds/streams", "GET, HEAD, OPTIONS"),
        ("/v1/stream/__ds/subscriptions/s", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("/v1/stream/__ds/subscriptions/s/ack", "POST, OPTIONS"),
        ("/v1/stream/__ds/subscriptions/s/streams/a/b", "DELETE, OPTIONS"),
    ] {
        let answer = server.ask("OPTIONS", path, &[], "");
        assert_eq!((answer.status, answer.header("allow")), (204, Some(allow)), "{path}");
        assert_eq!(answer.header("access-control-allow-methods"), Some(allow));
    }
    for (path, status) in
        [("/v1/stream/%zz", 400), ("/nothing", 404), ("/v1/stream/__ds/nothing", 404)]
    {
        assert_eq!(server.ask("OPTIONS", path, &[], "").status, status, "{path}");
    }
}

#[test]
fn a_page_of_another_origin_may_ask_before_it_has_a_token() {
    let server = guarded(&[], &[("cors-origins", "https://a.org")]);
    let headers = [("Origin", "https://a.org"), ("Access-Control-Request-Method", "POST")];
    let allowed = server.ask("OPTIONS", &stream("a"), &headers, "");
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://a.org"));
    assert!(allowed.header("access-control-allow-headers").unwrap().contains("authorization"));
    let other = server.ask("OPTIONS", &stream("a"), &[("Origin", "https://b.org")], "");
    assert_eq!((other.status, other.header("access-control-allow-origin")), (204, None));
    let open = start(&[]);
    open.make("a");
}
