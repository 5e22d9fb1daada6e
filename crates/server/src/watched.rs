//! Files of tokens, keys and certificates: whether they have changed since they were read.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::settings::Settings;

/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long they have to be as they are before they count as written.
const SETTLED: Duration = Duration::from_millis(250);
/// How often that is waited for, at most: what changes all the time is read all the same.
const MOST_WAITS: u32 = 8;

/// Tells one state of a file from another: device and inode, change time, length. The time of the
/// last write alone can be set, and a copy may bring it along.
type State = Option<(u64, u64, i64, i64, u64)>;

/// The files that settings name, and how they were when they were last read.
#[derive(Debug)]
pub(crate) struct Watched {
    files: Vec<PathBuf>,
    seen: Vec<State>,
}

impl Watched {
    /// Takes the files as they are. Before they are read: what changes then is noticed later.
    pub fn of(settings: &Settings) -> Self {
        let Settings { auth, auth_jwks, auth_hs256, tls_cert, tls_key, .. } = settings;
        let named = [auth, auth_jwks, auth_hs256, tls_cert, tls_key];
        let mut watched =
            Self { files: named.into_iter().flatten().cloned().collect(), seen: Vec::new() };
        watched.seen = watched.states();
        watched
    }

    /// Returns when files have changed, and whoever writes them seems to have ended: a file is
    /// often emptied before it is written.
    pub async fn changed(&mut self) {
        if self.files.is_empty() {
            return std::future::pending().await;
        }
        while self.states() == self.seen {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        for _ in 0..MOST_WAITS {
            self.seen = self.states();
            tokio::time::sleep(SETTLED).await;
            if self.states() == self.seen {
                return;
            }
        }
    }

    fn states(&self) -> Vec<State> {
        let state = |file: &PathBuf| {
            let now = std::fs::metadata(file).ok()?;
            Some((now.dev(), now.ino(), now.ctime(), now.ctime_nsec(), now.len()))
        };
        self.files.iter().map(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Whether a change is told when it is waited for on the tests' clock.
    async fn is_told(watched: &mut Watched) -> bool {
        tokio::time::timeout(3 * LOOK_EVERY, watched.changed()).await.is_ok()
    }

    fn one_file() -> (tempfile::TempDir, PathBuf, Settings) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        std::fs::write(&path, "first").unwrap();
        let settings = Settings { auth: Some(path.clone()), ..Settings::default() };
        (folder, path, settings)
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_before_anybody_waits_is_told_and_what_stays_is_not() {
        let (_folder, path, settings) = one_file();
        let mut watched = Watched::of(&settings);
        assert!(!is_told(&mut watched).await);
        std::fs::write(&path, "another").unwrap();
        assert!(is_told(&mut watched).await);
        assert!(!is_told(&mut watched).await);
        std::fs::remove_file(&path).unwrap();
        assert!(is_told(&mut watched).await);
    }

    #[tokio::test(start_paused = true)]
    async fn another_file_of_the_same_length_and_time_is_a_change() {
        let (folder, path, settings) = one_file();
        let mut watched = Watched::of(&settings);
        let (new, written) =
            (folder.path().join("new"), path.metadata().unwrap().modified().unwrap());
        std::fs::write(&new, "other").unwrap();
        std::fs::File::options().write(true).open(&new).unwrap().set_modified(written).unwrap();
        let moved = std::process::Command::new("mv").args([&new, &path]).status().unwrap();
        assert!(moved.success());
        assert!(is_told(&mut watched).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_being_written_is_waited_for() {
        let (_folder, path, settings) = one_file();
        let mut watched = Watched::of(&settings);
        std::fs::write(&path, "").unwrap();
        let mut changed = pin!(watched.changed());
        let mut context = Context::from_waker(Waker::noop());
        assert!(changed.as_mut().poll(&mut context).is_pending(), "it may not be all of it");
        std::fs::write(&path, "second, and all of it").unwrap();
        tokio::time::advance(SETTLED).await;
        assert!(changed.as_mut().poll(&mut context).is_pending(), "it was written meanwhile");
        tokio::time::advance(SETTLED).await;
        assert_eq!(changed.as_mut().poll(&mut context), Poll::Ready(()));
    }
}
