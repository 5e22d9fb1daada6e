//! What `serve` says: its settings, and what it does when it has started.

use std::fmt::Write as _;

use highwater_server::Server;
use highwater_server::settings::{KEYS, Key, Settings, ValueKind};

use super::merge::Merged;

/// Writes every setting as a configuration file, with what it is and where it comes from.
pub fn configuration(merged: &Merged) -> String {
    let mut text = String::new();
    let mut group = "";
    let write = "writing to a string does not fail";
    for key in KEYS {
        if key.group != group {
            group = key.group;
            writeln!(text, "\n### {group}").expect(write);
        }
        let source = merged.sources.get(key.name).map_or("default", String::as_str);
        writeln!(text, "\n# {} ({})", key.help.trim(), key.unit).expect(write);
        let line = format!("{} = {}", key.name, key.kind.toml(&value(key, &merged.settings)));
        writeln!(text, "{line} # {}", source.replace('\n', " ")).expect(write);
    }
    text.trim_start().to_owned()
}

/// Gives a setting's value; a path as it is from anywhere, since the file may be put elsewhere.
fn value(key: &Key, settings: &Settings) -> String {
    let text = key.get(settings);
    match key.kind {
        ValueKind::Path if !text.is_empty() => {
            let whole = std::path::absolute(&text).ok();
            // Text says nothing of folders whose names are none.
            whole.and_then(|whole| whole.into_os_string().into_string().ok()).unwrap_or(text)
        }
        _ => text,
    }
}

/// Says where the server is, what an acknowledgement means, and how to try it.
pub fn started(server: &Server) -> String {
    let settings = server.settings();
    let scheme = if settings.has_tls() { "https" } else { "http" };
    let base = format!("{scheme}://{}", server.address());
    let url = format!("{base}{}/hello", settings.stream_root.trim_end_matches('/'));
    let insecure = if settings.tls_self_signed { " -k" } else { "" };
    let token = if settings.has_auth() { " -H 'Authorization: Bearer TOKEN'" } else { "" };
    let curl = format!("curl{insecure}{token}");
    format!(
        "highwater is listening on {base}, with its data in {}\n\
         durability={}: {}\n{}{}\n  \
         {curl} -X PUT -H 'Content-Type: text/plain' {url}\n  \
         {curl} -X POST -H 'Content-Type: text/plain' -d 'hello' {url}\n  \
         {curl} -N '{url}?offset=-1&live=sse'\n\n",
        settings.data_dir.display(),
        settings.durability,
        settings.durability.meaning(),
        server.write_paths(),
        server.cut_short().map(|cut| format!("{cut}\n")).unwrap_or_default(),
    )
}
