//! A process that is killed: does what it acknowledged survive, and do retries add nothing twice?
//!
//! Each cycle starts a process on the same store (see [`crate::real`]) and kills it with SIGKILL at
//! a random moment: at work, or while it opens. Then the store is judged, and the next process goes
//! on from there; what nobody was told of is asked for again. After some lives the store is a new
//! one, with other settings and in another durability mode.
//!
//! A killed process loses nothing that the kernel has: this finds what is wrong in the program, not
//! in its barriers. `shutdown` and `sim` lose power.

use std::os::unix::process::ExitStatusExt;

use crate::campaign::{Campaign, CampaignError, Stop};
use crate::dice::Dice;
use crate::real::{Disk, Kind, Subject};
use crate::verdict::{Layer, Verdict};
use crate::yard::Yard;

/// Most acknowledgements of a life, about.
const MOST_STEPS: u64 = 400;
/// Most lives of a store.
const MOST_LIVES: u64 = 16;

/// Runs cycles.
///
/// # Errors
/// When a process cannot be started or ended.
pub fn run(campaign: &mut Campaign<'_>) -> Result<Verdict, CampaignError> {
    let mut verdict = Verdict::new(Layer::Kill);
    let mut dice = Dice::new(campaign.seed);
    let mut yard = Yard::make(campaign.dir, Layer::Kill)?;
    let mut current: Option<(Subject, u64)> = None;
    while verdict.runs < campaign.cycles && !campaign.is_stopped() {
        verdict.runs += 1;
        let (mut subject, lives) = if let Some(current) = current.take() {
            current
        } else {
            let nature = campaign.nature(Kind::Kill, &mut dice);
            (Subject::new(yard.path(), nature)?, 1 + dice.below(MOST_LIVES))
        };
        let outcome = cycle(campaign, &mut subject, &mut dice);
        verdict.count_all(&subject.take_counts());
        if !campaign.conclude(&mut verdict, &mut yard, outcome, "")? {
            break;
        }
        if lives == 1 {
            subject.remove()?;
        } else {
            current = Some((subject, lives - 1));
        }
    }
    Ok(verdict)
}

/// One life, and what it left.
fn cycle(campaign: &Campaign<'_>, subject: &mut Subject, dice: &mut Dice) -> Result<(), Stop> {
    let mut life = subject.start(campaign.program, &[])?;
    subject.work(&mut life, dice, MOST_STEPS, campaign.stop)?;
    let status = subject.end(life, Disk::Works)?;
    if status.signal().is_none() {
        return Err(format!("the process ended by itself: {status}").into());
    }
    subject.judge(1 + dice.below(4) / 3)?;
    Ok(())
}
