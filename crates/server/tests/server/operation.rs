//! What operators see.

use highwater_server::{ServeError, Server};

use crate::support::{settings, start, stream};

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
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
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
    let open = Server::start(settings(&other, &[("listen", "0.0.0.0:0")])).unwrap_err();
    assert!(open.to_string().contains("--insecure-no-auth"), "{open}");
    drop(first);
    let lanes = Server::start(settings(&folder, &[("wal-lanes", "3")])).unwrap_err();
    assert!(lanes.to_string().contains("made with"), "{lanes}");
    Server::start(settings(&folder, &[])).unwrap();
}

#[test]
fn a_data_directory_is_made_with_those_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("x/y/z").display().to_string();
    Server::start(settings(&folder, &[("data-dir", &deep)])).unwrap();
    assert!(folder.path().join("x/y/z").is_dir());
}
