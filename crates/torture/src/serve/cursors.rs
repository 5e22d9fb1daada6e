//! What a subscription has said of its generations and cursors, and what it may say next.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Trouble;

/// What is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursors {
    /// Wakes that there were: the id of each generation.
    wakes: BTreeMap<u64, String>,
    /// Acknowledgements that were answered, by stream.
    sure: BTreeMap<String, String>,
    /// Acknowledgements that were asked for.
    asked: BTreeMap<String, String>,
    is_vouched_for: bool,
    arrival: Arrival,
}

/// How wakes come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Arrival {
    /// One after the other, as answers do.
    #[default]
    InOrder,
    /// An attempt to send one may be overtaken by the next, which fences it.
    AnyOrder,
}

impl Cursors {
    /// Begins; whether what is answered outlives the server is known.
    pub(super) fn new(is_vouched_for: bool, arrival: Arrival) -> Self {
        Self { is_vouched_for, arrival, ..Self::default() }
    }

    /// Takes a wake, and gives its streams with their tails.
    pub(super) fn woken(&mut self, wake: &Value) -> Result<Vec<(String, String)>, Trouble> {
        let wrong = |what: String| Err(Trouble::Wrong(format!("{what}: {wake}")));
        let (Some(generation), Some(id)) = (wake["generation"].as_u64(), wake["wake_id"].as_str())
        else {
            return wrong("a wake without generation and id".to_owned());
        };
        let known = self.wakes.get(&generation);
        if self.is_vouched_for && known.is_some_and(|known| known != id) {
            return wrong(format!("generation {generation} is of two wakes, {known:?} too"));
        }
        let last = self.wakes.last_key_value().map_or(0, |(last, _)| *last);
        if self.is_vouched_for && self.arrival == Arrival::InOrder && generation < last {
            return wrong(format!("a wake comes after generation {last}"));
        }
        self.wakes.insert(generation, id.to_owned());
        let mut tails = Vec::new();
        for stream in wake["streams"].as_array().into_iter().flatten() {
            let text = |name: &str| stream[name].as_str().unwrap_or_default().to_owned();
            let (path, acked, tail) = (text("path"), text("acked_offset"), text("tail_offset"));
            if acked > tail {
                return wrong(format!("the cursor of {path} is beyond its tail"));
            }
            self.stands(&path, &acked)?;
            tails.push((path, tail));
        }
        Ok(tails)
    }

    /// Notes that acknowledgements are about to be asked for; gives them as a request has them.
    pub(super) fn asking(&mut self, tails: &[(String, String)]) -> Value {
        for (path, tail) in tails {
            raise(&mut self.asked, path, tail);
        }
        tails.iter().map(|(path, tail)| json!({ "stream": path, "offset": tail })).collect()
    }

    /// Notes that they were answered.
    pub(super) fn answered(&mut self, tails: &[(String, String)]) {
        for (path, tail) in tails {
            raise(&mut self.sure, path, tail);
        }
    }

    /// Holds a cursor against what was answered.
    fn stands(&self, path: &str, acked: &str) -> Result<(), Trouble> {
        // Streams that are deleted and made anew begin anew.
        if !path.starts_with("shared/") {
            return Ok(());
        }
        let sure = self.sure.get(path).map_or("", String::as_str);
        if acked < sure && self.is_vouched_for {
            let what = format!("the cursor of {path} went back from {sure} to {acked}");
            return Err(Trouble::Wrong(what));
        }
        let start = highwater_streams::offset::Token(highwater_log::ids::Offset(0)).to_string();
        if self.asked.get(path).map_or(start.as_str(), String::as_str) < acked {
            let what = format!("the cursor of {path} is at {acked}, where nobody put it");
            return Err(Trouble::Wrong(what));
        }
        Ok(())
    }
}

fn raise(marks: &mut BTreeMap<String, String>, path: &str, offset: &str) {
    let mark = marks.entry(path.to_owned()).or_default();
    if mark.as_str() < offset {
        offset.clone_into(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(generation: u64, id: &str, acked: u64, tail: u64) -> Value {
        let token =
            |at| highwater_streams::offset::Token(highwater_log::ids::Offset(at)).to_string();
        json!({ "generation": generation, "wake_id": id, "streams": [
            { "path": "shared/0", "acked_offset": token(acked), "tail_offset": token(tail) },
        ] })
    }

    #[test]
    fn generations_and_cursors_that_go_back_are_noticed_and_so_are_those_nobody_asked_for() {
        let mut cursors = Cursors::new(true, Arrival::InOrder);
        let tails = cursors.woken(&wake(3, "a", 0, 10)).unwrap();
        cursors.asking(&tails);
        assert!(cursors.clone().woken(&wake(2, "b", 0, 10)).is_err(), "an old generation");
        assert!(cursors.clone().woken(&wake(3, "b", 0, 10)).is_err(), "two wakes of one");
        assert!(cursors.clone().woken(&wake(4, "b", 0, 10)).is_ok(), "not answered yet");
        assert!(cursors.clone().woken(&wake(4, "b", 10, 12)).is_ok(), "it may be taken");
        cursors.answered(&tails);
        assert!(cursors.clone().woken(&wake(4, "b", 0, 10)).is_err(), "it went back");
        assert!(cursors.clone().woken(&wake(4, "b", 11, 12)).is_err(), "nobody put it there");
        assert!(cursors.woken(&wake(4, "b", 10, 12)).is_ok());
        let mut any = Cursors::new(true, Arrival::AnyOrder);
        assert!(any.woken(&wake(4, "b", 0, 12)).is_ok());
        assert!(any.woken(&wake(3, "a", 0, 10)).is_ok(), "it was overtaken");
        assert!(any.woken(&wake(4, "c", 0, 12)).is_err(), "two wakes of one");
    }
}
