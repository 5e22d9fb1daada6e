//! What was done to one lane, in order, and how much of it something else vouches for.

use std::collections::BTreeMap;

/// What a reader sees of a name: its bytes, or that there is no stream.
pub(super) type Sight = Option<Vec<u8>>;

/// What came of looking at a name: nothing where the log said that something is damaged.
pub(super) type Looked = Option<Sight>;

/// One lane.
#[derive(Debug, Clone, Default)]
pub(super) struct Story {
    /// What each operation made of a name.
    steps: Vec<(String, Sight)>,
    /// So many steps have to be there, or the log has to say that something is damaged.
    floor: usize,
    /// So many are acknowledged: readers see them.
    acked: usize,
}

impl Story {
    /// Notes an operation that was taken in.
    pub(super) fn take(&mut self, name: &str, becomes: Sight) {
        self.steps.push((name.to_owned(), becomes));
    }

    /// What was taken in was committed. Nothing vouches for the last commit but itself.
    pub(super) fn committed(&mut self) {
        if self.acked < self.steps.len() {
            self.floor = self.acked;
            self.acked = self.steps.len();
        }
    }

    /// A checkpoint of everything has ended, or an epoch has begun behind it: either vouches for
    /// all.
    pub(super) fn vouched(&mut self) {
        self.acked = self.steps.len();
        self.floor = self.acked;
    }

    /// Names ever used.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.steps.iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// A name with everything taken in.
    pub(super) fn taken(&self, name: &str) -> Sight {
        self.after(self.steps.len(), name)
    }

    /// A name as readers see it.
    pub(super) fn public(&self, name: &str) -> Sight {
        self.after(self.acked, name)
    }

    /// Whether a name's deletion is under way: readers may be turned away already.
    pub(super) fn is_ending(&self, name: &str) -> bool {
        self.steps[self.acked..].iter().any(|(other, sight)| other == name && sight.is_none())
    }

    fn after(&self, steps: usize, name: &str) -> Sight {
        let last = self.steps[..steps].iter().rev().find(|(other, _)| other == name);
        last.and_then(|(_, sight)| sight.clone())
    }

    /// Finds how many steps came back, none that is vouched for being left out, and forgets the
    /// others; names that are damaged may be anything.
    pub(super) fn came_back(&mut self, seen: &BTreeMap<String, Looked>) -> Result<(), String> {
        let fits = |steps: usize| {
            let is = |(name, looked): (&String, &Looked)| {
                looked.as_ref().is_none_or(|sight| *sight == self.after(steps, name))
            };
            seen.iter().all(is)
        };
        let Some(steps) = (self.floor..=self.steps.len()).rev().find(|steps| fits(*steps)) else {
            return Err(self.explain(seen));
        };
        self.steps.truncate(steps);
        self.vouched();
        Ok(())
    }

    fn explain(&self, seen: &BTreeMap<String, Looked>) -> String {
        let brief = |sight: &Sight| sight.as_deref().map_or("nothing".to_owned(), brief_bytes);
        let streams = seen.iter().filter_map(|(name, looked)| {
            let is = brief(looked.as_ref()?);
            let (least, most) = (brief(&self.after(self.floor, name)), brief(&self.taken(name)));
            Some(format!("{name} is {is}, at least {least}, at most {most}"))
        });
        let streams: Vec<String> = streams.collect();
        let (floor, all, streams) = (self.floor, self.steps.len(), streams.join("; "));
        format!("{floor} steps of {all} have to be there; {streams}")
    }
}

fn brief_bytes(bytes: &[u8]) -> String {
    format!("{} bytes ({:08x})", bytes.len(), crc32c::crc32c(bytes))
}
