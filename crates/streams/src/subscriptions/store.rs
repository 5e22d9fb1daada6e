//! Where a store's keys are kept: in the reserved stream `__ds/keys`, one line for each making.

use highwater_log::Log;
use highwater_log::request::{Append, Config, Create, End};

use super::journal::read_all;
use super::keys::{Entropy, KeyRecord, Keys};
use crate::error::{Outcome, Problem};

const NAME: &str = "__ds/keys";

/// Reads the keys of a store, or makes them: the same ones from then on.
///
/// # Errors
/// What the log gives, and [`Problem::Damaged`].
pub async fn open_keys(log: &Log, entropy: &dyn Entropy) -> Outcome<Keys> {
    if log.info(NAME).is_none() {
        let record = KeyRecord::generate(entropy);
        let (line, config) = (line(&record), Config::default());
        let create = Create { name: NAME, config: &config, payload: &line, end: End::Open };
        log.create(&create)?.await?;
        return Keys::new(&[record]);
    }
    read(log)
}

/// Keeps another key, durably, also where acknowledgements run ahead of the barrier.
///
/// # Errors
/// What the log gives.
pub(super) async fn add_key(log: &Log, record: &KeyRecord) -> Outcome<()> {
    let line = line(record);
    let (content_type, producer, sequence) = (None, None, None);
    let append =
        Append { name: NAME, payload: &line, end: End::Open, content_type, producer, sequence };
    log.append(&append)?.await?;
    if let Some(settled) = log.settle(NAME) {
        settled.await?;
    }
    Ok(())
}

fn read(log: &Log) -> Outcome<Keys> {
    let bytes = read_all(log, NAME)?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records: Result<Vec<KeyRecord>, _> = lines.map(serde_json::from_slice).collect();
    // The error would show what it could not read.
    let damaged = || Problem::Damaged("the keys of this store cannot be read".to_owned());
    Keys::new(&records.map_err(|_| damaged())?)
}

fn line(record: &KeyRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("text and numbers can be written as JSON");
    line.push(b'\n');
    line
}
