//! What is read from the disk, or looked for among all names, is read on threads that may block: a
//! worker never waits for that on behalf of one of its connections while the others wait for the
//! worker. How many threads there are is a bound; beyond it reads queue.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use highwater_streams::error::{Outcome, Problem};
use highwater_streams::live::Follower;
use highwater_streams::offset::Place;
use highwater_streams::path::StreamPath;
use highwater_streams::service::{Chunk, Create, Created, Streams};
use highwater_streams::subscriptions::{Page, Refusal, Subscriptions};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::app::App;

/// Threads of each worker that read from the disk.
pub(crate) const THREADS: usize = 8;

/// Reads a chunk: here where it is in memory.
pub(super) async fn read(streams: &Streams, path: &StreamPath, place: Place) -> Outcome<Chunk> {
    if !streams.is_cold(path, place) {
        return streams.read(path, place);
    }
    let (streams, path) = (streams.clone(), path.clone());
    done(spawn_blocking(move || streams.read(&path, place))).await
}

/// Makes a stream: where a fork begins in another may have to be looked for.
pub(super) async fn create(
    streams: &Streams,
    path: &StreamPath,
    request: Create<'_>,
    body: &Bytes,
) -> Outcome<Created> {
    if !request.fork.as_ref().is_some_and(|from| streams.is_fork_cold(from)) {
        return streams.create(path, &request).await;
    }
    let Create { content_type, lifetime, end, fork, .. } = request;
    let (streams, path, body) = (streams.clone(), path.clone(), body.clone());
    let runtime = Handle::current();
    done(spawn_blocking(move || {
        let request = Create { content_type, lifetime, end, body: &body, fork };
        runtime.block_on(streams.create(&path, &request))
    }))
    .await
}

/// Begins to follow a stream: a message's start may have to be looked for.
pub(super) async fn follow(
    streams: &Streams,
    path: &StreamPath,
    place: Place,
    follow: impl FnOnce(&Streams, &StreamPath) -> Outcome<Follower> + Send + 'static,
) -> Outcome<Follower> {
    if !streams.is_cold(path, place) {
        return follow(streams, path);
    }
    let (streams, path) = (streams.clone(), path.clone());
    done(spawn_blocking(move || follow(&streams, &path))).await
}

/// Reads subscriptions again that could not be written.
pub(crate) async fn refresh(subscriptions: &Arc<Subscriptions>) -> Outcome<()> {
    let subscriptions = Arc::clone(subscriptions);
    done(spawn_blocking(move || subscriptions.refresh())).await
}

/// Looks for pending streams that are not in memory.
pub(crate) async fn search(subscriptions: &Arc<Subscriptions>) -> Outcome<()> {
    let subscriptions = Arc::clone(subscriptions);
    let searching = move || {
        subscriptions.search();
        Ok(())
    };
    done(spawn_blocking(searching)).await
}

/// Makes or confirms a subscription. One that is made looks at all names: one at a time.
pub(super) async fn put(
    app: &App,
    id: &str,
    body: &Bytes,
    root: &str,
) -> Result<(Value, bool), Refusal> {
    let making = if app.subscriptions.is_there(id) {
        None
    } else {
        let making = Arc::clone(&app.making).acquire_owned().await;
        Some(making.expect("the semaphore is never closed"))
    };
    let subscriptions = Arc::clone(&app.subscriptions);
    let (id, body, root) = (id.to_owned(), body.clone(), root.to_owned());
    let runtime = Handle::current();
    let made = spawn_blocking(move || {
        runtime.block_on(async {
            let mut put = pin!(subscriptions.put(&id, &body, &root));
            let first = poll_fn(|context| Poll::Ready(put.as_mut().poll(context))).await;
            // It waits for a barrier, and that is for many.
            drop(making);
            match first {
                Poll::Ready(made) => made,
                Poll::Pending => put.await,
            }
        })
    });
    taken(made.await)?
}

/// Tells what a subscription is: which of the names it follows may have to be looked for.
pub(super) async fn get(
    subscriptions: &Arc<Subscriptions>,
    id: &str,
    root: &str,
    page: Page,
) -> Result<Value, Refusal> {
    let subscriptions = Arc::clone(subscriptions);
    let (id, root) = (id.to_owned(), root.to_owned());
    taken(spawn_blocking(move || subscriptions.get(&id, &root, &page)).await)?
}

/// Lists streams by name: where nobody has listed before, all names are looked at.
pub(super) async fn list(
    streams: &Streams,
    prefix: String,
    after: Option<String>,
    limit: usize,
) -> Outcome<Vec<StreamPath>> {
    let streams = streams.clone();
    done(spawn_blocking(move || Ok(streams.list(&prefix, after.as_deref(), limit)))).await
}

/// Does something with a follower that may read from the disk; gives it back with the result.
pub(super) fn with<T: Send + 'static>(
    mut follower: Box<Follower>,
    work: impl FnOnce(&mut Follower) -> Outcome<T> + Send + 'static,
) -> JoinHandle<(Box<Follower>, Outcome<T>)> {
    spawn_blocking(move || {
        let result = work(&mut follower);
        (follower, result)
    })
}

/// Takes what a thread gives; a panic there is one here.
pub(super) fn taken<T>(joined: Result<T, tokio::task::JoinError>) -> Outcome<T> {
    joined.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Problem::Failed("the server is stopping".to_owned()),
    })
}

async fn done<T>(thread: JoinHandle<Outcome<T>>) -> Outcome<T> {
    taken(thread.await)?
}
