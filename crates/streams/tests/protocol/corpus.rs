//! Replays the kept inputs of the fuzz targets, and inputs close to them.

use std::path::PathBuf;

use proptest::prelude::*;

#[path = "../../../../fuzz/src/streams.rs"]
mod targets;

/// The kept inputs of each target.
fn corpus() -> Vec<(String, targets::Target, Vec<u8>)> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = Vec::new();
    for (name, target) in targets::TARGETS {
        for file in std::fs::read_dir(corpus.join(name)).unwrap() {
            let path = file.unwrap().path();
            inputs.push((path.display().to_string(), target, std::fs::read(&path).unwrap()));
        }
    }
    inputs.sort_by(|a, b| a.0.cmp(&b.0));
    inputs
}

#[test]
fn every_kept_input_keeps_the_claims_of_its_target() {
    let inputs = corpus();
    assert!(inputs.len() >= targets::TARGETS.len(), "each target has inputs");
    for (path, target, bytes) in inputs {
        // The test's output is shown when a target panics, and its last line names the input.
        println!("{path}");
        target(&bytes);
    }
}

proptest! {
    #[test]
    fn inputs_close_to_the_kept_ones_keep_the_claims(
        which: prop::sample::Index, at: prop::sample::Index, byte: u8, cut: prop::sample::Index
    ) {
        let inputs = corpus();
        let (_, target, mut bytes) = which.get(&inputs).clone();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            target(&bytes);
            bytes.truncate(cut.index(bytes.len()));
        }
        target(&bytes);
    }
}
