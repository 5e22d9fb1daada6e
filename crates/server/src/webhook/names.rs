//! Looks up the addresses of hosts, each by one lookup at a time that all who ask for it share.
//!
//! The system's resolver takes its time, and a thread: a lookup for which nobody waits any more
//! still has its place until it ends. So a host whose name servers do not answer has one place,
//! however many webhooks go there; and there are so many places that some such hosts keep nobody
//! waiting. Whoever waits for a place has not tried anything yet. The threads are their own: those
//! that read from the disk are few, and a server that stops waits for them.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, oneshot, watch};

/// Names that are looked up at once.
pub(crate) const LOOKUPS: usize = 32;

/// Addresses of a host, or why there are none.
type Found = Result<Vec<IpAddr>, String>;
/// Asks the system, which keeps the thread until it answers.
type Resolve = dyn Fn(&str) -> Found + Send + Sync;

/// Looks up names.
pub(super) struct Names {
    places: Arc<Semaphore>,
    resolve: Arc<Resolve>,
    running: Arc<Running>,
}

/// Lookups that have not ended, by host: one for each that somebody waits for, and as many more
/// as there are places at most.
type Running = Mutex<HashMap<String, Lookup>>;

/// The lookup of a host.
#[derive(Debug, Clone)]
pub(super) struct Lookup(watch::Receiver<State>);

#[derive(Debug, Clone)]
enum State {
    /// For a place.
    Waits,
    Begun,
    Ended(Found),
}

impl Names {
    /// Asks the system's resolver.
    pub fn new() -> Self {
        Self::by(|host| {
            let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
            Ok(found.map(|found| found.ip()).collect())
        })
    }

    fn by(resolve: impl Fn(&str) -> Found + Send + Sync + 'static) -> Self {
        let places = Arc::new(Semaphore::new(LOOKUPS));
        Self { places, resolve: Arc::new(resolve), running: Arc::default() }
    }

    /// Is done when the lookup of a host has a place.
    pub async fn begin(&self, host: &str) -> Lookup {
        let mut lookup = match host.parse() {
            Ok(address) => Lookup(watch::channel(State::Ended(Ok(vec![address]))).1),
            Err(_) => self.share(host),
        };
        // One that was given up is found to be that by whoever waits for its end.
        lookup.0.wait_for(|state| !matches!(state, State::Waits)).await.ok();
        lookup
    }

    /// Joins the lookup of a host, or begins one.
    fn share(&self, host: &str) -> Lookup {
        let mut running = lock(&self.running);
        if let Some(lookup) = running.get(host) {
            return lookup.clone();
        }
        let (tell, lookup) = watch::channel(State::Waits);
        let lookup = Lookup(lookup);
        running.insert(host.to_owned(), lookup.clone());
        drop(running);
        tokio::spawn(self.run(host.to_owned(), tell));
        lookup
    }

    fn run(
        &self,
        host: String,
        tell: watch::Sender<State>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (places, resolve) = (Arc::clone(&self.places), Arc::clone(&self.resolve));
        let running = Arc::clone(&self.running);
        async move {
            let place = places.acquire_owned().await;
            tell.send_replace(State::Begun);
            let name = host.clone();
            let (answer, answered) = oneshot::channel();
            let body = move || {
                let found = resolve(&name);
                drop(place);
                // It may be that the server is gone.
                answer.send(found).ok();
            };
            let thread = std::thread::Builder::new().name("lookup".to_owned()).spawn(body);
            let found = match thread {
                Ok(_) => answered.await.unwrap_or_else(|error| Err(error.to_string())),
                Err(error) => Err(error.to_string()),
            };
            // Whoever comes now asks again.
            lock(&running).remove(&host);
            tell.send_replace(State::Ended(found));
        }
    }
}

impl Lookup {
    /// Is done when the host has been looked up.
    pub async fn found(mut self) -> Found {
        let ended = self.0.wait_for(|state| matches!(state, State::Ended(_))).await;
        match ended.as_deref() {
            Ok(State::Ended(found)) => found.clone(),
            _ => Err("its host is not looked up any more".to_owned()),
        }
    }
}

fn lock(running: &Running) -> MutexGuard<'_, HashMap<String, Lookup>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A resolver that answers at once, but for hosts that hang until the sender is dropped.
    fn hanging() -> (Names, mpsc::Sender<()>, Arc<Mutex<Vec<String>>>) {
        let (release, held) = mpsc::channel::<()>();
        let (held, asked) = (Mutex::new(held), Arc::new(Mutex::new(Vec::new())));
        let heard = Arc::clone(&asked);
        let names = Names::by(move |host| {
            heard.lock().unwrap().push(host.to_owned());
            if host.starts_with("hang") {
                held.lock().unwrap().recv().unwrap_err();
            }
            Ok(vec![IpAddr::from([192, 0, 2, 1])])
        });
        (names, release, asked)
    }

    fn is_waiting<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    #[tokio::test]
    async fn a_host_whose_name_is_not_answered_has_one_lookup_and_keeps_nobody_else_waiting() {
        let (names, release, asked) = hanging();
        let mut hung = Vec::new();
        for _ in 0..16 {
            hung.push(names.begin("hang.example").await);
        }
        assert!(is_waiting(pin!(hung[0].clone().found())));
        for number in 0..20 {
            let lookup = names.begin(&format!("quick{number}.example")).await;
            assert_eq!(lookup.found().await.unwrap().len(), 1);
        }
        assert_eq!(names.begin("::1").await.found().await, Ok(vec!["::1".parse().unwrap()]));
        // Whoever gives up leaves it to those who come.
        hung.truncate(1);
        hung.push(names.begin("hang.example").await);
        drop(release);
        for lookup in hung {
            assert!(lookup.found().await.is_ok(), "all get what was found");
        }
        let asked = asked.lock().unwrap();
        assert_eq!(asked.iter().filter(|host| **host == "hang.example").count(), 1);
        assert!(lock(&names.running).is_empty());
    }

    #[tokio::test]
    async fn some_hosts_whose_names_are_not_answered_do_not_keep_another_waiting() {
        let (names, release, _) = hanging();
        let mut hung = Vec::new();
        for number in 0..LOOKUPS - 1 {
            let lookup = names.begin(&format!("hang{number}.example")).await;
            hung.push(tokio::spawn(lookup.found()));
            if number >= 3 {
                let quick = names.begin(&format!("quick{number}.example")).await;
                assert!(quick.found().await.is_ok(), "behind {}", number + 1);
            }
        }
        assert!(hung.iter().all(|hung| !hung.is_finished()));
        drop(release);
        for hung in hung {
            assert!(hung.await.unwrap().is_ok());
        }
    }

    #[tokio::test]
    async fn a_lookup_that_panics_is_one_that_finds_nothing_and_gives_its_place_back() {
        let names = Names::by(|_| panic!("broken on purpose"));
        for number in 0..2 * LOOKUPS {
            let lookup = names.begin(&format!("broken{number}.example")).await;
            assert!(lookup.found().await.is_err());
        }
    }

    #[tokio::test]
    async fn a_host_has_not_begun_while_no_place_is_free_and_is_looked_up_when_one_is() {
        let (names, release, asked) = hanging();
        for number in 0..LOOKUPS {
            drop(names.begin(&format!("hang{number}.example")).await);
        }
        let mut waits = pin!(names.begin("quick.example"));
        assert!(is_waiting(waits.as_mut()), "those for which nobody waits have their places still");
        tokio::task::yield_now().await;
        assert!(is_waiting(waits.as_mut()));
        assert!(!asked.lock().unwrap().iter().any(|host| host == "quick.example"));
        drop(release);
        assert!(waits.await.found().await.is_ok());
    }
}
