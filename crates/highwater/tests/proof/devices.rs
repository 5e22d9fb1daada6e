//! Devices other than a plain disk: a partition, memory, a disk image or an overlay in memory, and
//! a disk without barriers (M8).

use std::path::Path;

use highwater_report::results::{ReceiptVerdict, Results};

use crate::environment::not_run;
use crate::image::{EXT4, Image, Mount, Recipe};
use crate::program::{Answer, Place, temporary};

/// What a probe says as JSON; it may refuse advice, but it must end well.
#[track_caller]
fn json(answer: Answer) -> Results {
    let answer = answer.expect_code(0);
    serde_json::from_str(&answer.stdout).expect("standard output holds the results")
}

/// Asserts that a probe gives no verdict, for a reason that holds these words.
#[track_caller]
fn assert_refused(results: &Results, words: &[&str]) {
    let advice = results.advice.as_ref().expect("a probe gives advice or says why not");
    let reasons = advice.refused.join("\n");
    assert!(words.iter().all(|word| reasons.contains(word)), "{reasons:?}");
    assert!(advice.path.is_none() && advice.headline.is_empty() && advice.systems.is_empty());
    let warned =
        results.warnings.iter().any(|warning| words.iter().all(|w| warning.seen.contains(w)));
    assert!(warned, "the reason is not among the warnings: {:?}", results.warnings);
}

#[test]
fn a_partition_is_counted_by_the_whole_disk_that_holds_it() {
    let image = match Image::partitioned(Recipe { mib: 256, ..EXT4 }) {
        Ok(image) => image,
        Err(reason) => return not_run("counters of a partition's disk", &reason),
    };
    let place = Place::at(image.path());
    let measured =
        place.measure("bench --state initialised --barrier fdatasync --iterations 30 --rounds 3");
    let devices = &measured.results.machine.devices;
    let kinds: Vec<_> = devices.iter().map(|device| (&*device.name, &*device.kind)).collect();
    let partition = format!("{}p1", image.device());
    assert_eq!(kinds[..2], [(&*partition, "partition"), (image.device(), "loop")]);
    let receipt = measured.only_case().receipt.as_ref().expect("a receipt");
    let top = receipt.top.as_ref().expect("counters of the whole loop disk");
    assert_eq!(top.device, image.device());
    let least = measured.rounds.iter().map(|row| row.top_flushes).min();
    assert_eq!(least, Some(Some(30)), "a partition itself counts no flushes");
}

#[test]
fn a_file_system_in_memory_is_measured_and_refused_a_verdict() {
    let memory = match Mount::new(Path::new("proof"), "tmpfs", "size=512m") {
        Ok(memory) => memory,
        Err(reason) => return not_run("a verdict on tmpfs", &reason),
    };
    let results = json(Place::at(memory.path()).run("probe --seconds 2"));
    assert_refused(&results, &["tmpfs", "memory"]);
    assert!(results.machine.devices.is_empty());
    for case in &results.cases {
        let verdict = case.receipt.as_ref().map(|receipt| receipt.verdict);
        let fits = verdict.is_none_or(|verdict| verdict == ReceiptVerdict::NoCounters);
        assert!(fits, "{}: {verdict:?}", case.label);
    }
}

#[test]
fn barriers_that_are_switched_off_leave_no_flush_and_get_no_verdict() {
    let claim = "ext4 mounted with barrier=0";
    let image = match Image::new(Recipe { options: "barrier=0,commit=600", ..EXT4 }) {
        Ok(image) => image,
        Err(reason) => return not_run(claim, &reason),
    };
    let place = Place::at(image.path());
    let measured = place.measure(
        "bench --state append,initialised --io buffered,direct --barrier fsync,fdatasync,o_dsync \
         --iterations 30 --rounds 2",
    );
    measured.expect_all_measured();
    let disk = measured.results.machine.leaf();
    let write_through = disk.and_then(|disk| disk.write_cache.as_deref()) == Some("write through");
    for case in &measured.results.cases {
        let receipt = case.receipt.as_ref().expect("a receipt");
        let flushes = receipt.top.as_ref().map(|top| top.flushes);
        assert_eq!(flushes, Some(0.0), "{}", case.label);
        let elided = write_through && receipt.verdict == ReceiptVerdict::Elided;
        assert!(elided || receipt.verdict == ReceiptVerdict::Absent, "{}: {receipt:?}", case.label);
    }
    assert_refused(&json(place.run("probe --seconds 2")), &["nobarrier"]);
}

#[test]
fn a_disk_image_that_lies_in_memory_is_refused_a_verdict() {
    let claim = "a verdict on ext4 whose image file lies on tmpfs";
    let memory = match Mount::new(Path::new("proof"), "tmpfs", "size=512m") {
        Ok(memory) => memory,
        Err(reason) => return not_run(claim, &reason),
    };
    let folder = tempfile::tempdir_in(memory.path()).expect("a directory in memory");
    let image = match Image::kept_in(folder, Recipe { mib: 256, ..EXT4 }) {
        Ok(image) => image,
        Err(reason) => return not_run(claim, &reason),
    };
    let results = json(Place::at(image.path()).run("probe --seconds 2"));
    assert_refused(&results, &["tmpfs", "memory", &memory.path().display().to_string()]);
    let names = device_names(&results);
    assert_eq!(names, [image.device(), &memory.path().display().to_string()]);
}

#[test]
fn an_overlay_is_judged_by_what_holds_its_upper_directory() {
    let claim = "a verdict on an overlay";
    let (lower, on_disk) = (temporary(), temporary());
    let memory = match Mount::new(Path::new("proof"), "tmpfs", "size=512m") {
        Ok(memory) => memory,
        Err(reason) => return not_run(claim, &reason),
    };
    let over = |upper: &Path| {
        let [changed, work] = ["changed", "work"].map(|name| upper.join(name));
        for dir in [&changed, &work] {
            std::fs::create_dir(dir).expect("a directory");
        }
        let (lower, changed, work) = (lower.path().display(), changed.display(), work.display());
        let options = format!("lowerdir={lower},upperdir={changed},workdir={work}");
        Mount::new(Path::new("proof"), "overlay", &options)
    };
    let (in_memory, durable) = match (over(memory.path()), over(on_disk.path())) {
        (Ok(in_memory), Ok(durable)) => (in_memory, durable),
        (Err(reason), _) | (_, Err(reason)) => return not_run(claim, &reason),
    };
    let results = json(Place::at(in_memory.path()).run("probe --seconds 2"));
    assert_refused(&results, &["tmpfs", "memory"]);
    // The disk below the upper directory is the one that is counted.
    let words = "bench --barrier fdatasync --iterations 20 --rounds 2";
    let below = Place::at(on_disk.path()).measure(words).results;
    let above = Place::at(durable.path()).measure(words).results;
    assert_eq!(device_names(&above)[1..], device_names(&below)[..]);
    let verdict = |results: &Results| results.cases[0].receipt.as_ref().map(|r| r.verdict);
    assert_ne!(verdict(&above), Some(ReceiptVerdict::NoCounters), "{:?}", verdict(&below));
}

fn device_names(results: &Results) -> Vec<&str> {
    results.machine.devices.iter().map(|device| device.name.as_str()).collect()
}
