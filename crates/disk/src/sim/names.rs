//! The names of a simulated disk, and the unsynced changes to them.

use std::collections::{BTreeMap, BTreeSet};

use super::hash::Fnv;

/// Identity of a file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(pub(super) u64);

/// A name: a directory's path, and a component in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) dir: String,
    pub(super) leaf: String,
}

impl Name {
    /// Takes a checked path apart.
    pub(super) fn of(path: &str) -> Self {
        let (dir, leaf) = path.rsplit_once('/').unwrap_or(("", path));
        Self { dir: dir.to_owned(), leaf: leaf.to_owned() }
    }

    fn path(&self) -> String {
        if self.dir.is_empty() { self.leaf.clone() } else { format!("{}/{}", self.dir, self.leaf) }
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    File(FileId),
}

/// A tree of names in which a file has one name at most.
#[derive(Clone, Default)]
pub(super) struct Names {
    nodes: BTreeMap<Name, Node>,
    places: BTreeMap<FileId, Name>,
}

/// One change to the names, which happens whole or not at all.
#[derive(Clone)]
pub(super) enum NameEffect {
    Link { name: Name, node: Node },
    Rename { from: Name, to: Name, file: FileId },
    Unlink { name: Name, file: FileId },
}

/// A change that is not durable yet.
#[derive(Clone)]
pub(super) struct PendingName {
    pub(super) effect: NameEffect,
    /// Directories still to be synced.
    unsynced: BTreeSet<String>,
}

impl Names {
    pub(super) fn get(&self, name: &Name) -> Option<Node> {
        self.nodes.get(name).copied()
    }

    pub(super) fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || self.get(&Name::of(path)) == Some(Node::Dir)
    }

    pub(super) fn holds(&self, file: FileId) -> bool {
        self.places.contains_key(&file)
    }

    /// The names in a directory, sorted.
    pub(super) fn list(&self, dir: &str) -> impl Iterator<Item = (&str, Node)> {
        let first = Name { dir: dir.to_owned(), leaf: String::new() };
        self.nodes
            .range(first..)
            .take_while(move |(name, _)| name.dir == dir)
            .map(|(name, node)| (name.leaf.as_str(), *node))
    }

    /// Makes a change, in full order or as one kept by a crash that dropped some it builds upon:
    /// a kept rename implies the creation of its file, and the removal of a file that is not
    /// there under that name changes nothing.
    pub(super) fn apply(&mut self, effect: &NameEffect) {
        match effect {
            NameEffect::Link { name, node: Node::Dir } => {
                self.displace(name);
                self.nodes.insert(name.clone(), Node::Dir);
            }
            NameEffect::Link { name, node: Node::File(file) } => self.place(name, *file),
            NameEffect::Rename { to, file, .. } => self.place(to, *file),
            NameEffect::Unlink { name, file } => {
                if self.places.get(file) == Some(name) {
                    self.displace(name);
                }
            }
        }
    }

    /// Drops the names in directories that have none themselves.
    pub(super) fn drop_unreachable(&mut self) {
        // A directory sorts before what it holds: its path is a prefix of theirs.
        for (name, node) in std::mem::take(self).nodes {
            if self.is_dir(&name.dir) {
                if let Node::File(file) = node {
                    self.places.insert(file, name.clone());
                }
                self.nodes.insert(name, node);
            }
        }
    }

    /// Feeds all names, sorted, to a hash, and each file by way of `content`.
    pub(super) fn digest(&self, hash: &mut Fnv, mut content: impl FnMut(&mut Fnv, FileId)) {
        for (name, node) in &self.nodes {
            hash.text(&name.path());
            match node {
                Node::Dir => hash.text("directory"),
                Node::File(file) => content(hash, *file),
            }
        }
    }

    fn place(&mut self, name: &Name, file: FileId) {
        if let Some(former) = self.places.remove(&file) {
            self.nodes.remove(&former);
        }
        self.displace(name);
        self.nodes.insert(name.clone(), Node::File(file));
        self.places.insert(file, name.clone());
    }

    fn displace(&mut self, name: &Name) {
        if let Some(Node::File(file)) = self.nodes.remove(name) {
            self.places.remove(&file);
        }
    }
}

impl NameEffect {
    pub(super) fn file(&self) -> Option<FileId> {
        match self {
            Self::Link { node: Node::Dir, .. } => None,
            Self::Link { node: Node::File(file), .. }
            | Self::Rename { file, .. }
            | Self::Unlink { file, .. } => Some(*file),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Link { name, node: Node::Dir } => format!("create_dir {}", name.path()),
            Self::Link { name, .. } => format!("create {}", name.path()),
            Self::Rename { from, to, .. } => format!("rename {} to {}", from.path(), to.path()),
            Self::Unlink { name, .. } => format!("remove {}", name.path()),
        }
    }

    /// A directory that it changes.
    pub(super) fn dir(&self) -> &str {
        match self {
            Self::Link { name, .. } | Self::Unlink { name, .. } | Self::Rename { to: name, .. } => {
                &name.dir
            }
        }
    }

    fn names(&self) -> Vec<&Name> {
        match self {
            Self::Link { name, .. } | Self::Unlink { name, .. } => vec![name],
            Self::Rename { from, to, .. } => vec![from, to],
        }
    }
}

impl PendingName {
    pub(super) fn new(effect: NameEffect) -> Self {
        let unsynced = effect.names().into_iter().map(|name| name.dir.clone()).collect();
        Self { effect, unsynced }
    }
}

/// Makes a directory's names durable: moves from `pending` to `durable` each change whose last
/// unsynced directory this is, and with it every earlier change it builds upon.
pub(super) fn sync_dir(dir: &str, pending: &mut Vec<PendingName>, durable: &mut Names) {
    let committed = split_synced(dir, pending);
    for change in &committed {
        durable.apply(&change.effect);
    }
}

/// Takes out of `pending` what a sync of this directory covers, in the order of the calls.
pub(super) fn split_synced(dir: &str, pending: &mut Vec<PendingName>) -> Vec<PendingName> {
    let mut names = BTreeSet::new();
    let mut files = BTreeSet::new();
    let (mut covered, mut left) = (Vec::new(), Vec::new());
    for mut change in pending.drain(..).rev() {
        change.unsynced.remove(dir);
        let file = change.effect.file();
        let needed = change.effect.names().into_iter().any(|name| names.contains(name))
            || file.is_some_and(|file| files.contains(&file));
        if needed || change.unsynced.is_empty() {
            names.extend(change.effect.names().into_iter().cloned());
            files.extend(file);
            covered.push(change);
        } else {
            left.push(change);
        }
    }
    left.reverse();
    covered.reverse();
    *pending = left;
    covered
}
