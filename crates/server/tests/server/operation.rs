//! What operators see.

use highwater_server::{ServeError, Server};

use crate::support::{settings, start, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

#[test]
fn metrics_count_what_was_done() {
    let server = start(&[]);
    server.make("a");
    for _ in 0..3 {
        server.append("a", "12345");
    }
    server.ask("GET", &stream("none"), &[], "");
    let metrics = server.metrics();
    for line in [
        "highwater_requests_total{operation=\"append\",status=\"2xx\"} 3",
        "highwater_requests_total{operation=\"create\",status=\"2xx\"} 1",
        "highwater_requests_total{operation=\"read\",status=\"4xx\"} 1",
        "highwater_content_in_bytes_total 15",
        "highwater_request_duration_seconds_count{operation=\"append\"} 3",
        "highwater_limits_hit_total{limit=\"rate\"} 0",
        "highwater_log_records_total{lane=\"0\"}",
        "highwater_log_barrier_seconds_count{lane=\"0\"}",
        "highwater_log_batch_records_bucket{le=\"+Inf\",lane=\"0\"}",
        "highwater_log_streams{lane=\"0\"}",
        "highwater_log_producers_forgotten_total{lane=\"0\"} 0",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
}

/// Rates and quantiles are computed over time and over servers.
#[test]
fn the_buckets_of_histograms_are_the_same_ones_whatever_was_counted() {
    let bounds = |metrics: &str| -> Vec<String> {
        let buckets = metrics.lines().filter(|line| line.contains("_bucket{"));
        buckets.map(|line| line.split_once('}').unwrap().0.to_owned()).collect()
    };
    let count = |metrics: &str, name: &str| -> u64 {
        let mut found = metrics.lines().filter_map(|line| line.strip_prefix(name));
        found.next().unwrap().trim().parse().unwrap()
    };
    let server = start(&[]);
    let before = server.metrics();
    server.make("a");
    for _ in 0..20 {
        server.append("a", &"x".repeat(5000));
    }
    let after = server.metrics();
    assert!(bounds(&before).len() > 300);
    assert_eq!(bounds(&before), bounds(&after));
    let all = "highwater_log_barrier_seconds_bucket{le=\"+Inf\",lane=\"0\"}";
    let counted = "highwater_log_barrier_seconds_count{lane=\"0\"}";
    assert!(count(&after, counted) >= 20);
    assert_eq!(count(&after, all), count(&after, counted));
}

/// What is forgotten is taken for new when it comes again: operators have to see it.
#[test]
fn a_producer_that_a_stream_forgets_is_counted_and_how_many_it_remembers_is_a_setting() {
    let server = start(&[("max-producers", "200")]);
    server.make("a");
    let mut client = server.client();
    let mut send = |id: &str| {
        let producer = [TEXT, ("Producer-Id", id), ("Producer-Epoch", "0"), ("Producer-Seq", "0")];
        client.ask("POST", &stream("a"), &producer, "x").status
    };
    for number in 0..200 {
        assert_eq!(send(&number.to_string()), 200);
    }
    assert_eq!(send("0"), 204, "all of them are known");
    let forgotten = "highwater_log_producers_forgotten_total{lane=\"0\"}";
    assert!(server.metrics().contains(&format!("{forgotten} 0")));
    assert_eq!(send("200"), 200);
    assert!(server.metrics().contains(&format!("{forgotten} 1")));
}

#[test]
fn streams_are_listed_by_prefix_page_by_page() {
    let server = start(&[("wal-lanes", "2")]);
    for name in ["b/1", "a/1", "a/3", "a/2", "c"] {
        server.make(name);
    }
    let list = |query: &str| {
        server.ask("GET", &format!("/v1/stream/__ds/streams?{query}"), &[], "").json()
    };
    let first = list("prefix=a/&limit=2");
    assert_eq!(first["streams"], serde_json::json!(["a/1", "a/2"]));
    assert_eq!(first["next_after"], "a/2");
    let second = list("prefix=a/&limit=2&after=a/2");
    assert_eq!(second["streams"], serde_json::json!(["a/3"]));
    assert!(second["next_after"].is_null());
    assert_eq!(list("")["streams"].as_array().unwrap().len(), 5);
    let bad = server.ask("GET", "/v1/stream/__ds/streams?limit=0", &[], "");
    assert_eq!(bad.status, 400);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::start(settings(&folder, &[])).unwrap();
    let again = Server::start(settings(&folder, &[])).unwrap_err();
    assert!(matches!(again, ServeError::Data { .. }), "{again}");
    assert!(again.to_string().contains("another process"), "{again}");
    let address = first.address().to_string();
    let other = tempfile::tempdir().unwrap();
    let taken = Server::start(settings(&other, &[("listen", &address)])).unwrap_err();
    assert!(matches!(taken, ServeError::Listen { .. }), "{taken}");
    let why = std::error::Error::source(&taken).unwrap().to_string();
    assert!(why.contains("in use") && !taken.to_string().contains(&why), "{taken}, said once");
    let open = Server::start(settings(&other, &[("listen", "0.0.0.0:0")])).unwrap_err();
    assert!(open.to_string().contains("--insecure-no-auth"), "{open}");
    drop(first);
    let lanes = Server::start(settings(&folder, &[("wal-lanes", "3")])).unwrap_err();
    assert!(lanes.to_string().contains("set wal-lanes to 1"), "{lanes}");
    for (name, text) in [("stream-lanes", "2"), ("segment-bytes", "32MiB")] {
        let differs = Server::start(settings(&folder, &[(name, text)])).unwrap_err().to_string();
        assert!(differs.contains(&format!("made with {name} = ")), "{differs}");
    }
    Server::start(settings(&folder, &[])).unwrap();
}

#[test]
fn a_data_directory_is_made_with_those_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("x/y/z").display().to_string();
    Server::start(settings(&folder, &[("data-dir", &deep)])).unwrap();
    assert!(folder.path().join("x/y/z").is_dir());
}
