//! Who may do what, and how often.

use highwater_server::token_hash;

use crate::support::{Answer, Running, start, start_in, stream};

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

#[test]
fn guessing_tokens_counts_against_the_address() {
    let server = guarded(&[], &[("rate-limit", "1"), ("rate-burst", "2")]);
    let statuses: Vec<u16> =
        (0..4).map(|n| ask(&server, &format!("guess{n}"), "GET", &stream("a")).status).collect();
    assert_eq!(statuses, [401, 401, 429, 429]);
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
