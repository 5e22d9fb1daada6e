//! Paths outside of the streams: named here. What they answer is in `http::operate` and, while the
//! log is being opened, in `net::opening`.

/// What is there for whoever runs the server, beside the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorPath {
    /// Whether the process answers.
    Health,
    /// Whether requests can be carried out.
    Readiness,
    /// What it counts.
    Metrics,
}

impl OperatorPath {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Health, Self::Readiness, Self::Metrics];

    /// Gives the path, with its slash.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Health => "/healthz",
            Self::Readiness => "/readyz",
            Self::Metrics => "/metrics",
        }
    }

    /// Finds the one at a path, of whatever form its request had.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.path() == path)
    }

    /// Finds the one at a path that has been cut.
    pub(crate) fn of(segments: &[String]) -> Option<Self> {
        let [only] = segments else { return None };
        Self::ALL.into_iter().find(|known| known.path().strip_prefix('/') == Some(only.as_str()))
    }

    /// Whether those look at it who see to it that a server runs; they have no token.
    pub(crate) fn is_probe(self) -> bool {
        self != Self::Metrics
    }
}
