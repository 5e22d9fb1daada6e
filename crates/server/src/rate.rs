//! How often one caller may ask: a bucket of tokens for each, and bounded memory for all (I11).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::Settings;

const SHARDS: usize = 16;
/// Buckets in a shard before those that are full again are dropped.
const MOST_IN_SHARD: usize = 4096;

/// Limits requests per second.
#[derive(Debug)]
pub(crate) struct Limiter {
    per_second: f64,
    burst: f64,
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<u64, Bucket>>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Limiter {
    /// Takes the settings; nothing where there is no limit.
    pub fn new(settings: &Settings) -> Option<Self> {
        (settings.rate_limit.0 > 0).then(|| Self {
            per_second: f64::from(settings.rate_limit.0),
            burst: f64::from(settings.rate_burst.0),
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        })
    }

    /// Takes one request of somebody with a token.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take_named(&self, name: &str) -> Result<(), Duration> {
        self.take(self.hasher.hash_one(("name", name)))
    }

    /// Takes one request of an address; of IPv6, of its network of 64 bits.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take_address(&self, address: IpAddr) -> Result<(), Duration> {
        self.take(match address {
            IpAddr::V4(address) => self.hasher.hash_one(address),
            IpAddr::V6(address) => self.hasher.hash_one(address.to_bits() >> 64),
        })
    }

    fn take(&self, key: u64) -> Result<(), Duration> {
        let now = Instant::now();
        let shard = usize::try_from(key % 16).expect("a shard's number is small");
        let mut buckets =
            self.shards[shard].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if buckets.len() >= MOST_IN_SHARD && !buckets.contains_key(&key) {
            self.make_room(&mut buckets, now);
        }
        let bucket = buckets.entry(key).or_insert(Bucket { tokens: self.burst, at: now });
        bucket.tokens = self.filled(bucket, now);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - bucket.tokens) / self.per_second))
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.duration_since(bucket.at).as_secs_f64();
        passed.mul_add(self.per_second, bucket.tokens).min(self.burst)
    }

    /// Drops what is full again, or everything: a crowd that large is not one caller.
    fn make_room(&self, buckets: &mut HashMap<u64, Bucket>, now: Instant) {
        buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
        if buckets.len() >= MOST_IN_SHARD {
            buckets.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Rate;

    fn limiter(rate: u32, burst: u32) -> Limiter {
        let settings =
            Settings { rate_limit: Rate(rate), rate_burst: Rate(burst), ..Settings::default() };
        Limiter::new(&settings).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_then_the_rate_counts_and_each_caller_counts_alone() {
        let limiter = limiter(10, 3);
        for _ in 0..3 {
            assert!(limiter.take_named("a").is_ok());
        }
        let wait = limiter.take_named("a").unwrap_err();
        assert!(limiter.take_named("b").is_ok());
        tokio::time::advance(wait).await;
        assert!(limiter.take_named("a").is_ok());
        assert!(limiter.take_named("a").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_ipv6_network_are_one_caller() {
        let limiter = limiter(1, 1);
        assert!(limiter.take_address("2001:db8::1".parse().unwrap()).is_ok());
        assert!(limiter.take_address("2001:db8::ffff".parse().unwrap()).is_err());
        assert!(limiter.take_address("2001:db8:0:1::1".parse().unwrap()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_however_many_callers_come() {
        let limiter = limiter(1, 1);
        for number in 0..200_000_u32 {
            let _answer = limiter.take_address(IpAddr::from(number.to_be_bytes()));
        }
        let held: usize = limiter.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(held <= SHARDS * MOST_IN_SHARD, "{held}");
    }

    #[test]
    fn no_limit_is_no_limiter() {
        assert!(Limiter::new(&Settings::default()).is_none());
    }
}
