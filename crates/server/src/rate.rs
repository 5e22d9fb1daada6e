//! How often one caller may ask: a bucket of tokens for each, and bounded memory for all (I11).
//!
//! Callers are those of a token; without a valid one, addresses, and of IPv6 networks of them: a
//! single client has as many addresses as it likes. Addresses have a second bucket for tokens that
//! were not valid, which is looked at before a signature is checked.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::Settings;

const SHARDS: u64 = 16;
/// Buckets in a shard before some are dropped.
const MOST_IN_SHARD: usize = 4096;
/// Buckets that are dropped at once, so that it is seldom done.
const DROPPED_AT_ONCE: usize = MOST_IN_SHARD / 4;

/// Limits requests per second.
#[derive(Debug)]
pub(crate) struct Limiter {
    per_second: f64,
    burst: f64,
    networks: Networks,
    hasher: RandomState,
    shards: Vec<Mutex<Buckets>>,
}

type Buckets = HashMap<u64, Bucket>;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// What addresses count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Networks {
    ipv6_bits: u32,
}

impl Networks {
    /// Takes the settings.
    pub fn new(settings: &Settings) -> Self {
        Self { ipv6_bits: u32::from(settings.rate_ipv6_prefix) }
    }

    /// Gives the first address of those that count as one with this.
    pub fn of(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - self.ipv6_bits.min(128)).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        }
    }
}

impl Limiter {
    /// Takes the settings; nothing where there is no limit.
    pub fn new(settings: &Settings) -> Option<Self> {
        (settings.rate_limit.0 > 0).then(|| Self {
            per_second: f64::from(settings.rate_limit.0),
            burst: f64::from(settings.rate_burst.0),
            networks: Networks::new(settings),
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

    /// Takes one request of an address.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take_address(&self, address: IpAddr) -> Result<(), Duration> {
        self.take(self.hasher.hash_one(("address", self.networks.of(address))))
    }

    /// Whether another signature of an address's is to be checked.
    ///
    /// # Errors
    /// How long to wait.
    pub fn check_unproven(&self, address: IpAddr) -> Result<(), Duration> {
        let key = self.unproven(address);
        let now = Instant::now();
        let buckets = self.shard(key);
        let tokens = buckets.get(&key).map_or(self.burst, |bucket| self.filled(bucket, now));
        if tokens >= 1.0 { Ok(()) } else { Err(self.wait(tokens)) }
    }

    /// Counts a token of an address's that was not valid.
    pub fn count_unproven(&self, address: IpAddr) {
        // What is beyond the rate was let in at the same moment as what reached it.
        self.take(self.unproven(address)).ok();
    }

    fn unproven(&self, address: IpAddr) -> u64 {
        self.hasher.hash_one(("unproven", self.networks.of(address)))
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Buckets> {
        let shard = usize::try_from(key % SHARDS).expect("a shard's number is small");
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: u64) -> Result<(), Duration> {
        let now = Instant::now();
        let mut buckets = self.shard(key);
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
        Err(self.wait(bucket.tokens))
    }

    fn wait(&self, tokens: f64) -> Duration {
        Duration::from_secs_f64((1.0 - tokens) / self.per_second)
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.duration_since(bucket.at).as_secs_f64();
        passed.mul_add(self.per_second, bucket.tokens).min(self.burst)
    }

    /// Drops the fullest: a crowd, however large, gives nobody back what it has used up.
    fn make_room(&self, buckets: &mut Buckets, now: Instant) {
        let mut order: Vec<(f64, u64)> =
            buckets.iter().map(|(key, bucket)| (self.filled(bucket, now), *key)).collect();
        order.select_nth_unstable_by(DROPPED_AT_ONCE, |one, other| other.0.total_cmp(&one.0));
        for (_, key) in &order[..DROPPED_AT_ONCE] {
            buckets.remove(key);
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

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
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
        assert!(limiter.take_address("10.0.0.1".parse().unwrap()).is_ok());
        assert!(limiter.take_address("::ffff:10.0.0.1".parse().unwrap()).is_err(), "it is one");
    }

    #[test]
    fn how_wide_an_ipv6_network_is_can_be_set() {
        let of = |bits, text: &str| {
            let settings = Settings { rate_ipv6_prefix: bits, ..Settings::default() };
            Networks::new(&settings).of(text.parse().unwrap()).to_string()
        };
        let address = "2001:db8:1:2ff:3::4";
        assert_eq!(of(64, address), "2001:db8:1:2ff::");
        assert_eq!(of(56, address), "2001:db8:1:200::");
        assert_eq!(of(48, address), "2001:db8:1::");
        assert_eq!(of(128, address), address);
        assert_eq!(of(0, address), "::");
        assert_eq!(of(48, "10.1.2.3"), "10.1.2.3");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_however_many_callers_come() {
        // I11
        let limiter = limiter(1, 1);
        for number in 0..200_000 {
            limiter.take_address(address(number)).ok();
        }
        let held: usize = limiter.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(held <= 16 * MOST_IN_SHARD, "{held}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_does_not_give_back_what_somebody_has_used_up() {
        let limiter = limiter(1, 10);
        let (greedy, named) = (address(u32::MAX), "greedy");
        while limiter.take_address(greedy).is_ok() {}
        while limiter.take_named(named).is_ok() {}
        for number in 0..200_000 {
            assert!(limiter.take_address(address(number)).is_ok(), "a newcomer has its burst");
        }
        assert!(limiter.take_address(greedy).is_err());
        assert!(limiter.take_named(named).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_that_are_not_valid_count_against_their_address_alone() {
        let limiter = limiter(1, 2);
        for _ in 0..2 {
            limiter.check_unproven(address(1)).unwrap();
            limiter.count_unproven(address(1));
        }
        let wait = limiter.check_unproven(address(1)).unwrap_err();
        assert!(
            limiter.check_unproven(address(2)).is_ok() && limiter.take_address(address(1)).is_ok()
        );
        tokio::time::advance(wait).await;
        assert!(limiter.check_unproven(address(1)).is_ok());
    }

    #[test]
    fn no_limit_is_no_limiter() {
        assert!(Limiter::new(&Settings::default()).is_none());
    }
}
