//! Rules for what may be committed at all: sizes, numbering, and text that belongs to one machine.

use super::SourceFile;

/// Bytes that a committed file may have.
const MOST_BYTES: u64 = 2 << 20;
/// Folders whose files are numbered `NNNN-title.md`, from 0000 or 0001 on, without gaps.
const NUMBERED: [&str; 2] = ["docs/decisions/", "docs/incidents/"];

/// Folders of one machine; written in pieces so that this file does not hold them itself.
const MACHINE_FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// Hosts of package registries: clients know them, and mirrors go by other names.
const REGISTRY_HOSTS: [&str; 7] = [
    concat!("registry.npm", "js.org"),
    concat!("index.cr", "ates.io"),
    concat!("static.cr", "ates.io"),
    concat!("py", "pi.org"),
    concat!("files.python", "hosted.org"),
    concat!("deb.deb", "ian.org"),
    concat!("security.deb", "ian.org"),
];

/// Applies all rules.
pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        if file.size_bytes > MOST_BYTES {
            let (path, bytes) = (&file.path, file.size_bytes);
            findings.push(format!("{path}: {bytes} bytes, {MOST_BYTES} at most"));
        }
        findings.extend(check_places(file));
    }
    for folder in NUMBERED {
        findings.extend(check_numbers(folder, files));
    }
    findings
}

/// Finds folders of one machine and hosts of registries.
fn check_places(file: &SourceFile) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, number) in file.text.as_deref().unwrap_or_default().lines().zip(1..) {
        for folder in MACHINE_FOLDERS {
            if starts_a_path(line, folder) {
                findings
                    .push(format!("{}:{number}: {folder} is a place on one machine", file.path));
            }
        }
        for host in REGISTRY_HOSTS.iter().filter(|host| line.contains(**host)) {
            findings.push(format!("{}:{number}: {host} is a registry's host", file.path));
        }
    }
    findings
}

/// Whether the line holds the folder as the start of a path, not inside a longer one.
fn starts_a_path(line: &str, folder: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '*' | ')');
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(inside))
}

/// Checks that numbers follow each other.
fn check_numbers(folder: &str, files: &[SourceFile]) -> Vec<String> {
    let names = files.iter().filter_map(|file| file.path.strip_prefix(folder));
    let (mut numbers, mut findings) = (Vec::new(), Vec::new());
    for name in names.filter(|name| *name != "README.md") {
        let number = name.split_once('-').filter(|(digits, _)| digits.len() == 4);
        match number.and_then(|(digits, _)| digits.parse::<usize>().ok()) {
            Some(number) => numbers.push(number),
            None => findings.push(format!("{folder}{name}: not named NNNN-title.md")),
        }
    }
    numbers.sort_unstable();
    let first = numbers.first().copied().unwrap_or_default().min(1);
    for (number, expected) in numbers.iter().zip(first..) {
        if *number != expected {
            findings
                .push(format!("{folder}: {expected:04} is missing, or {number:04} stands twice"));
            break;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn large_files_are_found() {
        let mut large = file("reports/data.bin", "");
        large.size_bytes = MOST_BYTES + 1;
        assert_eq!(check(&[large]).len(), 1);
    }

    #[test]
    fn places_of_one_machine_are_found_and_longer_paths_are_not() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(check(&[file("a.md", &format!("see {folder}x"))]).len(), 1);
            assert!(check(&[file("a.md", &format!("see target{folder}x"))]).is_empty());
        }
        for host in REGISTRY_HOSTS {
            assert_eq!(check(&[file("a.json", &format!("\"https://{host}/x\""))]).len(), 1);
        }
    }

    #[test]
    fn numbers_follow_each_other() {
        let named = |names: &[&str]| -> Vec<SourceFile> {
            names.iter().map(|name| file(&format!("docs/decisions/{name}"), "")).collect()
        };
        assert!(check(&named(&["0000-a.md", "0001-b.md", "README.md"])).is_empty());
        assert!(check(&named(&["0001-b.md", "0002-c.md"])).is_empty());
        assert!(check(&named(&["0000-a.md", "0002-c.md"]))[0].contains("0001 is missing"));
        assert!(check(&named(&["0000-a.md", "0000-b.md"]))[0].contains("stands twice"));
        assert!(check(&named(&["first.md"]))[0].contains("NNNN"));
    }
}
