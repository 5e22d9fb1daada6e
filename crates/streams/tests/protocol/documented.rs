//! Holds docs/protocol.md against the tests.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn collect(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_document_names_is_there() {
    let document = std::fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let mut code = String::new();
    for package in std::fs::read_dir(root().join("crates")).unwrap() {
        let package = package.unwrap().path();
        for folder in ["src", "tests"] {
            if package.join(folder).is_dir() {
                collect(&package.join(folder), &mut code);
            }
        }
    }
    let names = document.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 2);
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 80, "{}", names.len());
    let missing: Vec<&&str> =
        names.iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
