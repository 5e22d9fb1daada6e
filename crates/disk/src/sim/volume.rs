//! Everything a simulated disk stores: names, files, space, and what is not durable yet.

use std::collections::{BTreeMap, BTreeSet};

use super::content::{BLOCK_BYTES, Fate, FileState};
use super::hash::Fnv;
use super::names::{FileId, Name, NameEffect, Names, Node, PendingName, split_synced, sync_dir};
use crate::{Entry, ErrorKind};

/// Why a call was refused: the kind of error, and words.
pub(super) type Refusal = (ErrorKind, &'static str);

const NOT_FOUND: Refusal = (ErrorKind::NotFound, "no such file or directory");
const EXISTS: Refusal = (ErrorKind::Exists, "it exists already");
const IS_DIR: Refusal = (ErrorKind::Io, "it is a directory");
const OTHER_DEVICE: Refusal = (ErrorKind::Io, "the names are on different devices");
const NOT_DIR: Refusal = (ErrorKind::Io, "a component is not a directory");
pub(super) const NO_FILES: Refusal = (ErrorKind::TooManyFiles, "too many open files");
pub(super) const FULL: Refusal = (ErrorKind::Full, "no space left on the simulated disk");

/// The stored state of a disk.
#[derive(Clone)]
pub(super) struct Volume {
    pub(super) files: BTreeMap<FileId, FileState>,
    pub(super) view: Names,
    pub(super) durable: Names,
    pub(super) pending_names: Vec<PendingName>,
    /// Directories with a device of their own, besides the root.
    mounts: BTreeSet<String>,
    next_file: u64,
    capacity_blocks: u64,
    used_blocks: u64,
}

impl Volume {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            view: Names::default(),
            durable: Names::default(),
            pending_names: Vec::new(),
            mounts: BTreeSet::new(),
            next_file: 1,
            capacity_blocks: capacity_bytes / BLOCK_BYTES,
            used_blocks: 0,
        }
    }

    pub(super) fn file(&mut self, file: FileId) -> &mut FileState {
        self.files.get_mut(&file).expect("a file with a handle or a name is kept")
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_blocks.saturating_sub(self.used_blocks) * BLOCK_BYTES
    }

    pub(super) fn create(&mut self, path: &str) -> Result<FileId, Refusal> {
        let name = self.vacant(path)?;
        let file = FileId(self.next_file);
        self.next_file += 1;
        let device = self.device(&name.dir);
        self.files.insert(file, FileState { opens: 1, device, ..FileState::default() });
        self.change(NameEffect::Link { name, node: Node::File(file) });
        Ok(file)
    }

    pub(super) fn create_dir(&mut self, path: &str) -> Result<(), Refusal> {
        let name = self.vacant(path)?;
        self.change(NameEffect::Link { name, node: Node::Dir });
        Ok(())
    }

    pub(super) fn open(&mut self, path: &str) -> Result<FileId, Refusal> {
        let file = self.find(path)?;
        self.file(file).opens += 1;
        Ok(file)
    }

    pub(super) fn close(&mut self, file: FileId) {
        self.file(file).opens -= 1;
        self.reclaim(file);
    }

    pub(super) fn list(&self, path: &str) -> Result<Vec<Entry>, Refusal> {
        self.dir(path)?;
        let entry =
            |(name, node): (&str, Node)| Entry { name: name.to_owned(), is_dir: node == Node::Dir };
        Ok(self.view.list(path).map(entry).collect())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), Refusal> {
        let file = self.find(from)?;
        let to = Name::of(to);
        self.dir(&to.dir)?;
        if self.files[&file].device != self.device(&to.dir) {
            return Err(OTHER_DEVICE);
        }
        let replaced = match self.view.get(&to) {
            Some(Node::Dir) => return Err(IS_DIR),
            Some(Node::File(same)) if same == file => return Ok(()),
            Some(Node::File(replaced)) => Some(replaced),
            None => None,
        };
        self.change(NameEffect::Rename { from: Name::of(from), to, file });
        if let Some(replaced) = replaced {
            self.reclaim(replaced);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str) -> Result<(), Refusal> {
        let file = self.find(path)?;
        self.change(NameEffect::Unlink { name: Name::of(path), file });
        self.reclaim(file);
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &str) -> Result<(), Refusal> {
        self.dir(path)?;
        sync_dir(path, &mut self.pending_names, &mut self.durable);
        self.forget_unreachable();
        Ok(())
    }

    /// Forgets the unsynced names of a directory while the process goes on to see them.
    pub(super) fn drop_names(&mut self, path: &str) {
        drop(split_synced(path, &mut self.pending_names));
        self.forget_unreachable();
    }

    pub(super) fn sync_all(&mut self, path: &str) -> Result<(), Refusal> {
        self.dir(path)?;
        let device = self.device(path);
        for change in self.split_device(&device) {
            self.durable.apply(&change.effect);
        }
        for file in self.files.values_mut().filter(|file| file.device == device) {
            file.sync();
        }
        self.forget_unreachable();
        Ok(())
    }

    /// Forgets all unsynced sectors and names of a directory's device while the process goes on to
    /// see them.
    pub(super) fn drop_everything_unsynced(&mut self, path: &str) {
        let device = self.device(path);
        drop(self.split_device(&device));
        for file in self.files.values_mut().filter(|file| file.device == device) {
            file.drop_pages();
        }
        self.forget_unreachable();
    }

    pub(super) fn mount(&mut self, path: &str) {
        assert!(self.view.is_dir(path), "{path} is not a directory");
        assert!(self.view.list(path).next().is_none(), "{path} is not empty");
        self.mounts.insert(path.to_owned());
    }

    pub(super) fn write(
        &mut self,
        file: FileId,
        (bytes, offset): (&[u8], u64),
        operation: u64,
        fate: Fate,
    ) -> Result<(), Refusal> {
        let len = u64::try_from(bytes.len()).expect("usize fits u64");
        self.take_blocks(file, offset, len)?;
        self.file(file).write(bytes, offset, operation, fate);
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        file: FileId,
        len: u64,
        operation: u64,
    ) -> Result<(), Refusal> {
        self.take_blocks(file, 0, len)?;
        if len > self.file(file).view.len() {
            self.file(file).set_len(len, operation);
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self, file: FileId, len: u64, operation: u64) {
        let state = self.file(file);
        let before = state.blocks.len();
        state.set_len(len, operation);
        let freed = before - state.blocks.len();
        self.used_blocks -= u64::try_from(freed).expect("usize fits u64");
    }

    /// The file of a name, if it is one.
    pub(super) fn find(&self, path: &str) -> Result<FileId, Refusal> {
        let name = Name::of(path);
        self.dir(&name.dir)?;
        match self.view.get(&name) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir) => Err(IS_DIR),
            None => Err(NOT_FOUND),
        }
    }

    /// A hash of what is durable: names and contents.
    pub(super) fn durable_hash(&self) -> u64 {
        let mut reachable = self.durable.clone();
        reachable.drop_unreachable();
        let mut hash = Fnv::new();
        reachable.digest(&mut hash, |hash, file| self.files[&file].durable.digest(hash));
        hash.finish()
    }

    /// The disk after a crash that kept those unsynced changes for which `keep` says so, asked
    /// in the order in which [`Volume::pending`] lists them.
    pub(super) fn survivor(&self, mut keep: impl FnMut() -> bool) -> Self {
        let mut names = self.durable.clone();
        for change in &self.pending_names {
            if keep() {
                names.apply(&change.effect);
            }
        }
        names.drop_unreachable();
        let mut files = BTreeMap::new();
        for (id, file) in &self.files {
            // Asked for files without a name too: the list counts them.
            let survivor = file.survivor(file.pending.iter().filter(|_| keep()));
            if names.holds(*id) {
                files.insert(*id, survivor);
            }
        }
        let used = files.values().map(|file| file.blocks.len()).sum::<usize>();
        Self {
            files,
            view: names.clone(),
            durable: names,
            pending_names: Vec::new(),
            mounts: self.mounts.clone(),
            used_blocks: u64::try_from(used).expect("usize fits u64"),
            ..*self
        }
    }

    /// Each unsynced change in words: first the names, then file by file.
    pub(super) fn pending(&self) -> Vec<String> {
        let names = self.pending_names.iter().map(|change| change.effect.describe());
        let effects = self.files.iter().flat_map(|(FileId(id), file)| {
            file.pending.iter().map(move |effect| format!("file {id}: {}", effect.describe()))
        });
        names.chain(effects).collect()
    }

    /// Closes all handles: those of a copy belong to the original.
    pub(super) fn close_all(&mut self) {
        let ids: Vec<FileId> = self.files.keys().copied().collect();
        for id in ids {
            self.file(id).opens = 0;
            self.reclaim(id);
        }
    }

    /// The device that holds the names in a directory: its nearest mounted directory.
    fn device(&self, dir: &str) -> String {
        let mut at = dir;
        while !self.mounts.contains(at) {
            match at.rsplit_once('/') {
                Some((parent, _)) => at = parent,
                None => return String::new(),
            }
        }
        at.to_owned()
    }

    /// Takes out the unsynced names of a device. No change crosses two.
    fn split_device(&mut self, device: &str) -> Vec<PendingName> {
        let pending = std::mem::take(&mut self.pending_names);
        let (on, off) =
            pending.into_iter().partition(|change| self.device(change.effect.dir()) == device);
        self.pending_names = off;
        on
    }

    fn change(&mut self, effect: NameEffect) {
        self.view.apply(&effect);
        self.pending_names.push(PendingName::new(effect));
    }

    fn dir(&self, path: &str) -> Result<(), Refusal> {
        if self.view.is_dir(path) {
            return Ok(());
        }
        let mut prefix = path;
        while let Some((parent, _)) = prefix.rsplit_once('/') {
            if let Some(Node::File(_)) = self.view.get(&Name::of(prefix)) {
                return Err(NOT_DIR);
            }
            prefix = parent;
        }
        if self.view.get(&Name::of(prefix)).is_some_and(|node| node != Node::Dir) {
            return Err(NOT_DIR);
        }
        Err(NOT_FOUND)
    }

    fn vacant(&self, path: &str) -> Result<Name, Refusal> {
        let name = Name::of(path);
        self.dir(&name.dir)?;
        if self.view.get(&name).is_some() { Err(EXISTS) } else { Ok(name) }
    }

    fn take_blocks(&mut self, file: FileId, offset: u64, len: u64) -> Result<(), Refusal> {
        let missing = self.file(file).blocks_missing(offset, len);
        let wanted = u64::try_from(missing.len()).expect("usize fits u64");
        if wanted > 0 && self.used_blocks + wanted > self.capacity_blocks {
            return Err(FULL);
        }
        self.used_blocks += wanted;
        self.file(file).blocks.extend(missing);
        Ok(())
    }

    /// Gives back the space of a file that has neither name nor handle, and forgets it when no
    /// crash can bring its name back.
    fn reclaim(&mut self, id: FileId) {
        if self.view.holds(id) || self.file(id).opens > 0 {
            return;
        }
        let blocks = std::mem::take(&mut self.file(id).blocks);
        self.used_blocks -= u64::try_from(blocks.len()).expect("usize fits u64");
        let pending = self.pending_names.iter().any(|change| change.effect.file() == Some(id));
        if !pending && !self.durable.holds(id) {
            self.files.remove(&id);
        }
    }

    fn forget_unreachable(&mut self) {
        let gone: Vec<FileId> =
            self.files.keys().copied().filter(|id| !self.view.holds(*id)).collect();
        for id in gone {
            self.reclaim(id);
        }
    }
}
