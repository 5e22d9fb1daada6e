//! Configurations of streams, each kept once, however many streams have it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::request::Config;

/// Number of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigNo(u32);

impl ConfigNo {
    /// No configuration.
    pub const NONE: Self = Self(u32::MAX);
}

/// The configurations.
#[derive(Debug, Default)]
pub struct Configs {
    list: Vec<Option<Shared>>,
    free: Vec<ConfigNo>,
    numbers: HashMap<Arc<Config>, ConfigNo>,
    bytes: u64,
}

#[derive(Debug)]
struct Shared {
    config: Arc<Config>,
    streams: u32,
}

impl Configs {
    /// Gives a configuration's number to one stream more.
    pub fn share(&mut self, config: &Config) -> ConfigNo {
        if let Some(number) = self.numbers.get(config).copied() {
            self.share_again(number);
            return number;
        }
        let config = Arc::new(config.clone());
        self.bytes += config.bytes();
        let shared = Shared { config: Arc::clone(&config), streams: 1 };
        let number = if let Some(number) = self.free.pop() {
            self.list[place(number)] = Some(shared);
            number
        } else {
            self.list.push(Some(shared));
            ConfigNo(u32::try_from(self.list.len() - 1).expect("no more than streams"))
        };
        self.numbers.insert(config, number);
        number
    }

    /// Gives a number that a stream has to one stream more.
    pub fn share_again(&mut self, number: ConfigNo) {
        let shared = self.list[place(number)].as_mut().expect("a stream has it");
        shared.streams += 1;
    }

    /// Gives a stream's configuration.
    pub fn get(&self, number: ConfigNo) -> &Arc<Config> {
        &self.list[place(number)].as_ref().expect("a stream has it").config
    }

    /// Memory that they take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes it back from a stream; it goes with the last one.
    pub fn release(&mut self, number: ConfigNo) {
        let entry = &mut self.list[place(number)];
        let shared = entry.as_mut().expect("a stream has it");
        shared.streams -= 1;
        if shared.streams == 0 {
            self.numbers.remove(&shared.config);
            self.bytes -= shared.config.bytes();
            *entry = None;
            self.free.push(number);
        }
    }
}

fn place(number: ConfigNo) -> usize {
    usize::try_from(number.0).expect("u32 fits usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_configurations_are_kept_once_and_go_with_their_last_stream() {
        let mut configs = Configs::default();
        let json = Config { content_type: "application/json".to_owned(), ..Config::default() };
        let (a, b) = (configs.share(&json), configs.share(&json));
        let other = configs.share(&Config::default());
        assert_eq!(a, b);
        assert_ne!(a, other);
        configs.share_again(a);
        for _ in 0..3 {
            assert_eq!(**configs.get(a), json);
            configs.release(a);
        }
        assert_eq!((configs.numbers.len(), configs.bytes()), (1, Config::default().bytes()));
        // Its number is free.
        assert_eq!(configs.share(&json), a);
        assert_eq!(**configs.get(other), Config::default());
    }
}
