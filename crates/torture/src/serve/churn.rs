//! Subscriptions that come and go: what was made is there after a kill, what was deleted is not
//! (I5).

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use serde_json::json;

use super::Trouble;
use super::http::{Client, Request};
use crate::dice::Dice;
use crate::real::Report;

/// Subscriptions that there are at most.
const SLOTS: u64 = 6;

/// What is known of them.
#[derive(Debug)]
pub(super) struct Churn {
    dice: Dice,
    made: u64,
    states: BTreeMap<String, State>,
}

/// What is known of one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It is there, with this description.
    There(String),
    /// It is not.
    Gone,
    /// A request was under way: it is there, with this description, or not.
    Doubt(String),
}

impl Churn {
    /// Begins a store.
    pub(super) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed ^ 0xC0FE), made: 0, states: BTreeMap::new() }
    }

    /// Makes and deletes until the connection is lost.
    pub(super) fn run(&mut self, mut client: Client, reports: &Sender<Report>) {
        let trouble = loop {
            if let Err(trouble) = self.turn(&mut client) {
                break trouble;
            }
            highwater_sys::time::sleep(std::time::Duration::from_millis(5));
        };
        trouble.report("subscriptions that come and go", reports);
    }

    /// Holds what is there against what was answered.
    pub(super) fn judge(&mut self, client: &mut Client, is_sure: bool) -> Result<(), Trouble> {
        for (id, state) in &mut self.states {
            let answer = client.ask(&Request::new("GET", &super::subscription(id)))?;
            let found = match answer.status {
                200 => answer.json()?["description"].as_str().map(str::to_owned),
                404 => None,
                _ => return Err(Trouble::Wrong(format!("{id}: {}", answer.told()))),
            };
            let is_due = match (&*state, &found) {
                (State::There(due), found) => found.as_ref() == Some(due),
                (State::Gone, found) => found.is_none(),
                (State::Doubt(due), found) => found.as_ref().is_none_or(|found| found == due),
            };
            if is_sure && !is_due {
                let what = format!("I5: subscription {id} is {found:?} where {state:?} is due");
                return Err(Trouble::Wrong(what));
            }
            *state = found.map_or(State::Gone, State::There);
        }
        Ok(())
    }

    fn turn(&mut self, client: &mut Client) -> Result<(), Trouble> {
        let id = format!("c{}", self.dice.below(SLOTS));
        let path = super::subscription(&id);
        let state = self.states.get(&id).cloned().unwrap_or(State::Gone);
        let (request, due, after, doubt) = match state {
            State::There(text) => {
                (Request::new("DELETE", &path), 204, State::Gone, State::Doubt(text))
            }
            State::Gone | State::Doubt(_) => {
                self.made += 1;
                let text = format!("number {}", self.made);
                let body = json!({
                    "type": "pull-wake", "pattern": "none/**", "wake_stream": "sub/none",
                    "description": text,
                });
                let request = Request::new("PUT", &path).json(&body);
                (request, 201, State::There(text.clone()), State::Doubt(text))
            }
        };
        let before = self.states.insert(id.clone(), doubt);
        let answer = client.ask(&request)?;
        if answer.is_busy() {
            self.states.insert(id, before.unwrap_or(State::Gone));
            return Ok(());
        }
        super::expect(&answer, &[due], &format!("subscription {id}"))?;
        self.states.insert(id, after);
        Ok(())
    }
}
