//! Subscriptions: webhooks sent and answered, workers, and restarts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Answer, PATIENCE, Running, request, start, start_in, stream};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A webhook's receiver: takes requests one by one.
struct Receiver {
    listener: TcpListener,
    url: String,
}

impl Receiver {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook?x=1", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// Waits for a request; gives its head and body.
    fn take(&self) -> (TcpStream, String, Value) {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut len) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                len = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).unwrap();
        (stream, head, serde_json::from_slice(&body).unwrap())
    }
}

fn reply(mut stream: TcpStream, status: &str, body: &str) {
    let len = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}")
        .unwrap();
}

fn subscription(id: &str) -> String {
    stream(&format!("__ds/subscriptions/{id}"))
}

fn subscribe(server: &Running, id: &str, url: &str) -> Answer {
    let body = json!({ "type": "webhook", "pattern": "events/*", "webhook": { "url": url } });
    server.ask("PUT", &subscription(id), &[JSON], &body.to_string())
}

fn get(server: &Running, id: &str) -> Value {
    server.ask("GET", &subscription(id), &[], "").json()
}

fn wait(mut is_so: impl FnMut() -> bool, what: &str) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// A client may go away while the barrier of its request is under way.
#[test]
fn a_delete_whose_client_goes_away_is_done_all_the_same_and_its_id_is_free() {
    let server = start(&[("webhook-localhost", "true"), ("durability", "wal")]);
    let url = "http://127.0.0.1:9/";
    for number in 0..20 {
        let id = format!("s{number}");
        assert_eq!(subscribe(&server, &id, url).status, 201);
        let mut client = server.client();
        client.send(request("DELETE", &subscription(&id), &[], ""));
        let told = || server.ask("GET", &subscription(&id), &[], "").status;
        wait(|| told() == 404, "it is not deleted");
        client.stream.get_ref().shutdown(Shutdown::Both).unwrap();
    }
    for number in 0..20 {
        let id = format!("s{number}");
        // Until its end is durable the id is taken.
        wait(|| subscribe(&server, &id, url).status == 201, "the id names nothing for ever");
    }
}

/// Points 50 and 52.
#[test]
fn a_webhook_is_sent_signed_and_its_done_moves_the_cursor() {
    // Also where what wakes it would be durable in an hour.
    for durability in ["wal", "relaxed=1h"] {
        wakes_and_is_done(&start(&[("webhook-localhost", "true"), ("durability", durability)]));
    }
}

fn wakes_and_is_done(server: &Running) {
    let receiver = Receiver::new();
    assert_eq!(subscribe(server, "s", &receiver.url).status, 201);
    assert_eq!(subscribe(server, "s", &receiver.url).status, 200);
    server.make("events/a");
    server.append("events/a", "x");
    let (stream, head, body) = receiver.take();
    assert!(head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("webhook-signature: t="), "{head}");
    let callback = "http://test/v1/stream/__ds/subscriptions/s/callback";
    assert_eq!(body["callback_url"], callback, "the URL that the client used");
    let tail = body["streams"][0]["tail_offset"].clone();
    reply(stream, "200 OK", r#"{"done":true}"#);
    let is_acked = || get(server, "s")["streams"][0]["acked_offset"] == tail;
    wait(is_acked, "the cursor does not move");
    assert!(server.metrics().contains("highwater_webhooks_delivered_total 1"));
}

/// What the server keeps of a wake is longer than anything that clients may send.
#[test]
fn the_server_s_own_records_find_room_however_little_clients_may_send_at_once() {
    let changes = [("webhook-localhost", "true"), ("max-body-bytes", "300")];
    let server = start(&changes);
    let receiver = Receiver::new();
    let names: Vec<String> = (0..40).map(|n| format!("events/{n}{}", "x".repeat(200))).collect();
    assert_eq!(subscribe(&server, "s", &receiver.url).status, 201);
    let refused =
        server.ask("PUT", &stream("b"), &[("Content-Type", "text/plain")], &"x".repeat(301));
    assert_eq!(refused.status, 413);
    for name in &names {
        server.make(name);
    }
    for name in &names {
        assert_eq!(server.append(name, "x").status, 204);
    }
    let mut missing: std::collections::BTreeSet<_> = names.iter().map(String::as_str).collect();
    while !missing.is_empty() {
        let (stream, _, body) = receiver.take();
        for pending in body["streams"].as_array().unwrap() {
            missing.remove(pending["path"].as_str().unwrap());
        }
        reply(stream, "200 OK", r#"{"done":true}"#);
    }
    wait(|| get(&server, "s")["status"] == "active", "it is not done");
    assert!(server.ask("POST", &stream("__ds/keys"), &[], "").status < 300);
    let server = start_in(server.stop(), &changes);
    assert_eq!(get(&server, "s")["status"], "active");
}

/// Points 52 and 54.
#[test]
fn a_webhook_that_fails_is_sent_again_also_after_a_restart_and_redirects_are_failures() {
    let server = start(&[("webhook-localhost", "true")]);
    let receiver = Receiver::new();
    subscribe(&server, "s", &receiver.url);
    server.make("events/a");
    server.append("events/a", "x");
    let (stream, _, first) = receiver.take();
    reply(stream, "307 Temporary Redirect", "");
    wait(|| get(&server, "s")["status"] == "failed", "a failure is not noted");
    let server = start_in(server.stop(), &[("webhook-localhost", "true")]);
    let (stream, _, again) = receiver.take();
    assert_eq!(again["wake_id"], first["wake_id"]);
    assert_eq!(again["generation"], first["generation"]);
    reply(stream, "200 OK", r#"{"done":true}"#);
    wait(|| get(&server, "s")["status"] == "active", "success is not noted");
}

/// Point 51.
#[test]
fn webhooks_into_the_own_network_are_refused() {
    let server = start(&[]);
    for url in [
        "http://127.0.0.1:1/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:10.0.0.1]/",
        "https://localhost/",
        "http://example.org/",
        "ftp://example.org/",
    ] {
        let refused = subscribe(&server, "s", url);
        assert_eq!(refused.status, 400, "{url}");
        assert_eq!(refused.json()["error"]["code"], "WEBHOOK_URL_REJECTED", "{url}");
    }
}

/// Points 48 and 49.
#[test]
fn subscriptions_are_refused_with_codes_that_clients_look_for() {
    let server = start(&[("webhook-localhost", "true")]);
    let bad = server.ask("PUT", &subscription("s"), &[JSON], "{}");
    assert_eq!((bad.status, bad.json()["error"]["code"].as_str()), (400, Some("INVALID_REQUEST")));
    let missing = server.ask("GET", &subscription("s"), &[], "");
    assert_eq!(missing.status, 404);
    subscribe(&server, "s", "http://127.0.0.1:9/");
    let other = subscribe(&server, "s", "http://127.0.0.1:9/other");
    assert_eq!(other.json()["error"]["code"], "SUBSCRIPTION_EXISTS");
    let ack = format!("{}/ack", subscription("s"));
    let body = json!({ "wake_id": "w", "generation": 1 }).to_string();
    let refused = server.ask("POST", &ack, &[JSON], &body);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    let remove = format!("{}/streams/a%2Fb/c", subscription("s"));
    assert_eq!(server.ask("DELETE", &remove, &[], "").status, 204);
    let odd = server.ask("PATCH", &subscription("s"), &[], "");
    assert_eq!(odd.header("allow"), Some("GET, HEAD, PUT, DELETE, OPTIONS"));
    assert_eq!(server.ask("DELETE", &subscription("s"), &[], "").status, 204);
    assert_eq!(server.ask("DELETE", &subscription("s"), &[], "").status, 404);
}

/// Point 50.
#[test]
fn the_keys_that_webhooks_are_signed_with_are_the_same_after_a_restart() {
    let server = start(&[]);
    let path = stream("__ds/jwks.json");
    let first = server.ask("GET", &path, &[], "");
    assert_eq!(first.header("content-type"), Some("application/jwk-set+json"));
    assert_eq!(first.header("cache-control"), Some("public, max-age=300"));
    let server = start_in(server.stop(), &[]);
    assert_eq!(server.ask("GET", &path, &[], "").json(), first.json());
    let listed = server.ask("GET", &stream("__ds/streams"), &[], "").json();
    assert_eq!(listed["streams"], json!([]), "what the server keeps for itself is not listed");
}

/// I11, point 49: what is followed is shown in pages, and what it takes can be seen.
#[test]
fn a_subscriptions_streams_are_shown_a_page_at_a_time_and_their_memory_is_told() {
    let server = start(&[("webhook-localhost", "true"), ("max-links-bytes", "1KiB")]);
    for name in ["events/a", "events/b", "events/c"] {
        server.make(name);
    }
    assert_eq!(subscribe(&server, "s", "http://127.0.0.1:9/").status, 201);
    let page = |query: &str| {
        let answer = server.ask("GET", &format!("{}{query}", subscription("s")), &[], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        let paths = body["streams"].as_array().unwrap().iter().map(|s| s["path"].clone());
        (json!(paths.collect::<Vec<_>>()), body["next_after"].clone())
    };
    assert_eq!(page(""), (json!(["events/a", "events/b", "events/c"]), Value::Null));
    assert_eq!(page("?limit=2"), (json!(["events/a", "events/b"]), json!("events/b")));
    assert_eq!(page("?limit=2&after=events%2Fb"), (json!(["events/c"]), Value::Null));
    for bad in ["?limit=0", "?limit=1001"] {
        let answer = server.ask("GET", &format!("{}{bad}", subscription("s")), &[], "");
        assert_eq!(answer.status, 400);
    }
    let metrics = server.metrics();
    assert!(metrics.contains("highwater_subscriptions 1\n"), "{metrics}");
    assert!(metrics.contains("highwater_links_bytes 0\n"), "nothing is acknowledged");
    server.append("events/a", "x");
    wait(|| !server.metrics().contains("highwater_links_waiting_bytes 0\n"), "nothing waits");
    let names: Vec<String> = (0..4).map(|number| format!("named/{number}")).collect();
    let hook = json!({ "url": "http://127.0.0.1:9/" });
    let body = json!({ "type": "webhook", "streams": names, "webhook": hook });
    let full = server.ask("PUT", &subscription("t"), &[JSON], &body.to_string());
    assert_eq!((full.status, full.json()["code"].as_str()), (507, Some("FULL")));
}

/// I11, point 52: receivers that never answer have their places, and leave others theirs.
#[test]
fn receivers_that_hang_keep_no_other_waiting_and_what_waits_keeps_its_lease() {
    let server = start(&[
        ("webhook-localhost", "true"),
        ("webhook-deliveries", "4"),
        ("webhook-deliveries-per-host", "2"),
    ]);
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let hook = |name: &str, url: &str| {
        json!({ "type": "webhook", "streams": [name], "webhook": { "url": url } }).to_string()
    };
    for number in 0..20 {
        let path = subscription(&format!("hangs{number}"));
        assert_eq!(server.ask("PUT", &path, &[JSON], &hook("slow", &url)).status, 201);
    }
    let receiver = Receiver::new();
    for number in 0..3 {
        let path = subscription(&format!("good{number}"));
        assert_eq!(server.ask("PUT", &path, &[JSON], &hook("fast", &receiver.url)).status, 201);
    }
    server.make("slow");
    server.append("slow", "x");
    // Those that hang have their places by now.
    let _held = (silent.accept().unwrap(), silent.accept().unwrap());
    server.make("fast");
    server.append("fast", "x");
    for _ in 0..3 {
        let (stream, _, body) = receiver.take();
        assert_eq!(body["generation"], 1);
        reply(stream, "200 OK", r#"{"done":true}"#);
    }
    wait(
        || server.metrics().contains("highwater_webhooks_delivered_total 3"),
        "somebody keeps others waiting",
    );
}

/// Point 50.
#[test]
fn keys_are_rotated_over_http_and_what_is_published_survives_a_restart() {
    let server = start(&[("webhook-localhost", "true")]);
    let (keys, jwks) = (stream("__ds/keys"), stream("__ds/jwks.json"));
    let kids = |server: &Running| {
        let set = server.ask("GET", &jwks, &[], "").json();
        let kids = set["keys"].as_array().unwrap().iter().map(|key| key["kid"].clone());
        kids.collect::<Vec<_>>()
    };
    let first = kids(&server);
    assert_eq!(server.ask("GET", &keys, &[], "").header("allow"), Some("POST, OPTIONS"));
    assert_eq!(server.ask("POST", &keys, &[JSON], "[1]").status, 400);
    let made = server.ask("POST", &keys, &[], "");
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(server.ask("POST", &keys, &[], "").status, 200, "it waits for its time");
    let both = [first[0].clone(), made.json()["kid"].clone()];
    assert_eq!(kids(&server), both);
    subscribe(&server, "s", "http://127.0.0.1:9/");
    assert_eq!(get(&server, "s")["webhook"]["signing"]["kid"], both[0], "the old one signs still");
    let server = start_in(server.stop(), &[("webhook-localhost", "true")]);
    assert_eq!(kids(&server), both);
    let compromised = json!({ "compromised": true }).to_string();
    let made = server.ask("POST", &keys, &[JSON], &compromised);
    assert_eq!(made.status, 201);
    let last = [made.json()["kid"].clone()];
    assert_eq!(kids(&server), last);
    let server = start_in(server.stop(), &[("webhook-localhost", "true")]);
    assert_eq!(kids(&server), last);
    let receiver = Receiver::new();
    subscribe(&server, "t", &receiver.url);
    server.make("events/a");
    server.append("events/a", "x");
    let (_stream, head, _) = receiver.take();
    assert!(head.contains(last[0].as_str().unwrap()), "{head}");
}
