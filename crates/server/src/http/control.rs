//! What lies below `__ds`: subscriptions, the keys that webhooks are signed with, lists of streams.

use std::sync::Arc;

use highwater_streams::error::Problem;
use highwater_streams::path::StreamPath;
use highwater_streams::subscriptions::config::{Config, Delivery};
use highwater_streams::subscriptions::{MOST_STREAMS_OF_A_PAGE, Page, named_streams};
use http::{Method, Response, StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::body::{self, Collected};
use super::failure::Failure;
use super::reply::Reply;
use super::{Answer, Asked, cold, names, route};
use crate::access::bearer;
use crate::access::scope::Action;

/// Bytes of a body here, at most: names of a thousand streams, and where a worker is in them.
const MOST_OF_A_BODY: u64 = 1 << 20;
/// Names in one answer at most, and where nothing is said.
const MOST_NAMES: usize = 1000;

/// Which part of a list is asked for.
struct List {
    prefix: String,
    after: Option<String>,
    limit: usize,
}

impl Asked<'_> {
    /// Answers a request below `__ds`.
    pub(super) async fn control(&self, segments: &[String], body: Incoming) -> Answer {
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["jwks.json"] => {
                self.only_get()?;
                Ok(self.jwks())
            }
            ["keys"] => {
                self.only(&Method::POST)?;
                self.rotate(body).await
            }
            ["streams"] => {
                self.only_get()?;
                self.list().await
            }
            ["subscriptions", id] => self.subscription(id, body).await,
            ["subscriptions", id, "streams"] => {
                self.only(&Method::POST)?;
                self.may(Action::Admin, id)?;
                let body = self.collect(body).await?;
                let names = named_streams(&body.bytes)?;
                self.may_read_all(&names)?;
                self.app.subscriptions.add_streams(id, &names).await?;
                Ok(nothing())
            }
            ["subscriptions", id, "streams", rest @ ..] if !rest.is_empty() => {
                self.only(&Method::DELETE)?;
                self.may(Action::Admin, id)?;
                self.app.subscriptions.remove_stream(id, &rest.join("/")).await?;
                Ok(nothing())
            }
            ["subscriptions", id, what @ ("callback" | "ack" | "claim" | "release")] => {
                self.only(&Method::POST)?;
                self.work(id, what, body).await
            }
            _ => Err(Failure::NoSuchPath),
        }
    }

    async fn subscription(&self, id: &str, body: Incoming) -> Answer {
        let subscriptions = &self.app.subscriptions;
        match self.parts.method {
            Method::PUT => {
                self.may(Action::Admin, id)?;
                let body = self.collect(body).await?;
                let config = subscriptions.config(&body.bytes)?;
                self.may_subscribe(&config)?;
                let root = self.root();
                let (value, is_new) = cold::put(self.app, id, (config, body), &root).await?;
                let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                Ok(json_answer(status, &value))
            }
            Method::GET | Method::HEAD => {
                self.may(Action::Read, id)?;
                let List { after, limit, .. } = self.list_of(MOST_STREAMS_OF_A_PAGE)?;
                let page = Page { after, limit };
                let value = cold::get(subscriptions, id, &self.root(), page).await?;
                Ok(json_answer(StatusCode::OK, &value))
            }
            Method::DELETE => {
                self.may(Action::Admin, id)?;
                // A client that goes away does not end it half-way.
                let (subscriptions, id) = (Arc::clone(subscriptions), id.to_owned());
                let deleting = tokio::spawn(async move { subscriptions.delete(&id).await });
                cold::taken(deleting.await)??;
                Ok(nothing())
            }
            _ => Err(Failure::Method { allow: route::ON_SUBSCRIPTION }),
        }
    }

    /// Whether the caller may have a subscription do what it does: it tells names and tails of the
    /// streams that it follows, and appends to its wake stream.
    fn may_subscribe(&self, config: &Config) -> Result<(), Failure> {
        if let Some(pattern) = config.glob() {
            self.who.may_matching(Action::Read, &pattern)?;
        }
        self.may_read_all(&config.streams)?;
        if let Delivery::PullWake { wake_stream } = &config.delivery {
            self.who.may(Action::Append, wake_stream)?;
        }
        Ok(())
    }

    fn may_read_all(&self, names: &[String]) -> Result<(), Failure> {
        for name in names {
            self.who.may(Action::Read, name)?;
        }
        Ok(())
    }

    /// Takes what workers say. All but claims bring the token of their wake, and need no other.
    async fn work(&self, id: &str, what: &str, body: Incoming) -> Answer {
        let token = bearer(&self.parts.headers);
        let subscriptions = &self.app.subscriptions;
        // Nobody has a place for a body who could not say anything with it.
        if what == "claim" {
            self.may(Action::Read, id)?;
        } else {
            let is_there = subscriptions.check_there(id);
            let is_given_out = subscriptions.check_given_out(id, token);
            // Where not everybody may everything, whoever has no token does not learn which
            // subscriptions there are.
            if self.app.access.is_limited() {
                is_given_out.and(is_there)?;
            } else {
                is_there.and(is_given_out)?;
            }
        }
        let body = self.collect(body).await?;
        match what {
            "claim" => {
                let claimed = subscriptions.claim(id, &body.bytes).await?;
                Ok(json_answer(StatusCode::OK, &claimed))
            }
            "release" => {
                subscriptions.release(id, token, &body.bytes).await?;
                Ok(nothing())
            }
            _ => {
                let next_wake = subscriptions.ack(id, token, &body.bytes).await?;
                let answer = json!({ "ok": true, "next_wake": next_wake });
                Ok(json_answer(StatusCode::OK, &answer))
            }
        }
    }

    fn jwks(&self) -> Response<Reply> {
        let mut response = json_answer(StatusCode::OK, &self.app.subscriptions.jwks());
        response.headers_mut().insert(header::CONTENT_TYPE, names::JWKS);
        response.headers_mut().insert(header::CACHE_CONTROL, names::JWKS_CACHE);
        response
    }

    /// Collects a body, none of which here needs to be long.
    async fn collect(&self, body: Incoming) -> Result<Collected, Failure> {
        body::collect_up_to(self.app, &self.parts.headers, (body, MOST_OF_A_BODY)).await
    }

    /// Makes another key to sign with.
    async fn rotate(&self, body: Incoming) -> Answer {
        let path = format!("{}/keys", route::CONTROL);
        self.who.may(Action::Admin, &path)?;
        let body = self.collect(body).await?;
        // A client that goes away does not end it half-way.
        let subscriptions = Arc::clone(&self.app.subscriptions);
        let rotating = tokio::spawn(async move { subscriptions.rotate_keys(&body.bytes).await });
        let (value, is_new) = cold::taken(rotating.await)??;
        if is_new {
            tracing::info!(key = %value, "webhooks get another key");
        }
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Ok(json_answer(status, &value))
    }

    /// Lists streams whose names begin so, page by page.
    async fn list(&self) -> Answer {
        let List { prefix, after, limit } = self.list_of(MOST_NAMES)?;
        self.who.may_all(Action::Admin, &prefix)?;
        let paths = cold::list(&self.app.streams, prefix, after, limit).await?;
        let names: Vec<&str> = paths.iter().map(StreamPath::as_str).collect();
        let next = names.last().filter(|_| names.len() == limit);
        Ok(json_answer(StatusCode::OK, &json!({ "streams": names, "next_after": next })))
    }

    /// Reads which part of a list is asked for.
    fn list_of(&self, most: usize) -> Result<List, Problem> {
        let mut list = List { prefix: String::new(), after: None, limit: most };
        for (name, value) in route::parameters(self.parts.uri.query().unwrap_or_default()) {
            match &*name {
                "prefix" => list.prefix = value.into_owned(),
                "after" => list.after = Some(value.into_owned()),
                "limit" => {
                    let given = value.parse().ok().filter(|n| (1..=most).contains(n));
                    list.limit =
                        given.ok_or(Problem::BadField { name: "limit", why: "1 to 1000" })?;
                }
                _ => {}
            }
        }
        Ok(list)
    }

    /// Whether the caller may do something with a subscription.
    fn may(&self, action: Action, id: &str) -> Result<(), Failure> {
        let path = format!("{}/subscriptions/{id}", route::CONTROL);
        Ok(self.who.may(action, &path)?)
    }

    /// Gives the URL of the stream root as the client used it.
    fn root(&self) -> String {
        let root = self.app.settings.stream_root.trim_end_matches('/');
        self.app.origins.base_url(self.peer, self.parts) + root
    }

    fn only(&self, method: &Method) -> Result<(), Failure> {
        let is_post = *method == Method::POST;
        let allow = if is_post { route::ONLY_POST } else { route::ONLY_DELETE };
        if self.parts.method == *method { Ok(()) } else { Err(Failure::Method { allow }) }
    }

    /// Refuses everything but GET and HEAD.
    pub(super) fn only_get(&self) -> Result<(), Failure> {
        match self.parts.method {
            Method::GET | Method::HEAD => Ok(()),
            _ => Err(Failure::Method { allow: route::ONLY_GET }),
        }
    }
}

/// Whether a request there brings the token of a wake, which is none of a caller's.
pub(super) fn has_its_own_token(segments: &[String]) -> bool {
    let path: Vec<&str> = segments.iter().map(String::as_str).collect();
    matches!(path.as_slice(), ["subscriptions", _, "callback" | "ack" | "release"])
}

fn nothing() -> Response<Reply> {
    let mut response = Response::new(Reply::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Makes an answer of JSON that nobody keeps.
fn json_answer(status: StatusCode, body: &Value) -> Response<Reply> {
    let mut response = Response::new(Reply::bytes(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, names::JSON);
    response.headers_mut().insert(header::CACHE_CONTROL, names::NO_STORE);
    response
}
