//! Named slices through the matrix, each of whose dimensions can be overridden by a list.

use highwater_report::case::{Arrival, Barrier, Case, Every, FileState, IoMode, Sharing};
use highwater_report::data::{Group, GroupKind, Settings};

use crate::error::ProbeError;
use crate::plan::{AtEnd, Extent, Plan, planned};
use crate::site::Site;

/// Most cases of one run: more could be neither read nor waited for.
pub const MAX_CASES: usize = 4096;

/// A named slice.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// What varies in it.
    pub kind: GroupKind,
    /// Products of dimensions; the cases are their union, in order.
    pub products: Vec<Product>,
    /// Measured writes per round.
    pub iterations: u64,
    /// Writes before them.
    pub warmup: u64,
    /// Rounds.
    pub rounds: u32,
    /// Prepared file length; absent: exactly what is needed.
    pub capacity: Option<u64>,
    /// What happens at its end.
    pub at_end: AtEnd,
}

/// Values of each dimension; the cases are all combinations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Product {
    /// File states.
    pub state: Vec<FileState>,
    /// I/O modes.
    pub io: Vec<IoMode>,
    /// Barriers.
    pub barrier: Vec<Barrier>,
    /// Block sizes, bytes.
    pub block: Vec<u64>,
    /// Intervals between barriers.
    pub every: Vec<Every>,
    /// Numbers of writers.
    pub writers: Vec<u32>,
    /// Ways of sharing.
    pub sharing: Vec<Sharing>,
    /// Arrivals.
    pub arrival: Vec<Arrival>,
    /// Numbers of small files.
    pub files: Vec<u32>,
}

/// What the user wants otherwise; an empty list or `None` leaves the preset's choice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// Values of each dimension.
    pub product: Product,
    /// Measured writes per round.
    pub iterations: Option<u64>,
    /// Bytes written per round instead of a number of writes.
    pub total: Option<u64>,
    /// Writes before them.
    pub warmup: Option<u64>,
    /// Rounds.
    pub rounds: Option<u32>,
    /// Prepared file length, bytes.
    pub capacity: Option<u64>,
    /// Most bytes to write.
    pub max_bytes: Option<u64>,
    /// Seed.
    pub seed: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Product {
    /// The single case that applications write by default.
    fn single() -> Self {
        let case = Case::DEFAULT;
        Self {
            state: vec![case.state],
            io: vec![case.io],
            barrier: vec![case.barrier],
            block: vec![case.block],
            every: vec![case.every],
            writers: vec![case.writers],
            sharing: vec![case.sharing],
            arrival: vec![case.arrival],
            files: vec![case.files],
        }
    }

    /// These values, replaced in each dimension where `by` has any.
    fn overridden(&self, by: &Self) -> Self {
        fn pick<T: Clone>(ours: &[T], theirs: &[T]) -> Vec<T> {
            if theirs.is_empty() { ours.to_vec() } else { theirs.to_vec() }
        }
        Self {
            state: pick(&self.state, &by.state),
            io: pick(&self.io, &by.io),
            barrier: pick(&self.barrier, &by.barrier),
            block: pick(&self.block, &by.block),
            every: pick(&self.every, &by.every),
            writers: pick(&self.writers, &by.writers),
            sharing: pick(&self.sharing, &by.sharing),
            arrival: pick(&self.arrival, &by.arrival),
            files: pick(&self.files, &by.files),
        }
    }

    fn len(&self) -> usize {
        [
            self.state.len(),
            self.io.len(),
            self.barrier.len(),
            self.block.len(),
            self.every.len(),
            self.writers.len(),
            self.sharing.len(),
            self.arrival.len(),
            self.files.len(),
        ]
        .into_iter()
        .fold(1, usize::saturating_mul)
    }

    /// All combinations; later dimensions vary fastest.
    fn cases(&self) -> Vec<Case> {
        fn vary<T: Copy>(cases: &[Case], values: &[T], set: impl Fn(&mut Case, T)) -> Vec<Case> {
            let pairs =
                cases.iter().flat_map(|case| values.iter().map(move |value| (*case, *value)));
            pairs
                .map(|(mut case, value)| {
                    set(&mut case, value);
                    case
                })
                .collect()
        }
        let cases = vary(&[Case::DEFAULT], &self.block, |case, value| case.block = value);
        let cases = vary(&cases, &self.files, |case, value| case.files = value);
        let cases = vary(&cases, &self.state, |case, value| case.state = value);
        let cases = vary(&cases, &self.io, |case, value| case.io = value);
        let cases = vary(&cases, &self.barrier, |case, value| case.barrier = value);
        let cases = vary(&cases, &self.every, |case, value| case.every = value);
        let cases = vary(&cases, &self.arrival, |case, value| case.arrival = value);
        let cases = vary(&cases, &self.sharing, |case, value| case.sharing = value);
        vary(&cases, &self.writers, |case, value| case.writers = value)
    }
}

impl Preset {
    /// Names of all presets.
    pub const NAMES: &'static [&'static str] =
        &["commit", "wal", "sizes", "batch", "interval", "barriers", "group", "files", "custom"];

    /// Gives a preset by name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "commit" => commit(),
            "wal" => wal(),
            "sizes" => sizes(),
            "batch" => batch(),
            "interval" => interval(),
            "barriers" => barriers(),
            "group" => group(),
            "files" => files(),
            "custom" => custom(),
            _ => return None,
        })
    }

    /// Lays out the cases of this preset with a user's overrides.
    ///
    /// # Errors
    /// When a number makes no sense, or there are more cases than anybody could wait for.
    pub fn plan(&self, by: &Overrides, site: &Site) -> Result<Plan, ProbeError> {
        let cases = self.cases(by)?;
        let rounds = by.rounds.unwrap_or(self.rounds);
        if rounds == 0 || by.iterations == Some(0) || by.total == Some(0) {
            return Err(ProbeError::Settings(
                "--rounds, --iterations and --total are at least 1".to_owned(),
            ));
        }
        if by.product.files.iter().any(|files| *files < 2) {
            return Err(ProbeError::Settings(
                "--files takes 2 or more small files, made durable as one batch; for one file, \
                 leave it out"
                    .to_owned(),
            ));
        }
        let planned_cases = cases
            .iter()
            .enumerate()
            .map(|(index, case)| {
                let id = format!("c{:03}", index + 1);
                planned(id, self.name, *case, &self.extent(by, case), site)
            })
            .collect();
        let group =
            Group { id: self.name.to_owned(), title: self.question.to_owned(), kind: self.kind };
        Ok(Plan {
            preset: self.name.to_owned(),
            question: self.question.to_owned(),
            groups: vec![group],
            cases: planned_cases,
            settings: Settings { rounds, seconds: None, seed: by.seed, max_bytes: by.max_bytes },
        })
    }

    fn cases(&self, by: &Overrides) -> Result<Vec<Case>, ProbeError> {
        let products: Vec<Product> =
            self.products.iter().map(|product| product.overridden(&by.product)).collect();
        let count = products.iter().map(Product::len).fold(0, usize::saturating_add);
        if count > MAX_CASES {
            return Err(ProbeError::Settings(format!(
                "{count} cases are more than {MAX_CASES}: give shorter lists"
            )));
        }
        let mut cases: Vec<Case> = Vec::new();
        for case in products.iter().flat_map(Product::cases) {
            if !cases.iter().any(|known| is_same(known, &case)) {
                cases.push(case);
            }
        }
        Ok(cases)
    }

    fn extent(&self, by: &Overrides, case: &Case) -> Extent {
        let iterations = match by.total {
            Some(bytes) => bytes.div_ceil(case.block.max(1)),
            None => by.iterations.unwrap_or(self.iterations),
        };
        Extent {
            iterations,
            warmup: by.warmup.unwrap_or(self.warmup),
            capacity: by.capacity.or(self.capacity),
            at_end: self.at_end,
        }
    }
}

/// Whether two cases write the same way: without several writers nobody shares.
fn is_same(a: &Case, b: &Case) -> bool {
    a == b || (a.writers == 1 && Case { sharing: b.sharing, ..*a } == *b)
}

const STATES: [FileState; 3] = [FileState::Append, FileState::Allocated, FileState::Initialised];
const IO_MODES: [IoMode; 2] = [IoMode::Buffered, IoMode::Direct];
const TWO_BARRIERS: [Barrier; 2] = [Barrier::Fsync, Barrier::Fdatasync];

fn commit() -> Preset {
    let product = Product {
        state: STATES.to_vec(),
        barrier: vec![Barrier::Fsync, Barrier::Fdatasync, Barrier::None],
        block: vec![16 * KIB],
        ..Product::single()
    };
    Preset {
        name: "commit",
        question: "What does a buffered commit cost, by file state and barrier?",
        kind: GroupKind::Paths,
        products: vec![product],
        iterations: 2000,
        warmup: 100,
        rounds: 8,
        capacity: Some(64 * MIB),
        at_end: AtEnd::Wrap,
    }
}

fn wal() -> Preset {
    let product = Product {
        state: STATES.to_vec(),
        io: IO_MODES.to_vec(),
        barrier: TWO_BARRIERS.to_vec(),
        block: vec![16 * KIB],
        ..Product::single()
    };
    Preset {
        name: "wal",
        question: "What does a commit to a write-ahead log cost, by file state, I/O mode and \
                   barrier?",
        products: vec![product],
        at_end: AtEnd::Refuse,
        ..commit()
    }
}

fn sizes() -> Preset {
    let product = Product {
        block: (0..6).map(|step| (32 * KIB) << step).collect(),
        ..wal().products[0].clone()
    };
    Preset {
        name: "sizes",
        question: "How does the cost of a commit grow with its size?",
        kind: GroupKind::Sizes,
        products: vec![product],
        iterations: 100,
        warmup: 10,
        rounds: 5,
        capacity: None,
        at_end: AtEnd::Refuse,
    }
}

fn batch() -> Preset {
    let ladder = Product {
        barrier: vec![Barrier::Fdatasync],
        every: [1, 10, 100, 1000].map(Every::Writes).to_vec(),
        ..Product::single()
    };
    let direct = Product {
        io: vec![IoMode::Direct],
        barrier: vec![Barrier::Fdatasync],
        ..Product::single()
    };
    Preset {
        name: "batch",
        question: "What does batching writes under one barrier buy?",
        kind: GroupKind::Batch,
        products: vec![ladder, direct, Product::single()],
        iterations: 10_000,
        warmup: 100,
        rounds: 5,
        capacity: None,
        at_end: AtEnd::Refuse,
    }
}

fn interval() -> Preset {
    let mut every = vec![Every::Never, Every::End];
    every.extend([100 * MIB, 10 * MIB, MIB].map(Every::Bytes));
    every.extend([512, 256, 128, 64, 32, 16].map(|kib| Every::Bytes(kib * KIB)));
    let product = Product { barrier: vec![Barrier::Fdatasync], every, ..Product::single() };
    Preset {
        name: "interval",
        question: "How long does writing 1 GiB take, by the bytes between barriers?",
        kind: GroupKind::Interval,
        products: vec![product],
        iterations: (1 << 30) / 4096,
        warmup: 0,
        rounds: 3,
        capacity: None,
        at_end: AtEnd::Refuse,
    }
}

fn barriers() -> Preset {
    let product = Product {
        state: STATES.to_vec(),
        io: IO_MODES.to_vec(),
        barrier: Barrier::ALL.to_vec(),
        ..Product::single()
    };
    Preset {
        name: "barriers",
        question: "What does each kind of barrier cost, and what does it really do?",
        kind: GroupKind::Paths,
        products: vec![product],
        iterations: 500,
        warmup: 50,
        rounds: 5,
        capacity: None,
        at_end: AtEnd::Refuse,
    }
}

fn group() -> Preset {
    let product = Product {
        state: vec![FileState::Initialised],
        io: vec![IoMode::Direct],
        barrier: vec![Barrier::Fdatasync],
        writers: vec![1, 4, 16, 64, 256],
        sharing: vec![Sharing::Shared],
        arrival: vec![Arrival::Closed, Arrival::Open { per_second: 1000 }],
        ..Product::single()
    };
    Preset {
        name: "group",
        question: "What do concurrent writers gain from sharing one barrier?",
        kind: GroupKind::Writers,
        products: vec![product],
        iterations: 4096,
        warmup: 64,
        rounds: 5,
        capacity: None,
        at_end: AtEnd::Refuse,
    }
}

fn files() -> Preset {
    let files = vec![10, 100, 1000, 10_000, 100_000];
    let by_file = Product {
        barrier: vec![Barrier::Fdatasync],
        block: vec![256],
        writers: vec![1, 8],
        files,
        ..Product::single()
    };
    let at_once = Product { barrier: vec![Barrier::Syncfs], writers: vec![1], ..by_file.clone() };
    Preset {
        name: "files",
        question: "When does one syncfs beat a barrier per file?",
        kind: GroupKind::Files,
        products: vec![by_file, at_once],
        iterations: 1,
        warmup: 0,
        rounds: 3,
        capacity: None,
        at_end: AtEnd::Refuse,
    }
}

fn custom() -> Preset {
    Preset {
        name: "custom",
        question: "What do these write paths cost?",
        kind: GroupKind::Paths,
        products: vec![Product::single()],
        iterations: 1000,
        warmup: 100,
        rounds: 5,
        capacity: None,
        at_end: AtEnd::Refuse,
    }
}

#[cfg(test)]
#[path = "preset_tests.rs"]
mod tests;
