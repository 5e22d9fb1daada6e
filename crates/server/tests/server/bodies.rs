//! Bodies of requests in memory: what has come is bounded, what was announced keeps nothing from
//! others, and nobody has a place for one who could not say anything with it.

use std::time::Instant;

use crate::support::{Client, PATIENCE, Running, start, stream};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Begins a request whose body has so many bytes, and sends none of them.
fn promise(server: &Running, path: &str, headers: &str, bytes: u64) -> Client {
    let mut client = server.client();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n{headers}\
         Content-Length: {bytes}\r\n\r\n"
    ));
    client
}

/// I11.
#[test]
fn bodies_in_memory_are_bounded_all_together() {
    let server = start(&[("max-body-bytes", "64KiB"), ("max-bodies-bytes", "64KiB")]);
    server.make("a");
    let started = Instant::now();
    let (slow, busy) = loop {
        let mut slow = promise(&server, &stream("a"), "", 60_000);
        slow.send("x".repeat(50_000));
        // It has come by now, most often.
        assert_eq!(server.ask("GET", "/healthz", &[], "").status, 200);
        let answer = server.append("a", &"x".repeat(20_000));
        if answer.status != 204 {
            break (slow, answer);
        }
        assert!(started.elapsed() < PATIENCE, "what has come does not count");
    };
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
    assert!(!server.metrics().contains("limits_hit_total{limit=\"bodies\"} 0"));
    drop(slow);
    while server.append("a", &"x".repeat(20_000)).status != 204 {
        assert!(started.elapsed() < PATIENCE, "what a lost client held is not given back");
    }
}

/// I11.
#[test]
fn bodies_that_are_announced_keep_no_memory_from_those_that_come() {
    let server = start(&[("max-body-bytes", "64KiB"), ("max-bodies-bytes", "64KiB")]);
    server.make("a");
    let waiting = "Expect: 100-continue\r\n";
    let mut silent: Vec<Client> =
        (0..40).map(|_| promise(&server, &stream("a"), waiting, 60_000)).collect();
    for client in &mut silent {
        assert_eq!(client.head().0, 100, "its body is waited for");
    }
    assert_eq!(server.append("a", &"x".repeat(60_000)).status, 204);
    let mut last = silent.pop().unwrap();
    last.send("y".repeat(60_000));
    assert_eq!(last.answer("POST").status, 204);
}

/// Points 52 and 53.
#[test]
fn reports_to_subscriptions_are_refused_before_their_body_is_waited_for() {
    let server = start(&[]);
    let path = |what: &str| stream(&format!("__ds/subscriptions/s{what}"));
    let config = r#"{"type":"pull-wake","wake_stream":"w","streams":["a"]}"#;
    server.make("a");
    assert_eq!(server.ask("PUT", &stream("w"), &[JSON], "").status, 201);
    assert_eq!(server.ask("PUT", &path(""), &[JSON], config).status, 201);
    assert_eq!(server.append("a", "news").status, 204);
    let started = Instant::now();
    let claimed = loop {
        let claimed = server.ask("POST", &path("/claim"), &[JSON], r#"{"worker":"w"}"#);
        if claimed.status == 200 {
            break claimed.json();
        }
        assert!(started.elapsed() < PATIENCE, "{claimed:?}");
    };
    let token = format!("Authorization: Bearer {}\r\n", claimed["token"].as_str().unwrap());
    let forged = "Authorization: Bearer a.b.c\r\n";
    for what in ["ack", "callback", "release"] {
        let unknown = stream(&format!("__ds/subscriptions/nope/{what}"));
        let what = path(&format!("/{what}"));
        for (path, headers, status) in
            [(&unknown, &*token, 404), (&unknown, "", 404), (&what, "", 401), (&what, forged, 401)]
        {
            let mut client = promise(&server, path, headers, 8 << 20);
            assert_eq!(client.head().0, status, "{path} {headers}");
        }
        let long = format!("{token}Expect: 100-continue\r\n");
        assert_eq!(promise(&server, &what, &long, (1 << 20) + 1).head().0, 413);
    }
    let report = format!(
        r#"{{"wake_id":{},"generation":{},"done":true}}"#,
        claimed["wake_id"], claimed["generation"]
    );
    let token = ("Authorization", &*format!("Bearer {}", claimed["token"].as_str().unwrap()));
    assert_eq!(server.ask("POST", &path("/ack"), &[JSON, token], &report).status, 200);
}
