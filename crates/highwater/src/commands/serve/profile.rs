//! Finds the write path that a profile advises for the disk that the data is on.

use std::path::Path;

use anyhow::{Context, Result, bail};
use highwater_log::options::WritePathChoice;
use highwater_log::write_path::{Place, of_profile};
use highwater_probe::site::Site;
use highwater_server::settings::{Settings, WritePathMode};

/// Takes the write path from the profile that the settings name, if they do.
pub fn follow(settings: &mut Settings) -> Result<()> {
    let Some(profile) = &settings.profile else { return Ok(()) };
    if settings.write_path.0.is_some() {
        bail!("profile and write-path do not go together: leave one of them away");
    }
    let text = std::fs::read_to_string(profile)
        .with_context(|| format!("cannot read {}", profile.display()))?;
    // The directory may be one that is yet to be made.
    let existing = settings.data_dir.ancestors().find(|path| path.is_dir());
    let site = Site::open(existing.unwrap_or(Path::new(".")))?;
    let device = site.machine.leaf().map(|leaf| leaf.name.clone()).unwrap_or_default();
    let place = Place { filesystem: &site.machine.filesystem.kind, device: &device };
    let path = of_profile(&text, place).with_context(|| profile.display().to_string())?;
    settings.write_path = WritePathMode(Some(WritePathChoice::Fixed(path)));
    Ok(())
}
