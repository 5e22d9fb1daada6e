//! What the public suite does not ask, or not in this way.

use crate::support::{Client, start, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

/// Points 1, 2 and 4.
#[test]
fn every_answer_forbids_sniffing_and_unknown_methods_name_those_that_are() {
    let server = start(&[]);
    server.make("a");
    for (method, path, status) in [
        ("GET", "/v1/stream/a", 200),
        ("GET", "/v1/stream/none", 404),
        ("GET", "/nowhere", 404),
        ("PATCH", "/v1/stream/a", 405),
        ("OPTIONS", "/v1/stream/a", 204),
        ("GET", "/v1/stream/%zz", 400),
        ("GET", "/healthz", 200),
        ("DELETE", "/healthz", 405),
    ] {
        let answer = server.ask(method, path, &[], "");
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{method} {path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("cross-origin"));
        assert_eq!(answer.header("allow").is_some(), status == 405 || method == "OPTIONS");
    }
}

/// Point 2.
#[test]
fn every_header_of_the_protocol_may_be_sent_and_read_by_pages_of_other_origins() {
    let server = start(&[]);
    server.make("a");
    let values = |answer: &crate::support::Answer, name: &str| -> Vec<String> {
        answer.header(name).unwrap().split(',').map(|value| value.trim().to_lowercase()).collect()
    };
    let options = server.ask("OPTIONS", "/v1/stream/a", &[("Origin", "https://a.org")], "");
    assert_eq!(options.header("access-control-allow-origin"), Some("*"));
    let methods = values(&options, "access-control-allow-methods");
    for method in ["get", "head", "post", "put", "delete"] {
        assert!(methods.contains(&method.to_owned()), "{method}");
    }
    let allowed = values(&options, "access-control-allow-headers");
    for name in [
        "content-type",
        "authorization",
        "if-none-match",
        "stream-seq",
        "stream-ttl",
        "stream-expires-at",
        "stream-closed",
        "stream-forked-from",
        "stream-fork-offset",
        "stream-fork-sub-offset",
        "producer-id",
        "producer-epoch",
        "producer-seq",
    ] {
        assert!(allowed.contains(&name.to_owned()), "{name}");
    }
    let read = server.ask("GET", "/v1/stream/a", &[("Origin", "https://a.org")], "");
    assert_eq!(read.header("access-control-allow-origin"), Some("*"));
    let exposed = values(&read, "access-control-expose-headers");
    for name in [
        "stream-next-offset",
        "stream-up-to-date",
        "stream-cursor",
        "stream-closed",
        "stream-ttl",
        "stream-expires-at",
        "stream-sse-data-encoding",
        "producer-epoch",
        "producer-seq",
        "producer-expected-seq",
        "producer-received-seq",
        "etag",
        "location",
        "retry-after",
    ] {
        assert!(exposed.contains(&name.to_owned()), "{name}");
    }
}

/// Point 4.
#[test]
fn the_port_is_the_protocols_unless_it_is_set() {
    let settings = highwater_server::settings::Settings::default();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:4437");
}

/// Point 5.
#[test]
fn errors_are_problems_with_a_code_a_sentence_and_advice() {
    let server = start(&[]);
    let answer = server.ask("GET", "/v1/stream/none", &[("X-Request-Id", "r-17")], "");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("x-request-id"), Some("r-17"));
    let problem = answer.json();
    assert_eq!(problem["code"], "STREAM_NOT_FOUND");
    assert_eq!(problem["status"], 404);
    assert_eq!(problem["request_id"], "r-17");
    assert!(problem["detail"].is_string() && problem["advice"].is_string());
}

/// Point 6: the address that the client used.
#[test]
fn the_location_of_a_new_stream_is_the_url_that_the_client_used() {
    let server = start(&[("trusted-proxies", "127.0.0.1")]);
    let direct = server.ask("PUT", "/v1/stream/a/./b%20c", &[TEXT], "");
    assert_eq!(direct.header("location"), Some("http://test/v1/stream/a/b%20c"));
    let proxied = [TEXT, ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "streams.example")];
    let proxied = server.ask("PUT", "/v1/stream/p", &proxied, "");
    assert_eq!(proxied.header("location"), Some("https://streams.example/v1/stream/p"));
    let again = server.ask("PUT", "/v1/stream/p", &[TEXT], "");
    assert_eq!((again.status, again.header("location")), (200, None));
}

/// Point 10: also where it is no text, or given twice.
#[test]
fn whatever_a_closed_header_says_beside_true_is_as_good_as_none() {
    let server = start(&[]);
    let ask = |request: &[u8]| {
        let mut client = server.client();
        client.send([request, b"Content-Type: text/plain\r\nContent-Length: 1\r\n\r\nx"].concat());
        client.answer("")
    };
    for value in [&b"false"[..], b"yes", b"1", b"", b"true, true", b"\xff", b"tru\xc3\xa9"] {
        let twice = [b"Stream-Closed: ", value, b"\r\nStream-Closed: ", value, b"\r\n"].concat();
        for field in [&twice[..twice.len() / 2], &twice] {
            for (method, statuses) in [("PUT", [200, 201]), ("POST", [204, 204])] {
                let head = format!("{method} /v1/stream/a HTTP/1.1\r\nHost: test\r\n");
                let answer = ask(&[head.as_bytes(), field].concat());
                assert!(statuses.contains(&answer.status), "{field:?} {answer:?}");
                assert_eq!(answer.header("stream-closed"), None, "{field:?}");
            }
        }
    }
    assert_eq!(server.ask("HEAD", "/v1/stream/a", &[], "").header("stream-closed"), None);
    let closed = server.ask("POST", "/v1/stream/a", &[("Stream-Closed", "\tTrUe ")], "");
    assert_eq!((closed.status, closed.header("stream-closed")), (204, Some("true")));
}

/// Point 18.
#[test]
fn chunked_bodies_are_taken_and_encoded_ones_are_refused() {
    let server = start(&[]);
    server.make("a");
    let mut client = server.client();
    client.send(
        "POST /v1/stream/a HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: z\r\n\r\n",
    );
    assert_eq!(client.answer("POST").status, 204);
    let gzip = [TEXT, ("Content-Encoding", "gzip")];
    assert_eq!(server.ask("POST", &stream("a"), &gzip, "x").status, 415);
    assert_eq!(client.ask("GET", &stream("a"), &[], "").text(), "abcde");
}

/// Point 26.
#[test]
fn a_read_gives_a_chunk_and_the_next_one_goes_on_where_it_ended() {
    let server = start(&[("chunk-bytes", "10")]);
    server.make("a");
    for part in ["0123456", "789abcd", "ef"] {
        assert_eq!(server.append("a", part).status, 204);
    }
    let (mut client, mut offset, mut whole) = (server.client(), "-1".to_owned(), String::new());
    let mut answers = 0;
    loop {
        let answer = client.ask("GET", &format!("{}?offset={offset}", stream("a")), &[], "");
        assert!(answer.body.len() <= 10);
        whole += &answer.text();
        offset = answer.next_offset();
        answers += 1;
        if answer.header("stream-up-to-date") == Some("true") {
            break;
        }
    }
    assert_eq!((whole.as_str(), answers), ("0123456789abcdef", 2));
}

/// Points 28 and 29.
#[test]
fn the_same_range_has_the_same_tag_and_is_not_sent_twice() {
    let server = start(&[]);
    server.make("a");
    server.append("a", "x");
    let first = server.ask("GET", &stream("a"), &[], "");
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(
        first.header("cache-control"),
        Some("public, max-age=60, stale-while-revalidate=300")
    );
    for value in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let again = server.ask("GET", &stream("a"), &[("If-None-Match", &value)], "");
        assert_eq!((again.status, again.header("etag")), (304, Some(tag.as_str())), "{value}");
        assert!(again.body.is_empty());
    }
    server.append("a", "y");
    let later = server.ask("GET", &stream("a"), &[("If-None-Match", &tag)], "");
    assert_eq!((later.status, later.text().as_str()), (200, "xy"));
    server.ask("PUT", &stream("short"), &[TEXT, ("Stream-TTL", "100")], "");
    let short = server.ask("GET", &stream("short"), &[], "");
    let half = "public, max-age=50, stale-while-revalidate=0";
    assert_eq!(short.header("cache-control"), Some(half));
    let now = server.ask("GET", "/v1/stream/a?offset=now", &[], "");
    assert_eq!((now.header("etag"), now.header("cache-control")), (None, Some("no-store")));
    let private = start(&[("cache", "private")]);
    private.make("a");
    let read = private.ask("GET", &stream("a"), &[], "");
    assert!(read.header("cache-control").unwrap().starts_with("private,"));
}

#[test]
fn every_spelling_of_a_path_is_one_stream_also_in_absolute_form() {
    let server = start(&[]);
    server.make("a/b");
    for target in [
        "/v1/stream//a/b",
        "/v1/stream/a%2Fb",
        "/v1/x/../stream/a/./b",
        "http://elsewhere/v1/stream/a/b",
    ] {
        assert_eq!(server.ask("GET", target, &[], "").status, 200, "{target}");
    }
}

#[test]
fn compression_is_used_where_it_is_set_asked_for_and_of_use() {
    let server = start(&[("gzip-from-bytes", "100")]);
    server.make("a");
    server.append("a", &"x".repeat(1000));
    let plain = server.ask("GET", &stream("a"), &[], "");
    assert_eq!((plain.body.len(), plain.header("content-encoding")), (1000, None));
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    let accepts = ("Accept-Encoding", "gzip");
    let packed = server.ask("GET", &stream("a"), &[accepts], "");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < 100 && packed.header("etag") != plain.header("etag"));
    let tag = packed.header("etag").unwrap();
    let again = server.ask("GET", &stream("a"), &[accepts, ("If-None-Match", tag)], "");
    assert_eq!(again.status, 304);
    // A cache finds what it has by these.
    assert_eq!((again.header("etag"), again.header("vary")), (Some(tag), Some("accept-encoding")));
    let plain_tag = plain.header("etag").unwrap();
    let again = server.ask("GET", &stream("a"), &[("If-None-Match", plain_tag)], "");
    assert_eq!((again.status, again.header("etag")), (304, Some(plain_tag)));
    assert_eq!(again.header("vary"), Some("accept-encoding"));
}

/// Point 21, without a crash: a restart.
#[test]
fn a_producer_that_sends_again_after_a_restart_is_not_taken_twice() {
    let server = start(&[]);
    server.make("a");
    let headers = [TEXT, ("Producer-Id", "p"), ("Producer-Epoch", "0"), ("Producer-Seq", "0")];
    assert_eq!(server.ask("POST", &stream("a"), &headers, "once").status, 200);
    let server = crate::support::start_in(server.stop(), &[]);
    let again = server.ask("POST", &stream("a"), &headers, "once");
    assert_eq!((again.status, again.header("producer-seq")), (204, Some("0")));
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "once");
}

/// Upstreams of old proxies.
#[test]
fn http_1_0_gets_its_answer_and_the_end_of_the_connection() {
    let server = start(&[]);
    server.make("a");
    server.append("a", "x");
    let mut client = server.client();
    client.send("GET /v1/stream/a HTTP/1.0\r\n\r\n");
    let text = String::from_utf8(client.rest()).unwrap();
    assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\nx") && !text.contains("chunked"), "{text}");
    let mut live = Client::connect(server.address);
    live.send("GET /v1/stream/a?offset=-1&live=sse HTTP/1.0\r\n\r\n");
    let (status, headers) = live.head();
    assert_eq!(status, 200);
    assert!(headers.iter().all(|(name, _)| name != "transfer-encoding"), "{headers:?}");
    server.ask("POST", &stream("a"), &[("Stream-Closed", "true")], "");
    let events = String::from_utf8(live.rest()).unwrap();
    assert!(events.starts_with("event: data\ndata:x\n") && events.contains("streamClosed"));
}
