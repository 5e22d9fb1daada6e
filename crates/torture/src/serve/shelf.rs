//! A store as clients see it: listed and read over HTTP, chunk by chunk.

use super::http::{Client, Request};
use super::{Trouble, is_ours, step_of};
use crate::oracle::Seen;
use crate::real::judge::Shelf;

/// Names asked for at a time: few, so that lists have several pages.
const NAMES_PER_PAGE: usize = 7;

/// A server that was started again.
pub(super) struct Served<'a> {
    client: &'a mut Client,
    /// Streams whose sliding life began anew by being read, and its length, seconds.
    pub(super) used: Vec<(String, u64)>,
}

impl<'a> Served<'a> {
    /// Begins to look.
    pub(super) const fn new(client: &'a mut Client) -> Self {
        Self { client, used: Vec::new() }
    }
}

impl Shelf for Served<'_> {
    fn names(&mut self) -> Result<Vec<String>, String> {
        Ok(names(self.client, "")?)
    }

    fn look(&mut self, name: &str) -> Result<Option<Seen>, String> {
        let Some((seen, ttl)) = look(self.client, name)? else { return Ok(None) };
        if let Some(seconds) = ttl {
            self.used.push((name.to_owned(), seconds));
        }
        Ok(Some(seen))
    }
}

/// Lists the streams that workers made, page by page.
pub(super) fn names(client: &mut Client, prefix: &str) -> Result<Vec<String>, Trouble> {
    let mut names: Vec<String> = Vec::new();
    let mut after = String::new();
    loop {
        let page = format!("__ds/streams?prefix={prefix}&limit={NAMES_PER_PAGE}{after}");
        let answer = client.ask(&Request::new("GET", &page))?;
        let body = answer.json()?;
        let listed = body["streams"].as_array().ok_or_else(|| answer.told())?;
        names.extend(listed.iter().filter_map(|name| name.as_str().map(str::to_owned)));
        match body["next_after"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    if !names.is_sorted() {
        return Err(Trouble::Wrong(format!("a list is not in order: {names:?}")));
    }
    names.retain(|name| !is_ours(name));
    Ok(names)
}

/// Reads a whole stream; its sliding life, too.
pub(super) fn look(
    client: &mut Client,
    name: &str,
) -> Result<Option<(Seen, Option<u64>)>, Trouble> {
    let head = client.ask(&Request::new("HEAD", name))?;
    if matches!(head.status, 404 | 410) {
        return Ok(None);
    }
    let content_type = head.header("content-type").unwrap_or_default().to_owned();
    let ttl = head.header("stream-ttl").and_then(|seconds| seconds.parse().ok());
    let mut content = Vec::new();
    let mut offset = "-1".to_owned();
    let is_closed = loop {
        let answer = client.ask(&Request::new("GET", &format!("{name}?offset={offset}")))?;
        if matches!(answer.status, 404 | 410) {
            return Ok(None);
        }
        if answer.status != 200 {
            return Err(Trouble::Wrong(answer.told()));
        }
        content.extend_from_slice(&answer.body);
        let next = answer
            .header("stream-next-offset")
            .ok_or_else(|| Trouble::Wrong("a read without a next offset".to_owned()))?;
        if answer.says("stream-up-to-date") {
            break answer.says("stream-closed");
        }
        if next == offset {
            return Err(Trouble::Wrong(format!("a read at {offset} does not go on")));
        }
        next.clone_into(&mut offset);
    };
    let made = step_of(&content_type).unwrap_or(0);
    let seen = Seen { id: 0, made, content_type, expiry: None, fork: None, content, is_closed };
    Ok(Some((seen, ttl)))
}
