//! What pages of other origins see, where their origins are listed.

use crate::support::{Answer, Http2, Running, start, start_in, stream};

const LISTED: &[(&str, &str)] = &[
    ("cors-origins", "https://a.org,http://localhost:3000"),
    ("gzip-from-bytes", "1"),
    ("max-body-bytes", "1KiB"),
];

/// Method, target, headers, status.
type Asked = (&'static str, String, Vec<(&'static str, String)>, u16);

/// Requests, and how each is answered: by every part of the server that answers.
fn asked(server: &Running) -> Vec<Asked> {
    server.ask("PUT", &stream("a"), &[("Content-Type", "text/plain")], "content");
    let tag = server.ask("GET", &stream("a"), &[], "").header("etag").unwrap().to_owned();
    let of = |query: &str| stream("a") + query;
    let text = || vec![("Content-Type", "text/plain".to_owned())];
    vec![
        ("GET", of(""), vec![], 200),
        ("GET", of(""), vec![("If-None-Match", tag)], 304),
        ("GET", of("?offset=now&live=long-poll"), vec![], 204),
        ("GET", of("?offset=wrong"), vec![], 400),
        ("HEAD", of(""), vec![], 200),
        ("OPTIONS", of(""), vec![("Access-Control-Request-Method", "POST".to_owned())], 204),
        ("OPTIONS", "/nothing".to_owned(), vec![], 404),
        ("PUT", of(""), text(), 200),
        ("PUT", of(""), vec![("Content-Type", "text/html".to_owned())], 409),
        ("POST", of(""), text(), 400),
        ("PATCH", of(""), vec![], 405),
        ("DELETE", stream("none"), vec![], 404),
        ("GET", stream("%zz"), vec![], 400),
        ("GET", stream("__ds/jwks.json"), vec![], 200),
        ("GET", stream("__ds/subscriptions/none"), vec![], 404),
        ("GET", "/healthz".to_owned(), vec![], 200),
        ("GET", "/metrics".to_owned(), vec![], 200),
    ]
}

fn check(answer: &Answer, allowed: Option<&str>, what: &str) {
    let all = |name: &str| -> Vec<&str> {
        let named = answer.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.flat_map(|(_, value)| value.split(',').map(str::trim)).collect()
    };
    let origins = all("access-control-allow-origin");
    assert_eq!(origins, allowed.into_iter().collect::<Vec<_>>(), "{what}");
    let may_read = all("access-control-expose-headers").contains(&"stream-next-offset");
    assert_eq!(may_read, allowed.is_some(), "{what}");
    // A cache that keeps it for one origin gives it to no other, listed or not.
    let varies = all("vary").iter().filter(|name| name.eq_ignore_ascii_case("origin")).count();
    assert_eq!(varies, 1, "{what}: {:?}", answer.headers);
    // Tokens are sent by scripts: what a browser adds by itself says nothing here.
    assert!(all("access-control-allow-credentials").is_empty(), "{what}");
}

/// Point 2.
#[tokio::test]
async fn every_answer_is_read_by_pages_that_are_listed_and_by_no_others() {
    let server = start(LISTED);
    let mut http2 = Http2::connect(server.address).await;
    for (method, path, headers, status) in asked(&server) {
        for (origin, allowed) in [
            (Some("https://a.org"), Some("https://a.org")),
            (Some("http://localhost:3000"), Some("http://localhost:3000")),
            (Some("https://b.org"), None),
            (Some("http://a.org"), None),
            (Some("https://a.org:8443"), None),
            (Some("https://x.a.org"), None),
            (Some("null"), None),
            (None, None),
        ] {
            let mut sent: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            sent.extend(origin.map(|origin| ("Origin", origin)));
            let what = format!("{method} {path} {sent:?}");
            let answers =
                [server.ask(method, &path, &sent, ""), http2.ask(method, &path, &sent, "").await];
            for answer in answers {
                assert_eq!(answer.status, status, "{what}");
                check(&answer, allowed, &what);
            }
        }
    }
}

/// Point 2: what else an answer depends on stands beside the origin.
#[test]
fn an_answer_varies_by_its_origin_and_by_all_that_it_varied_by_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let hash = highwater_server::token_hash("all");
    let entry = format!("[[token]]\nname='a'\nsha256='{hash}'\nscopes=['admin']\n");
    std::fs::write(&path, entry).unwrap();
    let auth = path.display().to_string();
    let server = start_in(folder, &[LISTED, &[("auth", &auth)]].concat());
    let token = ("Authorization", "Bearer all");
    let origin = ("Origin", "https://a.org");
    server.ask("PUT", &stream("a"), &[token, ("Content-Type", "text/plain")], "content");
    let read = server.ask("GET", &stream("a"), &[token, origin], "");
    check(&read, Some("https://a.org"), "a read");
    let named = read.headers.iter().filter(|(name, _)| name == "vary");
    let mut named: Vec<_> = named.map(|(_, value)| value.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["accept-encoding", "authorization", "origin"]);
    let unknown = server.ask("GET", &stream("a"), &[origin], "");
    assert_eq!(unknown.status, 401);
    check(&unknown, Some("https://a.org"), "a page learns that it needs a token");
}

/// Points 2 and 33.
#[test]
fn events_are_read_by_pages_that_are_listed_and_by_no_others() {
    let server = start(LISTED);
    server.make("a");
    for (origin, allowed) in [("https://a.org", Some("https://a.org")), ("https://b.org", None)] {
        let mut client = server.client();
        let target = format!("{}?offset=now&live=sse", stream("a"));
        client.send(crate::support::request("GET", &target, &[("Origin", origin)], ""));
        let (status, headers) = client.head();
        check(&Answer { status, headers, body: Vec::new() }, allowed, origin);
    }
}
