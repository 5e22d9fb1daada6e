//! What is read from the disk, or looked for among all names, is read on threads that may block: a
//! worker never waits for that on behalf of one of its connections while the others wait for the
//! worker. How many threads there are is a bound; beyond it reads queue. A job for which nobody
//! waits any more does not begin; one that has begun goes on to its end, and keeps until then what
//! was taken for it (I11).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use highwater_streams::error::{Outcome, Problem};
use highwater_streams::live::Follower;
use highwater_streams::offset::Place;
use highwater_streams::path::StreamPath;
use highwater_streams::service::{Chunk, Create, Created, Streams};
use highwater_streams::subscriptions::config::Config;
use highwater_streams::subscriptions::{Page, Refusal, Subscriptions};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::task::AbortOnDropHandle;

use super::body::Collected;
use crate::app::App;

/// Threads of each worker that read from the disk.
pub(crate) const THREADS: usize = 8;

/// What a thread does, or is to do when one is free: whoever drops it, waits for it no longer.
pub(super) type Job<T> = AbortOnDropHandle<T>;

/// Reads a chunk: here where it is in memory.
pub(super) async fn read(streams: &Streams, path: &StreamPath, place: Place) -> Outcome<Chunk> {
    if !streams.is_cold(path, place) {
        return streams.read(path, place);
    }
    let (streams, path) = (streams.clone(), path.clone());
    done(job(move || streams.read(&path, place))).await
}

/// Makes a stream of a request, but for its content, and a body: where a fork begins in another
/// may have to be looked for.
pub(super) async fn create(
    streams: &Streams,
    path: &StreamPath,
    request: Create<'static>,
    body: Collected,
) -> Outcome<Created> {
    if !request.fork.as_ref().is_some_and(|from| streams.is_fork_cold(from)) {
        return streams.create(path, &Create { body: &body.bytes, ..request }).await;
    }
    let (streams, path) = (streams.clone(), path.clone());
    let runtime = Handle::current();
    done(job(move || {
        runtime.block_on(streams.create(&path, &Create { body: &body.bytes, ..request }))
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
    done(job(move || follow(&streams, &path))).await
}

/// Reads subscriptions again that could not be written.
pub(crate) async fn refresh(subscriptions: &Arc<Subscriptions>) -> Outcome<()> {
    let subscriptions = Arc::clone(subscriptions);
    done(job(move || subscriptions.refresh())).await
}

/// Looks for pending streams that are not in memory.
pub(crate) async fn search(subscriptions: &Arc<Subscriptions>) -> Outcome<()> {
    let subscriptions = Arc::clone(subscriptions);
    let searching = move || {
        subscriptions.search();
        Ok(())
    };
    done(job(searching)).await
}

/// Makes or confirms a subscription, as its body says, whose room it holds. One that is made looks
/// at all names: one at a time.
pub(super) async fn put(
    app: &App,
    id: &str,
    (config, body): (Config, Collected),
    root: &str,
) -> Result<(Value, bool), Refusal> {
    let making = if app.subscriptions.is_there(id) {
        None
    } else {
        app.subscriptions.settle_streams().await;
        let making = Arc::clone(&app.making).acquire_owned().await;
        Some(making.expect("the semaphore is never closed"))
    };
    let subscriptions = Arc::clone(&app.subscriptions);
    let (id, root) = (id.to_owned(), root.to_owned());
    let runtime = Handle::current();
    let made = job(move || {
        let _room = body;
        runtime.block_on(async {
            let mut put = pin!(subscriptions.put(&id, config, &root));
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
    subscriptions.settle_streams().await;
    let subscriptions = Arc::clone(subscriptions);
    let (id, root) = (id.to_owned(), root.to_owned());
    taken(job(move || subscriptions.get(&id, &root, &page)).await)?
}

/// Lists streams by name: where nobody has listed before, all names are looked at.
pub(super) async fn list(
    streams: &Streams,
    prefix: String,
    after: Option<String>,
    limit: usize,
) -> Outcome<Vec<StreamPath>> {
    streams.settle_all().await?;
    let streams = streams.clone();
    done(job(move || Ok(streams.list(&prefix, after.as_deref(), limit)))).await
}

/// Does something with a follower that may read from the disk; gives it back with the result.
pub(super) fn with<T: Send + 'static>(
    mut follower: Box<Follower>,
    work: impl FnOnce(&mut Follower) -> Outcome<T> + Send + 'static,
) -> Job<(Box<Follower>, Outcome<T>)> {
    job(move || {
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

async fn done<T>(thread: Job<Outcome<T>>) -> Outcome<T> {
    taken(thread.await)?
}

fn job<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Job<T> {
    AbortOnDropHandle::new(spawn_blocking(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::budget::{Budget, Lease};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use tokio::runtime::{Builder, Runtime};

    fn with_one_thread() -> Runtime {
        Builder::new_current_thread().max_blocking_threads(1).build().unwrap()
    }

    /// Begins what goes on until it is released; gives what it says.
    fn begin(lease: Lease) -> (Job<()>, Sender<()>, Receiver<&'static str>) {
        let (release, held) = channel();
        let (say, said) = channel();
        let job = job(move || {
            say.send("begun").unwrap();
            held.recv().unwrap();
            drop(lease);
            say.send("ended").unwrap();
        });
        (job, release, said)
    }

    /// I11.
    #[test]
    fn work_for_which_nobody_waits_keeps_what_was_taken_for_it_until_it_has_ended() {
        let runtime = with_one_thread();
        let _entered = runtime.enter();
        let budget = Arc::new(Budget::new(100));
        let mut lease = budget.lease();
        assert!(lease.grow_to(60));
        let (begun, release, said) = begin(lease);
        assert_eq!(said.recv(), Ok("begun"));
        drop(begun);
        assert_eq!(budget.used(), 60);
        release.send(()).unwrap();
        assert_eq!(said.recv(), Ok("ended"));
        assert_eq!(budget.used(), 0);
    }

    /// I11.
    #[test]
    fn work_for_which_nobody_waits_never_begins_and_gives_back_what_was_taken_for_it() {
        let runtime = with_one_thread();
        let _entered = runtime.enter();
        let budget = Arc::new(Budget::new(100));
        let (first, release, said) = begin(budget.lease());
        assert_eq!(said.recv(), Ok("begun"));
        let mut lease = budget.lease();
        assert!(lease.grow_to(60));
        let (given_up, _keep, unsaid) = begin(lease);
        let last = job(|| "last");
        drop(given_up);
        release.send(()).unwrap();
        runtime.block_on(first).unwrap();
        assert_eq!(runtime.block_on(last).unwrap(), "last");
        assert_eq!(budget.used(), 0);
        assert!(unsaid.recv().is_err(), "it has begun");
    }

    #[tokio::test]
    #[should_panic(expected = "broken on purpose")]
    async fn what_panics_on_a_thread_panics_in_the_request_that_waits_for_it() {
        let broken = job(|| -> Outcome<()> { panic!("broken on purpose") });
        done(broken).await.ok();
    }
}
