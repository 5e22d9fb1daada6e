//! Replays the kept inputs of the fuzz targets, and inputs close to them.

use std::path::PathBuf;

use proptest::prelude::*;

#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

/// The kept inputs of each target.
fn corpus() -> Vec<(String, targets::Target, Vec<u8>)> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = Vec::new();
    for (name, target) in targets::TARGETS {
        let folder = corpus.join(name);
        let files = std::fs::read_dir(&folder);
        let files = files.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for file in files {
            let path = file.expect("an entry of the folder").path();
            inputs.push((
                path.display().to_string(),
                target,
                std::fs::read(&path).expect("it was listed"),
            ));
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
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn inputs_close_to_kept_ones_keep_the_claims(
        which: prop::sample::Index,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut: Option<prop::sample::Index>,
    ) {
        let inputs = corpus();
        let (_, target, mut bytes) = inputs[which.index(inputs.len())].clone();
        for (at, value) in edits.iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        target(&bytes);
    }
}
