//! Values of settings: each reads itself from text and writes itself as text.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use highwater_disk::Access;
use highwater_log::options::{Durability, FileBarrier, WriteBarrier, WritePath, WritePathChoice};
use ipnet::IpNet;
use jiff::SignedDuration;

/// How a value is written in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// In quotes.
    Text,
    /// In quotes; the name of a file or directory.
    Path,
    /// As an integer or `true` and `false`.
    Bare,
    /// As an array of strings.
    List,
}

impl ValueKind {
    /// Writes text as a TOML value of this kind.
    pub fn toml(self, text: &str) -> String {
        match self {
            Self::Text | Self::Path => toml::Value::String(text.to_owned()).to_string(),
            Self::Bare => text.to_owned(),
            Self::List => {
                let items = text.split(',').filter(|item| !item.is_empty());
                let items = items.map(|item| toml::Value::String(item.to_owned()));
                toml::Value::Array(items.collect()).to_string()
            }
        }
    }
}

/// Gives the text of a TOML value, as [`Value::read`] takes it; nothing for what no setting can be.
pub fn text_of(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(switch) => Some(switch.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            items.map(|items| items.join(","))
        }
        _ => None,
    }
}

/// What a setting can be.
pub trait Value: Sized {
    /// How it is written in TOML.
    const KIND: ValueKind;

    /// Reads it.
    ///
    /// # Errors
    /// What would have done.
    fn read(text: &str) -> Result<Self, String>;

    /// Writes it so that [`Value::read`] reads it.
    fn show(&self) -> String;
}

macro_rules! number {
    ($($type:ty),+) => { $(
        impl Value for $type {
            const KIND: ValueKind = ValueKind::Bare;

            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("a number of at most {}", Self::MAX))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+ };
}

number!(u16, u32, u64);

macro_rules! counted {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => { $(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub u32);

        impl Value for $name {
            const KIND: ValueKind = ValueKind::Bare;

            fn read(text: &str) -> Result<Self, String> {
                u32::read(text).map(Self)
            }

            fn show(&self) -> String {
                self.0.to_string()
            }
        }

        impl $name {
            /// Gives it for use as a count of things in memory.
            pub fn get(self) -> usize {
                usize::try_from(self.0).unwrap_or(usize::MAX)
            }
        }
    )+ };
}

counted! {
    /// A number of things.
    Amount,
    /// A number per second; 0 is no limit.
    Rate,
    /// A number of threads; 0 is one for each core.
    Threads,
}

impl Value for bool {
    const KIND: ValueKind = ValueKind::Bare;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "true or false".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    const KIND: ValueKind = ValueKind::Text;

    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for PathBuf {
    const KIND: ValueKind = ValueKind::Path;

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a path".to_owned()) } else { Ok(Self::from(text)) }
    }

    fn show(&self) -> String {
        self.to_string_lossy().into_owned()
    }
}

impl Value for SocketAddr {
    const KIND: ValueKind = ValueKind::Text;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| {
            "an address and a port, as in 127.0.0.1:4437, 0.0.0.0:4437 or [::1]:4437".to_owned()
        })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Empty text is nothing.
impl<T: Value> Value for Option<T> {
    const KIND: ValueKind = T::KIND;

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::read(text).map(Some) }
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }
}

impl Value for Vec<String> {
    const KIND: ValueKind = ValueKind::List;

    fn read(text: &str) -> Result<Self, String> {
        Ok(items(text).map(str::to_owned).collect())
    }

    fn show(&self) -> String {
        self.join(",")
    }
}

impl Value for Vec<IpNet> {
    const KIND: ValueKind = ValueKind::List;

    fn read(text: &str) -> Result<Self, String> {
        let network = |item: &str| {
            item.parse().or_else(|_| item.parse::<std::net::IpAddr>().map(IpNet::from))
        };
        items(text)
            .map(|item| {
                network(item).map_err(|_| "networks, as in 10.0.0.0/8,127.0.0.1".to_owned())
            })
            .collect()
    }

    fn show(&self) -> String {
        self.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",")
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// Takes KiB.
    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// Takes MiB.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// Gives it for use as a size in memory.
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Gives it as a limit: 0 is none.
    pub const fn or_none(self) -> u64 {
        if self.0 == 0 { u64::MAX } else { self.0 }
    }

    /// Gives it as a setting that has 32 bits: what is larger is refused there.
    pub fn in_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

const SIZES: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl Value for Size {
    const KIND: ValueKind = ValueKind::Text;

    fn read(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim();
        let shift = match SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((_, shift)) => Some(*shift),
            None if unit.is_empty() || unit == "B" => Some(0),
            None => None,
        };
        let number: Option<u64> = number.parse().ok();
        let bytes = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| "a size, as in 4096, 512KiB, 8MiB or 1GiB".to_owned())
    }

    fn show(&self) -> String {
        let divides = |shift: u32| self.0 > 0 && self.0.trailing_zeros() >= shift;
        match SIZES.iter().find(|(_, shift)| divides(*shift)) {
            Some((unit, shift)) => format!("{}{unit}", self.0 >> shift),
            None => self.0.to_string(),
        }
    }
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// Takes seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl Value for Span {
    const KIND: ValueKind = ValueKind::Text;

    fn read(text: &str) -> Result<Self, String> {
        let parsed: Option<SignedDuration> = text.parse().ok();
        let length = parsed.and_then(|parsed| Duration::try_from(parsed).ok());
        let length = length.filter(|length| length.as_nanos().is_multiple_of(1000));
        length.map(Self).ok_or_else(|| "a time, as in 500ms, 30s, 5m or 1h".to_owned())
    }

    fn show(&self) -> String {
        match (self.0.as_secs(), self.0.subsec_micros()) {
            (seconds, 0) => format!("{seconds}s"),
            (0, micros) if micros % 1000 != 0 => format!("{micros}us"),
            (seconds, micros) if micros % 1000 != 0 => format!("{seconds}s {micros}us"),
            _ => format!("{}ms", self.0.as_millis()),
        }
    }
}

/// When an append is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurabilityMode(pub Durability);

impl DurabilityMode {
    /// After the barrier.
    pub const WAL: Self = Self(Durability::Wal);

    /// Says what an acknowledgement means.
    pub fn meaning(self) -> String {
        match self.0 {
            Durability::Wal => "an append is acknowledged when the disk has reported it stable. \
                 Neither a killed process nor a power cut takes it back."
                .to_owned(),
            Durability::Relaxed { within } => format!(
                "an append is acknowledged at once, and stable about {} later. A killed process or \
                 a power cut takes back what was acknowledged in that time.",
                Span(within).show()
            ),
            Durability::Memory => "an append is acknowledged when it is written, without a \
                 barrier. A killed process does not take it back; a power cut can."
                .to_owned(),
        }
    }
}

impl Value for DurabilityMode {
    const KIND: ValueKind = ValueKind::Text;

    fn read(text: &str) -> Result<Self, String> {
        let mode = match text.split_once('=') {
            None if text == "wal" => Some(Durability::Wal),
            None if text == "memory" => Some(Durability::Memory),
            Some(("relaxed", time)) => Span::read(time)
                .ok()
                .filter(|span| *span > Span::seconds(0))
                .map(|span| Durability::Relaxed { within: span.0 }),
            _ => None,
        };
        mode.map(Self).ok_or_else(|| "wal, memory, or relaxed=TIME as in relaxed=200ms".to_owned())
    }

    fn show(&self) -> String {
        match self.0 {
            Durability::Wal => "wal".to_owned(),
            Durability::Memory => "memory".to_owned(),
            Durability::Relaxed { within } => format!("relaxed={}", Span(within).show()),
        }
    }
}

/// How the log is written, if anybody has chosen: who names the path that is the default has, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritePathMode(pub Option<WritePathChoice>);

impl WritePathMode {
    /// Gives what was chosen, or what a log uses where nothing else is known.
    pub fn choice(self) -> WritePathChoice {
        self.0.unwrap_or(WritePathChoice::Fixed(WritePath::DEFAULT))
    }
}

const WRITE_PATHS: [(&str, WritePath); 4] = [
    ("direct-fdatasync", WritePath::DEFAULT),
    ("direct-rwf_dsync", WritePath { barrier: WriteBarrier::Dsync, ..WritePath::DEFAULT }),
    ("buffered-fdatasync", WritePath { access: Access::Buffered, ..WritePath::DEFAULT }),
    ("buffered-rwf_dsync", WritePath { access: Access::Buffered, barrier: WriteBarrier::Dsync }),
];

impl Value for WritePathMode {
    const KIND: ValueKind = ValueKind::Text;

    fn read(text: &str) -> Result<Self, String> {
        match (text, WRITE_PATHS.iter().find(|(name, _)| *name == text)) {
            ("default", _) => Ok(Self(None)),
            ("measured", _) => Ok(Self(Some(WritePathChoice::Measured))),
            (_, Some((_, path))) => Ok(Self(Some(WritePathChoice::Fixed(*path)))),
            (_, None) => {
                let names = WRITE_PATHS.map(|(name, _)| name).join(", ");
                Err(format!("default, measured, {names}"))
            }
        }
    }

    fn show(&self) -> String {
        let path = match self.0 {
            None => return "default".to_owned(),
            Some(WritePathChoice::Measured) => return "measured".to_owned(),
            Some(WritePathChoice::Fixed(path)) => path,
        };
        let known = WRITE_PATHS.iter().find(|(_, known)| *known == path);
        known.expect("every write path has a name").0.to_owned()
    }
}

macro_rules! words {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident { $( $(#[doc = $of:literal])+ $variant:ident = $word:literal ),+ $(,)? }
    )+) => { $(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $of])+ $variant ),+ }

        impl Value for $name {
            const KIND: ValueKind = ValueKind::Text;

            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err([$( $word ),+].join(" or ")),
                }
            }

            fn show(&self) -> String {
                match self { $( Self::$variant => $word.to_owned() ),+ }
            }
        }
    )+ };
}

words! {
    /// How a checkpoint makes streams durable.
    Barrier {
        /// One `syncfs` per stream lane.
        Syncfs = "syncfs",
        /// File by file.
        Files = "files",
    }
    /// Who may keep what is read.
    CachePolicy {
        /// Shared caches too.
        Public = "public",
        /// The client alone.
        Private = "private",
    }
    /// How threads share connections.
    Runtime {
        /// Each thread keeps its own.
        PerCore = "per-core",
        /// Any thread takes work.
        Shared = "shared",
    }
    /// How log lines look.
    LogFormat {
        /// For people.
        Text = "text",
        /// For machines.
        Json = "json",
    }
}

impl From<Barrier> for FileBarrier {
    fn from(barrier: Barrier) -> Self {
        match barrier {
            Barrier::Syncfs => Self::Syncfs,
            Barrier::Files => Self::Files,
        }
    }
}

impl fmt::Display for DurabilityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_with_their_units_and_written_back() {
        for (text, bytes) in [("4096", 4096), ("8MiB", 8 << 20), ("1 gib", 1 << 30), ("0", 0)] {
            assert_eq!(Size::read(text), Ok(Size(bytes)), "{text}");
            assert_eq!(Size::read(&Size(bytes).show()), Ok(Size(bytes)));
        }
        for text in ["", "8MB", "-1", "1.5MiB", "99999999999TiB", "MiB"] {
            assert!(Size::read(text).is_err(), "{text}");
        }
        for (text, millis) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(Span::read(text), Ok(Span(Duration::from_millis(millis))), "{text}");
        }
        for span in [Span(Duration::from_micros(1_500_001)), Span(Duration::from_millis(1500))] {
            assert_eq!(Span::read(&span.show()), Ok(span));
        }
        for text in ["", "5", "-5s", "s", "1 year"] {
            assert!(Span::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn modes_are_read_as_they_are_written_and_nonsense_is_refused() {
        for text in ["wal", "memory", "relaxed=200ms"] {
            assert_eq!(DurabilityMode::read(text).unwrap().show(), text);
        }
        for text in ["", "strict", "relaxed", "relaxed=", "relaxed=0s", "wal=1s"] {
            assert!(DurabilityMode::read(text).is_err(), "{text}");
        }
        let paths = WRITE_PATHS.map(|(name, _)| name);
        for text in ["default", "measured"].into_iter().chain(paths) {
            assert_eq!(WritePathMode::read(text).unwrap().show(), text);
        }
        assert!(Barrier::read("fsync").unwrap_err().contains("syncfs or files"));
    }

    #[test]
    fn a_single_address_is_a_network_of_one() {
        let networks = Vec::<IpNet>::read("10.0.0.0/8, 127.0.0.1").unwrap();
        assert_eq!(networks.show(), "10.0.0.0/8,127.0.0.1/32");
        assert!(Vec::<IpNet>::read("example.org").is_err());
    }
}
