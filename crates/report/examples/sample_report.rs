//! Writes the pages of sample runs, so that a report can be looked at without measuring.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use highwater_report::html::report_html;
use highwater_report::sample;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::args_os().nth(1).ok_or("name a directory to write to")?);
    fs::create_dir_all(&out)?;
    for (name, (data, results)) in [
        ("report", sample::run()),
        ("refused", sample::refused_run()),
        ("killed", sample::killed_run()),
    ] {
        fs::write(out.join(format!("{name}.html")), report_html(&data, &results))?;
    }
    Ok(())
}
