//! Clients that read while others write, in every way: whatever one has seen has to be there after
//! any end of the server (I2). Those that follow a shared stream go on, in the next life, where
//! they were.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use highwater_log::ids::Offset;
use highwater_streams::offset::Token;
use serde_json::Value;

use super::http::{Client, Request};
use super::{Trouble, shelf, step_of};
use crate::dice::Dice;
use crate::real::{Report, records, shared_name};

/// How far a client has followed a shared stream; it outlives the server.
#[derive(Debug)]
pub(super) struct Place {
    stream: usize,
    offset: String,
    len: u64,
    /// The beginning of a record.
    rest: Vec<u8>,
    /// How often it was followed.
    turns: u64,
}

impl Place {
    /// Begins at the start of a shared stream.
    pub(super) fn new(stream: usize) -> Self {
        Self { stream, offset: "-1".to_owned(), len: 0, rest: Vec::new(), turns: 0 }
    }

    /// Follows until the connection is lost: by events, or by polls.
    pub(super) fn follow(&mut self, client: Client, reports: &Sender<Report>) {
        self.turns += 1;
        let is_even = (self.turns + u64::try_from(self.stream).unwrap_or(0)).is_multiple_of(2);
        let followed =
            if is_even { self.events(client, reports) } else { self.polls(client, reports) };
        // A server that ends an answer in time is no reason to stop; the next life goes on.
        if let Err(trouble) = followed {
            trouble.report(&format!("a reader of {}", shared_name(self.stream)), reports);
        }
    }

    fn polls(&mut self, mut client: Client, reports: &Sender<Report>) -> Result<(), Trouble> {
        loop {
            let name = shared_name(self.stream);
            let target = format!("{name}?offset={}&live=long-poll", self.offset);
            let answer = client.ask(&Request::new("GET", &target))?;
            let next = answer.header("stream-next-offset").unwrap_or_default().to_owned();
            match answer.status {
                200 => self.take(&answer.body, next, reports)?,
                // Nothing came: it stands where it stood.
                204 if self.offset == "-1" || next == self.offset => self.offset = next,
                _ => {
                    return Err(Trouble::Wrong(format!(
                        "a poll at {}: {}",
                        self.offset,
                        answer.told()
                    )));
                }
            }
        }
    }

    fn events(&mut self, client: Client, reports: &Sender<Report>) -> Result<(), Trouble> {
        let target = format!("{}?offset={}&live=sse", shared_name(self.stream), self.offset);
        let (begun, mut events) = client.follow(&Request::new("GET", &target))?;
        if begun.status != 200 {
            return Err(Trouble::Wrong(format!("events: {}", begun.told())));
        }
        let mut data = Vec::new();
        while let Some(event) = events.next()? {
            match event.name.as_str() {
                "data" => {
                    let bytes = STANDARD.decode(&event.data);
                    data = bytes.map_err(|_| Trouble::Wrong("data is no base64".to_owned()))?;
                }
                "control" => {
                    let control: Value = serde_json::from_str(&event.data)
                        .map_err(|error| format!("a control event: {error}"))?;
                    let next = control["streamNextOffset"].as_str().unwrap_or_default().to_owned();
                    self.take(&std::mem::take(&mut data), next, reports)?;
                }
                other => return Err(Trouble::Wrong(format!("an event {other:?}"))),
            }
        }
        Ok(())
    }

    /// Takes what came behind what it had.
    fn take(
        &mut self,
        bytes: &[u8],
        next: String,
        reports: &Sender<Report>,
    ) -> Result<(), Trouble> {
        self.len += u64::try_from(bytes.len()).expect("usize fits u64");
        let due = Token(Offset(self.len)).to_string();
        if next != due {
            return Err(Trouble::Wrong(format!(
                "after {} bytes the next offset is {next}",
                self.len
            )));
        }
        self.offset = next;
        self.rest.extend_from_slice(bytes);
        let left = records::split(&self.rest, &mut BTreeMap::new())?;
        self.rest = left.to_vec();
        reports.send(Report::SawShared { stream: self.stream, len: self.len }).ok();
        Ok(())
    }
}

/// Reads workers' streams as a whole until the connection is lost.
pub(super) fn read(mut client: Client, seed: u64, reports: &Sender<Report>) {
    let mut dice = Dice::new(seed);
    loop {
        match pass(&mut client, &mut dice) {
            Ok(saw) => saw.into_iter().for_each(|saw| drop(reports.send(saw))),
            Err(trouble) => return trouble.report("a reader", reports),
        }
        highwater_sys::time::sleep(std::time::Duration::from_millis(1));
    }
}

fn pass(client: &mut Client, dice: &mut Dice) -> Result<Vec<Report>, Trouble> {
    let names = shelf::names(client, "w")?;
    let mut saw = Vec::new();
    for _ in 0..names.len().min(3) {
        saw.extend(whole(client, &dice.pick(&names))?);
    }
    Ok(saw)
}

/// Reads a stream from its beginning; nothing if it is not the same one all the time.
fn whole(client: &mut Client, name: &str) -> Result<Option<Report>, Trouble> {
    let Some((seen, _)) = shelf::look(client, name)? else { return Ok(None) };
    let now = client.ask(&Request::new("HEAD", name))?;
    // The name may have been given to another stream; a step makes one.
    if now.header("content-type").and_then(step_of) != Some(seen.made) {
        return Ok(None);
    }
    let len = u64::try_from(seen.content.len()).expect("usize fits u64");
    let (name, made, is_closed) = (name.to_owned(), seen.made, seen.is_closed);
    Ok(Some(Report::Saw { name, made, len, crc: crc32c::crc32c(&seen.content), is_closed }))
}
