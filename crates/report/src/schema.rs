//! The JSON Schema of `results.json`, kept in `docs/results.schema.json`.
//!
//! The file is written by `cargo test -p highwater-report -- --ignored write_results_schema`.

use schemars::schema_for;

use crate::results::Results;

/// Writes the schema of `results.json` as pretty JSON.
pub fn results_schema() -> String {
    let schema = schema_for!(Results);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;
    use crate::sample;

    const REWRITE: &str = "cargo test -p highwater-report -- --ignored write_results_schema";

    fn kept_schema() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.schema.json")
    }

    fn schema() -> Value {
        serde_json::from_str(&results_schema()).unwrap()
    }

    #[test]
    fn the_kept_schema_is_the_generated_one() {
        let kept = fs::read_to_string(kept_schema()).unwrap_or_default();
        assert!(
            kept == results_schema(),
            "docs/results.schema.json is out of date; run: {REWRITE}"
        );
    }

    #[test]
    #[ignore = "rewrites docs/results.schema.json; run it by name after changing Results"]
    fn write_results_schema() {
        fs::write(kept_schema(), results_schema()).unwrap();
    }

    #[test]
    fn results_of_every_kind_of_run_are_valid() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        for (_, results) in [sample::run(), sample::refused_run(), sample::killed_run()] {
            let value = serde_json::to_value(&results).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }

    #[test]
    fn broken_results_are_not_valid() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let good = serde_json::to_value(sample::run().1).unwrap();
        let breakages: [(&str, Value); 4] = [
            ("/cases/0/status", json!("fine")),
            ("/cases/0/case/barrier", json!("flush")),
            ("/cases/0/commit/p50_ns", json!("118 us")),
            ("/schema_version", Value::Null),
        ];
        for (place, value) in breakages {
            let mut broken = good.clone();
            *broken.pointer_mut(place).unwrap() = value;
            assert!(!validator.is_valid(&broken), "{place} was broken and passed");
        }
        let mut broken = good;
        broken.as_object_mut().unwrap().remove("machine");
        assert!(!validator.is_valid(&broken));
    }
}
